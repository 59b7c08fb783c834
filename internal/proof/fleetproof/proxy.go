//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
)

const (
	// startTimeout is how long something may take that normally takes a moment, on a machine that is busy.
	startTimeout = 30 * time.Second
	// drainTimeout is the proxies' drain-timeout: longer than any session lasts.
	drainTimeout = time.Minute
)

// proxy is a proxy at one address, through several processes one after the other. One goroutine owns it.
type proxy struct {
	index     int
	name      string
	binary    string
	arguments []string // further ones
	directory string
	database  string
	listen    string // for clients; stays the same
	admin     string
	state     string // directory
	otherTime bool   // its monotonic clock is days ahead of those of the others
	watcher   *watcher
	journal   *journal

	lives   int
	states  int
	source  netip.Addr // from which the process dials servers
	process *process
	old     *process // the predecessor of process in an upgrade, while it drains
	api     *proxyprocess.Admin
}

func newProxy(index int, binary, directory, database string, w *watcher, j *journal, arguments []string) (*proxy, error) {
	p := &proxy{
		index: index, name: fmt.Sprintf("proxy-%d", index+1), binary: binary, database: database, watcher: w, journal: j, arguments: arguments,
	}
	p.directory = filepath.Join(directory, p.name)
	if err := os.MkdirAll(p.directory, 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.listen, err = freeAddress("127.0.0.1"); err == nil {
		p.admin, err = freeAddress("127.0.0.1")
	}
	p.moveState()
	return p, err
}

// freeAddress returns an address with a free port that the system does not give to connections that dial.
func freeAddress(hosts ...string) (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		free := true
		for _, host := range hosts {
			listener, failed := net.Listen("tcp", net.JoinHostPort(host, port))
			if failed != nil {
				free, err = false, failed
				break
			}
			defer listener.Close()
		}
		if free {
			return net.JoinHostPort(hosts[0], port), nil
		}
	}
	return "", err
}

// otherTime has the kernel give a process another monotonic clock. (A wall clock of its own is not to be had, and nothing depends on it.)
var otherTime = []string{"-T", "--monotonic", "864000", "--boottime", "864000"}

// hasOtherTime reports whether the kernel does so here: it needs root.
func hasOtherTime() bool {
	return exec.Command("unshare", append(append([]string{}, otherTime...), "true")...).Run() == nil
}

// moveState gives the next process a new state directory.
func (p *proxy) moveState() {
	p.states++
	p.state = filepath.Join(p.directory, fmt.Sprintf("state-%d", p.states))
}

// socket returns the path of the proxy's admin socket, over which it is changed.
func (p *proxy) socket() string { return filepath.Join(p.directory, "admin.sock") }

// moveAdmin gives the next process another address of the admin API.
func (p *proxy) moveAdmin() (err error) {
	p.admin, err = freeAddress("127.0.0.1")
	return err
}

func (p *proxy) logFile() string { return filepath.Join(p.directory, "log") }

// command returns the command of the next process.
func (p *proxy) command(further ...string) (*exec.Cmd, error) {
	p.lives++
	p.source = netip.AddrFrom4([4]byte{127, 1, byte(p.index), byte(p.lives%250 + 1)})
	args := []string{
		"serve", "--listen", p.listen, "--admin", p.admin, "--admin-socket", p.socket(), "--database", p.database,
		"--state-directory", p.state, "--dial-from", p.source.String(), "--drain-timeout", drainTimeout.String(), "--proxy-name", p.name,
		// All clients come at once, from one address.
		"--max-handshakes", "65536", "--handshake-timeout", "1m",
	}
	args = append(append(args, p.arguments...), further...)
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "---- %s %v\n", p.source, args)
	command := exec.Command(p.binary, args...)
	if p.otherTime {
		command = exec.Command("unshare", append(append([]string{}, otherTime...), append([]string{p.binary}, args...)...)...)
	}
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return command, nil
}

// start starts a process and returns when it answers.
func (p *proxy) start(ctx context.Context, further ...string) error {
	command, err := p.command(further...)
	if err != nil {
		return err
	}
	defer command.Stdout.(*os.File).Close()
	p.watcher.began(p.source, fmt.Sprintf("%s (process %d)", p.name, p.lives))
	if p.process, err = startProcess(p.name, command); err != nil {
		return err
	}
	p.api = proxyprocess.NewAdmin(p.socket())
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.process.until(ctx, "the proxy answers", func() bool {
		_, err := p.api.Stats(ctx)
		return err == nil
	}); err != nil {
		return fmt.Errorf("%w; its log is %s", err, p.logFile())
	}
	return nil
}

// kill ends the process with SIGKILL.
func (p *proxy) kill() {
	p.watcher.alive(p.source, false)
	p.process.kill()
}

// freeze stops the process so that it does nothing, and continue lets it go on.
func (p *proxy) freeze() error {
	p.watcher.alive(p.source, false)
	return p.process.signal(syscall.SIGSTOP)
}

func (p *proxy) proceed() error {
	p.watcher.alive(p.source, true)
	return p.process.signal(syscall.SIGCONT)
}

// drain ends the process in order, and returns when it has ended.
func (p *proxy) drain() error {
	if err := p.process.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.process.wait(drainTimeout + startTimeout); err != nil {
		return fmt.Errorf("%w; its log is %s", err, p.logFile())
	}
	return nil
}

// takenOver are the words by which the command says which process has taken over.
var takenOver = regexp.MustCompile(`Upgraded: process (\d+)`)

// upgrade has another process take over. The old one drains as long as its sessions last.
func (p *proxy) upgrade(ctx context.Context, binary string) error {
	out, err := exec.CommandContext(ctx, p.binary, "upgrade", "--admin", "unix:"+p.socket(), "--binary", binary).CombinedOutput()
	if err != nil {
		return fmt.Errorf("upgrading %s: %w\n%s", p.name, err, out)
	}
	match := takenOver.FindSubmatch(out)
	if match == nil {
		return fmt.Errorf("upgrading %s: the command does not name the process that has taken over\n%s", p.name, out)
	}
	pid, _ := strconv.Atoi(string(match[1]))
	next, err := successor(p.name, pid)
	if err != nil {
		return err
	}
	p.old, p.process = p.process, next
	return nil
}
