//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child that runs until stop: a backend or a proxy. It leads a
// process group of its own, so that a Ctrl-C reaches it only through us, and so
// that nothing it started outlives it.
type process struct {
	command *exec.Cmd
	output  *tail
	ended   chan struct{} // closed once it was waited for
}

func startProcess(argv []string) (*process, error) {
	p := &process{command: exec.Command(argv[0], argv[1:]...), output: new(tail), ended: make(chan struct{})}
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

func (p *process) pid() int { return p.command.Process.Pid }

// failure tells why a process ended that should be running; nil while it runs.
func (p *process) failure() error {
	select {
	case <-p.ended:
		return fmt.Errorf("it ended (%s): %s", p.command.ProcessState, p.output)
	default:
		return nil
	}
}

// stop asks the process to end and makes sure that its group did.
func (p *process) stop() {
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
	}
	syscall.Kill(-p.pid(), syscall.SIGKILL)
	<-p.ended
}

// tail keeps the end of what a child wrote, for its error message.
type tail struct {
	mu   sync.Mutex
	text []byte
}

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

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(t.text), "")), " ")
	if text == "" {
		return "no output"
	}
	if len(text) > 300 {
		text = "..." + text[len(text)-300:]
	}
	return text
}
