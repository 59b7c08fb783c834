//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
)

// process is a process of a proxy: one that the proof has started, or one that its predecessor has started in an upgrade, which is no child of
// the proof.
type process struct {
	name  string
	child *proxyprocess.Process // nil for a successor
	pidfd int                   // of a successor
	ended <-chan struct{}
}

func startProcess(name string, command *exec.Cmd) (*process, error) {
	child, err := proxyprocess.Start(name, command)
	if err != nil {
		return nil, err
	}
	return &process{name: name, child: child, ended: child.Ended()}, nil
}

// successor returns the process with an id. It must be ended, as all others.
func successor(name string, pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("the process %d that has taken over is gone: %w", pid, err)
	}
	ended := make(chan struct{})
	go func() {
		for { // it becomes readable when the process ends
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != nil && err != unix.EINTR {
				break
			}
		}
		close(ended)
	}()
	return &process{name: name, pidfd: fd, ended: ended}, nil
}

func (p *process) signal(s syscall.Signal) error {
	if p.child != nil {
		return p.child.Signal(s)
	}
	if err := unix.PidfdSendSignal(p.pidfd, s, nil, 0); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL) // it may have ended
	<-p.ended
}

// alive reports whether the process runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// wait waits until the process has ended, and returns an error if that takes too long, or if it is known to have failed.
func (p *process) wait(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s did not end within %v", p.name, timeout)
	}
	if p.child != nil && !p.child.State().Success() {
		return fmt.Errorf("%s ended with %v", p.name, p.child.State())
	}
	return nil
}

// until calls the condition until it holds.
func (p *process) until(ctx context.Context, what string, condition func() bool) error {
	for !condition() {
		if !p.alive() {
			return fmt.Errorf("%s has ended", p.name)
		}
		if err := wait(ctx, lookInterval); err != nil {
			return fmt.Errorf("%s: waiting until %s: %w", p.name, what, err)
		}
	}
	return nil
}
