package kit

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// Process is a child process: one that was started here, or one that such a process has made a child of this one. Its methods may be called from any
// goroutine. It is ended with Stop or Kill.
type Process struct {
	// Static.
	name    string
	process *os.Process
	output  *Output       // of its standard error; nil if that goes elsewhere
	ended   chan struct{} // closed when the process has ended and its output is complete

	// Static once ended is closed.
	state *os.ProcessState
	err   error // why it is not known how it ended
}

// Start starts a command. The name is for error messages. The command's output goes to its Stdout and Stderr, as usual.
func Start(name string, command *exec.Cmd) (*Process, error) {
	command.WaitDelay = stopTimeout // for grandchildren that keep the output open
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	output, _ := command.Stderr.(*Output)
	return newProcess(name, command.Process, output, func() (*os.ProcessState, error) {
		_ = command.Wait() // the state says how it ended
		return command.ProcessState, nil
	}), nil
}

// adopt returns the child with an id, which another process has started.
func adopt(name string, pid int) (*Process, error) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newProcess(name, process, nil, process.Wait), nil
}

func newProcess(name string, process *os.Process, output *Output, wait func() (*os.ProcessState, error)) *Process {
	p := &Process{name: name, process: process, output: output, ended: make(chan struct{})}
	go func() {
		p.state, p.err = wait()
		close(p.ended)
	}()
	return p
}

// PID returns the process's id.
func (p *Process) PID() int { return p.process.Pid }

// Ended returns a channel that is closed when the process has ended and its output is complete.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// State returns how the process ended. It may be called after Ended.
func (p *Process) State() *os.ProcessState { return p.state }

// Failure returns an error that says how the process ended, and nil while it runs.
func (p *Process) Failure() error {
	if p.Alive() {
		return nil
	}
	last := ""
	if p.output != nil {
		if lines := p.output.Lines(); len(lines) > 0 {
			last = ": " + lines[len(lines)-1]
		}
	}
	return fmt.Errorf("%s has ended (%s)%s", p.name, p.State(), last)
}

// Signal sends a signal. It does nothing if the process has ended.
func (p *Process) Signal(s os.Signal) error {
	if err := p.process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
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

// WaitForSuccess is Wait, and returns an error unless the process ends in time and with status 0.
func (p *Process) WaitForSuccess(timeout time.Duration) error {
	switch {
	case !p.Wait(timeout):
		return fmt.Errorf("%s (process %d) has not ended after %v", p.name, p.PID(), timeout)
	case p.err != nil:
		return fmt.Errorf("%s (process %d): %w", p.name, p.PID(), p.err)
	case !p.state.Success():
		return fmt.Errorf("%s (process %d) ended with %v", p.name, p.PID(), p.state)
	}
	return nil
}

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() {
	_ = p.process.Kill() // it may have ended
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

// Accepts waits until an address accepts connections.
func (p *Process) Accepts(ctx context.Context, address string) error {
	return p.Until(ctx, "it listens at "+address, func() (bool, error) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
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
