//go:build linux

// Package child runs the programs of a benchmark as child processes, on free addresses of the loopback interface, and reads from
// /proc how much of the machine they use. It needs Linux. Its functions may be called from any goroutine.
package child

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a child that runs until it is stopped: a backend or a proxy. It leads a process group of its own, so that a Ctrl-C
// reaches it only through us, and nothing that it started outlives it.
type Process struct {
	command *exec.Cmd
	output  tail
	ended   chan struct{} // closed when the process has ended
}

// Start starts a program with its arguments. The caller stops it.
func Start(argv []string) (*Process, error) {
	p := &Process{command: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p.command.WaitDelay = time.Second
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // ProcessState tells how it ended
		close(p.ended)
	}()
	return p, nil
}

// PID returns the id of the process, which is the id of its group too.
func (p *Process) PID() int { return p.command.Process.Pid }

// Failure tells how the process ended; nil while it runs.
func (p *Process) Failure() error {
	select {
	case <-p.ended:
		return fmt.Errorf("it ended (%s): %s", p.command.ProcessState, &p.output)
	default:
		return nil
	}
}

// Stop asks the process to end, and kills what is left of its group after three seconds. It may be called again.
func (p *Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
	}
	p.Kill()
}

// Kill ends the process and its group at once. It may be called again.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may have ended
	<-p.ended
}

// Output returns the end of what the process wrote to standard output and standard error.
func (p *Process) Output() string {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	return string(p.output.text)
}

// ExitStatus returns the exit status of a process that has ended; -1 if a signal ended it.
func (p *Process) ExitStatus() int { return p.command.ProcessState.ExitCode() }

// tail keeps the end of what a child wrote, for its error message.
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	const keep = 2000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > keep {
		t.text = append(t.text[:0], t.text[len(t.text)-keep:]...)
	}
	return len(p), nil
}

// String returns the end of what was written in one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := end(strings.ToValidUTF8(string(t.text), "")); text != "" {
		return text
	}
	return "no output"
}
