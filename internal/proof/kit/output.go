package kit

import (
	"bytes"
	"context"
	"regexp"
	"sync"
)

// Output keeps all lines that a process writes: it is the Stdout or Stderr, or both, of one command. Its methods may be called
// from any goroutine. The zero value is ready for use.
type Output struct {
	mu      sync.Mutex
	lines   []string      // guarded by mu
	partial []byte        // guarded by mu: the line that has not ended yet
	grown   chan struct{} // guarded by mu: closed by the next line; nil if none waits
}

// Write implements [io.Writer]. It never fails.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, b...)
	for {
		line, rest, ok := bytes.Cut(o.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		o.lines = append(o.lines, string(bytes.TrimSuffix(line, []byte("\r"))))
		o.partial = rest
		if o.grown != nil {
			close(o.grown)
			o.grown = nil
		}
	}
}

// Lines returns the lines so far. The caller may append to them, but not change them.
func (o *Output) Lines() []string {
	lines, _ := o.look()
	return lines
}

func (o *Output) look() (lines []string, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.grown == nil {
		o.grown = make(chan struct{})
	}
	return o.lines[:len(o.lines):len(o.lines)], o.grown
}

// Await waits for a line of the process's output that matches the pattern, and returns the first submatch.
func (p *Process) Await(ctx context.Context, output *Output, pattern *regexp.Regexp) (string, error) {
	for seen := 0; ; {
		lines, grown := output.look()
		for _, line := range lines[seen:] {
			if match := pattern.FindStringSubmatch(line); match != nil {
				return match[1], nil
			}
		}
		seen = len(lines)
		select {
		case <-grown:
		case <-p.ended:
			if len(output.Lines()) > seen {
				continue
			}
			return "", p.Failure()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
