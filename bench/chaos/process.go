//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child. It leads a process group of its own, so that a Ctrl-C reaches it only through us.
type process struct {
	name    string
	command *exec.Cmd
	stdout  lines
	stderr  lines
	ended   chan struct{} // closed once it was waited for
}

func startProcess(name, binary string, arguments ...string) (*process, error) {
	p := &process{name: name, command: exec.Command(binary, arguments...), ended: make(chan struct{})}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.stdout.read(stdout) })
	reading.Go(func() { p.stderr.read(stderr) })
	go func() {
		reading.Wait()
		_ = p.command.Wait() // its state tells how it ended
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.command.Process.Pid }

func (p *process) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) } // it may have ended

// running returns why the process has ended, and nil while it runs.
func (p *process) running() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended (%s): %s", p.name, p.command.ProcessState, p.stderr.last())
	default:
		return nil
	}
}

// stop ends the process, with a signal that it understands if it can be, and returns whether that was enough.
func (p *process) stop(s syscall.Signal) bool {
	p.signal(s)
	select {
	case <-p.ended:
		return true
	case <-time.After(20 * time.Second):
	}
	p.signal(syscall.SIGKILL)
	<-p.ended
	return false
}

// lines is what a child has written.
type lines struct {
	mu   sync.Mutex
	text []string // guarded by mu
}

func (l *lines) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		l.mu.Lock()
		l.text = append(l.text, strings.TrimSpace(scanner.Text()))
		l.mu.Unlock()
	}
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[:len(l.text):len(l.text)]
}

// last returns the last line that there is.
func (l *lines) last() string {
	if all := l.all(); len(all) > 0 {
		return all[len(all)-1]
	}
	return "no output"
}
