//go:build linux

// Package child runs the programs that a benchmark consists of as child processes, on free addresses of the loopback
// interface, and reads from /proc what they use of the machine. It needs Linux. Its functions may be called from any goroutine.
package child

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a child that runs until stop: a backend or a proxy. It leads a
// process group of its own, so that a Ctrl-C reaches it only through us, and so
// that nothing it started outlives it.
type Process struct {
	command *exec.Cmd
	output  *Tail
	ended   chan struct{} // closed once it was waited for
}

// Start starts a program with its arguments. The caller stops it.
func Start(argv []string) (*Process, error) {
	p := &Process{command: exec.Command(argv[0], argv[1:]...), output: new(Tail), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = p.output, p.output
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p.command.WaitDelay = time.Second
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID returns the process's id, which is that of its group too.
func (p *Process) PID() int { return p.command.Process.Pid }

// Failure tells why a process ended that should be running; nil while it runs.
func (p *Process) Failure() error {
	select {
	case <-p.ended:
		return fmt.Errorf("it ended (%s): %s", p.command.ProcessState, p.output)
	default:
		return nil
	}
}

// Stop asks the process to end and makes sure that its group did.
func (p *Process) Stop() {
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
	}
	syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.ended
}

// Tail keeps the end of what a child wrote, for its error message.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer; it never fails.
func (t *Tail) Write(p []byte) (int, error) {
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
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := end(strings.ToValidUTF8(string(t.text), "")); text != "" {
		return text
	}
	return "no output"
}
