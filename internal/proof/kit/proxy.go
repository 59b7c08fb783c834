package kit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// StartTimeout is how long something may take that normally takes a moment, on a machine that is busy.
const StartTimeout = 30 * time.Second

// Proxy is a proxy in a directory of its own, through several processes one after the other. One goroutine owns it; the methods of [Admin] and
// [Process] may be called from any while no process replaces another.
type Proxy struct {
	*Admin   // over its socket
	*Process // the one that serves; nil before the first

	// Listen is its address for clients, which stays the same.
	Listen string
	// Name is its name, and Directory has its log, its admin socket and its state.
	Name, Directory string
	// Binary is the program.
	Binary string
	// Through is a command that runs the program, with its arguments; nil for none.
	Through []string
	// Environment is added to this process's.
	Environment []string
	// State is the state directory of the next process.
	State string
	// Replaced are the processes that upgrades have replaced and that were not waited for, the oldest first.
	Replaced []*Process
}

// NewProxy returns a proxy without a process, at a free address, and makes its directory below another.
func NewProxy(binary, name, directory string) (*Proxy, error) {
	p := &Proxy{Binary: binary, Name: name, Directory: filepath.Join(directory, name)}
	p.State = filepath.Join(p.Directory, "state")
	p.Admin = NewAdmin(p.Socket())
	var err error
	if p.Listen, err = freeport.Address(); err != nil {
		return nil, err
	}
	return p, os.MkdirAll(p.Directory, 0o700)
}

// Socket returns the path of the admin socket.
func (p *Proxy) Socket() string { return filepath.Join(p.Directory, "admin.sock") }

// LogFile returns the path of the log of all processes.
func (p *Proxy) LogFile() string { return filepath.Join(p.Directory, "log") }

// Log returns the log so far.
func (p *Proxy) Log() string {
	text, _ := os.ReadFile(p.LogFile()) // it may not be there yet
	return string(text)
}

// Serve starts a process with further arguments.
func (p *Proxy) Serve(further ...string) error {
	arguments := append(append([]string{}, p.Through...), p.Binary, "serve", "--listen", p.Listen, "--admin-socket", p.Socket(), "--state-directory", p.State)
	arguments = append(arguments, further...)
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "---- %q\n", arguments)
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), p.Environment...)
	Separate(command)
	p.Process, err = Start("proxy "+p.Name, command)
	return err
}

// Start is Serve, and returns when the process answers.
func (p *Proxy) Start(ctx context.Context, further ...string) error {
	if err := p.Serve(further...); err != nil {
		return err
	}
	return p.Answers(ctx)
}

// Until waits until the condition holds, for StartTimeout at most.
func (p *Proxy) Until(ctx context.Context, what string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	if err := p.Process.Until(ctx, what, condition); err != nil {
		return fmt.Errorf("proxy %s: %w; its log is %s", p.Name, err, p.LogFile())
	}
	return nil
}

// Answers waits until the process's admin API answers.
func (p *Proxy) Answers(ctx context.Context) error {
	return p.Until(ctx, "the proxy answers", func() (bool, error) {
		_, err := p.Stats(ctx)
		return err == nil, nil
	})
}

// Ready waits until the proxy can serve clients.
func (p *Proxy) Ready(ctx context.Context) error {
	return p.Until(ctx, "it is ready", func() (bool, error) { return p.Get(ctx, "/readyz", nil) == nil, nil })
}

// End ends the process in order.
func (p *Proxy) End(timeout time.Duration) error {
	err := p.Signal(syscall.SIGTERM)
	if err == nil {
		err = p.WaitForSuccess(timeout)
	}
	if err != nil {
		return fmt.Errorf("%w; its log is %s", err, p.LogFile())
	}
	return nil
}

// KillAll kills what is left of all processes.
func (p *Proxy) KillAll() {
	for _, q := range append(p.Replaced, p.Process) {
		if q != nil {
			q.Kill()
		}
	}
}

// upgraded is what `wsbouncer upgrade` says at its end about the process that serves then.
var upgraded = regexp.MustCompile(`^Upgraded: process (\d+), `)

// Upgrade has another process, of a program, take over. The one before drains as long as its sessions last. It calls line, if that is not nil, with
// each line of the command's output, and returns the last.
func (p *Proxy) Upgrade(ctx context.Context, binary string, line func(string)) (last string, err error) {
	command := exec.CommandContext(ctx, p.Binary, "upgrade", "--admin", "unix:"+p.Socket(), "--binary", binary, "--why", "proof")
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if line != nil {
			line(last)
		}
	}
	match := upgraded.FindStringSubmatch(last)
	if err = command.Wait(); err == nil && match == nil {
		err = errors.New("the command does not name the process that serves")
	}
	if err != nil {
		return last, fmt.Errorf("upgrading %s: %w: %s; its log is %s", p.Name, err, last, p.LogFile())
	}
	pid, _ := strconv.Atoi(match[1])
	next, err := adopt("proxy "+p.Name, pid)
	if err == nil {
		p.Replaced, p.Process = append(p.Replaced, p.Process), next
	}
	return last, err
}

// Operate runs a command of the program, as an operator does, and returns what it printed.
func Operate(ctx context.Context, binary string, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, arguments...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("wsbouncer %s: %w\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out), err
}

// OperateAll runs commands of the program on a database, one after the other, and returns what the last one printed.
func OperateAll(ctx context.Context, binary, database string, commands ...[]string) (out string, err error) {
	for _, arguments := range commands {
		if out, err = Operate(ctx, binary, append(arguments, "--database", database)...); err != nil {
			return "", err
		}
	}
	return out, nil
}

// AddKey has the program make an API key, and returns it with the version of the configuration that has it.
func AddKey(ctx context.Context, binary, name string, further ...string) (key, version string, err error) {
	var added struct{ Key, Version string }
	text, err := Operate(ctx, binary, append([]string{"key", "add", name, "-o", "json"}, further...)...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &added)
	}
	if err != nil {
		return "", "", fmt.Errorf("making a key: %w", err)
	}
	return added.Key, added.Version, nil
}
