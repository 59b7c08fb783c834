package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// endTimeout is how long a process has for an orderly end.
const endTimeout = 10 * time.Second

// process is a child. Its methods may be called from any goroutine.
type process struct {
	name    string
	command *exec.Cmd
	ended   chan struct{} // closed once it has ended and its output was read

	mu    sync.Mutex
	lines []string      // what it has written; guarded by mu
	wrote chan struct{} // closed, and made anew, when there is another line; guarded by mu
}

func startProcess(name, binary string, arguments ...string) (*process, error) {
	p := &process{name: name, command: exec.Command(binary, arguments...), ended: make(chan struct{}), wrote: make(chan struct{})}
	separate(p.command)
	output, input := io.Pipe()
	p.command.Stdout, p.command.Stderr = input, input
	p.command.WaitDelay = endTimeout // for children of its own that hold the output open
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(output) })
	go func() {
		_ = p.command.Wait() // its state tells how it ended
		_ = input.Close()    // always nil
		reading.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		close(p.wrote)
		p.wrote = make(chan struct{})
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r) // after a line that is too long; it must not block
}

// await waits for a line that matches and returns its first submatch.
func (p *process) await(ctx context.Context, pattern *regexp.Regexp) (string, error) {
	for seen := 0; ; {
		p.mu.Lock()
		lines, wrote := p.lines, p.wrote
		p.mu.Unlock()
		for _, line := range lines[seen:] {
			if match := pattern.FindStringSubmatch(line); match != nil {
				return match[1], nil
			}
		}
		seen = len(lines)
		select {
		case <-wrote:
		case <-p.ended:
			return "", p.failure()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// failure says how it ended. It may be called once it has.
func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := "no output"
	if len(p.lines) > 0 {
		last = p.lines[len(p.lines)-1]
	}
	return fmt.Errorf("%s ended (%s): %s", p.name, p.command.ProcessState, last)
}

// terminate asks it to end.
func (p *process) terminate() { _ = p.command.Process.Signal(syscall.SIGTERM) } // it may have ended

// wait waits until it has ended, and makes it end if it takes too long.
func (p *process) wait() {
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return
	case <-timer.C:
	}
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}
