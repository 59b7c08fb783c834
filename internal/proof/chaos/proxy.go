package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
)

// startTimeout is how long to wait for something that normally takes a moment.
const startTimeout = 30 * time.Second

// machine is what the proxy of a scenario runs on.
type machine struct {
	descriptors int      // file-descriptor limit; 0 for the system's limit
	environment []string // added to this process's
	arguments   []string // further ones of the proxy
	flood       int      // idle connections that flood opens at once, and drops after some seconds
}

// proxy is a proxy that runs as a process of its own, with a configuration and a state directory of its own.
type proxy struct {
	*proxyprocess.Process
	*proxyprocess.Admin
	name      string
	directory string
	config    *configuration
	machine   machine
	address   string // for clients
	unused    int    // open files before it had backends; -1 where that cannot be known
}

// startProxy starts the binary, with services but without backends, and returns when it answers.
func startProxy(ctx context.Context, binary, name, directory string, config *configuration, m machine) (*proxy, error) {
	p := &proxy{name: name, directory: filepath.Join(directory, name), config: config, machine: m}
	if err := os.MkdirAll(p.directory, 0o700); err != nil {
		return nil, err
	}
	config.file = filepath.Join(p.directory, "config.yaml")
	if err := config.write(config.withoutBackends()); err != nil {
		return nil, err
	}
	socket := filepath.Join(p.directory, "admin.sock")
	p.Admin = proxyprocess.NewAdmin(socket)
	args := []string{
		binary, "serve", "--listen", "127.0.0.1:0", "--admin-socket", socket, "--database", config.file,
		"--state-directory", filepath.Join(p.directory, "state"), "--handshake-timeout", "3s", "--drain-timeout", "5s",
	}
	args = append(args, m.arguments...)
	if m.descriptors > 0 {
		args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, m.descriptors)}, args...)
	}
	log, err := os.Create(p.logFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(args[0], args[1:]...)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), m.environment...)
	if p.Process, err = proxyprocess.Start("proxy "+name, command); err != nil {
		return nil, err
	}
	if err := p.until(ctx, "the proxy answers", func() (bool, error) {
		text, _ := os.ReadFile(p.logFile()) // the proxy may be writing it
		match := proxyprocess.Listening.FindSubmatch(text)
		if match == nil {
			return false, nil
		}
		p.address = string(match[1])
		_, err := p.Stats(ctx)
		return err == nil, nil
	}); err != nil {
		p.Kill()
		return nil, err
	}
	p.unused = p.openFiles()
	return p, nil
}

func (p *proxy) logFile() string { return filepath.Join(p.directory, "log") }

// running returns why the process has ended, and nil while it runs.
func (p *proxy) running() error {
	if err := p.Failure(); err != nil {
		return fmt.Errorf("%w: see %s", err, p.logFile())
	}
	return nil
}

// until waits until the condition holds, for at most startTimeout.
func (p *proxy) until(ctx context.Context, what string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.Until(ctx, what, condition); err != nil {
		return fmt.Errorf("proxy %s: %w; its log is %s", p.name, err, p.logFile())
	}
	return nil
}

// openFiles returns how many files the process has open; -1 where that cannot be known.
func (p *proxy) openFiles() int {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(p.PID()) + "/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// goroutines ends the process so that it writes its stacks, and returns those of our code, the most frequent first.
func (p *proxy) goroutines() (stacks []string, err error) {
	if err := p.Signal(syscall.SIGQUIT); err != nil {
		return nil, err
	}
	p.Wait(startTimeout)
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return nil, err
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		if strings.HasPrefix(block, "goroutine ") && strings.Contains(block, "wsbouncer/internal/") {
			stacks = append(stacks, block)
		}
	}
	if len(stacks) == 0 {
		return nil, fmt.Errorf("proxy %s has written no stacks: see %s", p.name, p.logFile())
	}
	return stacks, nil
}
