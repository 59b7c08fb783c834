// Package proxyprocess runs programs as child processes: the proxy above all, whose log it reads and whose admin API it asks.
// Demonstrations and tests import it, the proxy itself does not.
package proxyprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long a process may take to stop after SIGTERM.
	stopTimeout = 10 * time.Second
	// pollInterval is the time between two checks of a condition.
	pollInterval = 20 * time.Millisecond
)

// What the proxy logs, as text, when it is ready for connections. The first submatch is the address.
var (
	Listening      = regexp.MustCompile(`msg=listening address=(\S+)`)
	AdminListening = regexp.MustCompile(`msg="admin API" address=(\S+)`)
)

// Process is a child process. Its methods may be called from any goroutine. The caller of Start ends it with Stop or Kill.
type Process struct {
	name    string
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended and its output is complete
}

// Start starts a command. The name is for error messages. The command's output goes to its Stdout and Stderr, as usual.
func Start(name string, command *exec.Cmd) (*Process, error) {
	command.WaitDelay = stopTimeout // for grandchildren that keep the output open
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{name: name, command: command, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // State says how it ended
		close(p.ended)
	}()
	return p, nil
}

// PID returns the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended returns a channel that is closed when the process has ended and its output is complete.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// State returns how the process ended. It may be called after Ended.
func (p *Process) State() *os.ProcessState { return p.command.ProcessState }

// Failure returns an error that says how the process ended, and nil while it runs.
func (p *Process) Failure() error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	last := ""
	if output, ok := p.command.Stderr.(*Output); ok {
		if lines := output.Lines(); len(lines) > 0 {
			last = ": " + lines[len(lines)-1]
		}
	}
	return fmt.Errorf("%s has ended (%s)%s", p.name, p.State(), last)
}

// Signal sends a signal. It does nothing if the process has ended.
func (p *Process) Signal(s os.Signal) error {
	if err := p.command.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Wait waits until the process has ended. It kills a process that takes longer than the timeout, and returns false then.
func (p *Process) Wait(timeout time.Duration) (inTime bool) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		p.Kill()
		return false
	}
}

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}

// Until calls the condition until it holds. It returns an error if the condition fails, the process ends or ctx ends.
func (p *Process) Until(ctx context.Context, what string, condition func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if holds, err := condition(); holds || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			return p.Failure()
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
	}
}

// StopAll sends SIGTERM to all processes and waits until they have ended.
func StopAll(processes ...*Process) {
	for _, p := range processes {
		_ = p.Signal(syscall.SIGTERM)
	}
	for _, p := range processes {
		p.Wait(stopTimeout)
	}
}
