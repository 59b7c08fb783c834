package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/stats"
)

// patience is how long what normally takes a moment may take.
const patience = 30 * time.Second

// machine is what the proxy of a scenario runs on.
type machine struct {
	descriptors int      // limit of open files; 0 for the system's
	environment []string // added to this process's
	flood       int      // idle connections that are opened at a time, for some seconds, and dropped
}

// proxy is a proxy that runs as a process of its own, with a configuration and a state directory of its own.
type proxy struct {
	name      string
	directory string
	config    *configuration
	machine   machine
	client    *http.Client // of the admin API, over its socket

	command *exec.Cmd
	ended   chan struct{} // closed once it was waited for
	address string        // for clients
	unused  int           // open files before it had backends; -1 where that cannot be known
}

// startProxy starts the binary, with services but without backends, and returns when it answers.
func startProxy(ctx context.Context, binary, name, directory string, config *configuration, m machine) (*proxy, error) {
	p := &proxy{name: name, directory: filepath.Join(directory, name), config: config, machine: m, ended: make(chan struct{})}
	if err := os.MkdirAll(p.directory, 0o700); err != nil {
		return nil, err
	}
	config.file = filepath.Join(p.directory, "config.yaml")
	if err := config.write(config.withoutBackends()); err != nil {
		return nil, err
	}
	socket := filepath.Join(p.directory, "admin.sock")
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	args := []string{
		binary, "serve", "--listen", "127.0.0.1:0", "--admin-socket", socket, "--database", config.file,
		"--state-directory", filepath.Join(p.directory, "state"), "--handshake-timeout", "3s", "--close-timeout", "2s", "--drain-timeout", "5s",
	}
	if m.descriptors > 0 {
		args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, m.descriptors)}, args...)
	}
	log, err := os.Create(p.logFile())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command = exec.Command(args[0], args[1:]...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.Env = append(os.Environ(), m.environment...)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	go func() {
		_ = p.command.Wait() // its state tells how it ended
		close(p.ended)
	}()
	if err := p.await(ctx, "the proxy answers", func() (bool, error) {
		if p.address = p.logged(); p.address == "" {
			return false, nil
		}
		_, err := p.stats(ctx)
		return err == nil, nil
	}); err != nil {
		p.kill()
		return nil, err
	}
	p.unused = p.openFiles()
	return p, nil
}

func (p *proxy) logFile() string { return filepath.Join(p.directory, "log") }

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

// logged returns the address that the proxy says it listens on; empty before it has.
func (p *proxy) logged() string {
	text, _ := os.ReadFile(p.logFile()) // what is not there will be
	if m := listening.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// running returns why the process has ended, and nil while it runs.
func (p *proxy) running() error {
	select {
	case <-p.ended:
		return fmt.Errorf("proxy %s has ended (%s): see %s", p.name, p.command.ProcessState, p.logFile())
	default:
		return nil
	}
}

var errInVain = errors.New("waited in vain")

// await asks again and again until the condition holds, fails, or has not held for too long.
func (p *proxy) await(ctx context.Context, what string, condition func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		holds, err := condition()
		if err == nil && !holds {
			err = p.running()
		}
		if holds || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w, for %v: %s", errInVain, patience, what)
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// stats asks the admin API.
func (p *proxy) stats(ctx context.Context) (*stats.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, adminPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://proxy/api/v1/stats", nil)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the admin API answered %s: %.200s", response.Status, body)
	}
	s := new(stats.Stats)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("the admin API's statistics: %w", err)
	}
	return s, nil
}

// openFiles returns how many files the process has open; -1 where that cannot be known.
func (p *proxy) openFiles() int {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// goroutines ends the process in a way that has it write its stacks, and returns those of our code, the most frequent first.
func (p *proxy) goroutines() (stacks []string, err error) {
	if err := p.command.Process.Signal(syscall.SIGQUIT); err != nil {
		return nil, err
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
	}
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

// kill ends the process at once, if it has not ended.
func (p *proxy) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}
