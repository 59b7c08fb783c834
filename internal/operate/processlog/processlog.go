// Package processlog writes the process's log to its standard error, without waiting for whoever reads that: event loops log, and a pipe or a journal
// whose reader stands still must not stop them. The command line makes the writer, and a slog handler writes to it.
package processlog

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

const (
	// maxWaiting is how many bytes of lines wait for a slow reader.
	maxWaiting = 1 << 20
	// maxAtOnce is the longest line in bytes that a pipe or a socket takes whole, without waiting, once it says that it takes something (PIPE_BUF).
	maxAtOnce = 4 << 10
	// lastWords is how long Close waits for the reader.
	lastWords = 2 * time.Second
)

// Writer writes lines to a file. A line is written at once if the file takes it, and otherwise as soon as it does, by a goroutine that Close ends. While
// too many wait, lines are left out. Any goroutine may call its methods.
type Writer struct {
	file    *os.File  // static
	leftOut func(int) // static: is told how many lines were left out, when that is over
	wake    chan struct{}
	ended   chan struct{}

	mu      sync.Mutex
	waiting [][]byte // guarded by mu
	size    int      // guarded by mu: of all of these, in bytes
	writing bool     // guarded by mu: the goroutine writes
	missing int      // guarded by mu: lines that were left out lately
	closed  bool     // guarded by mu
}

// New returns a writer to a file. leftOut, which may log, is called when lines that were left out are missing; it may be nil.
func New(file *os.File, leftOut func(lines int)) *Writer {
	w := &Writer{file: file, leftOut: leftOut, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// Write implements [io.Writer]. It never fails, since nobody could be told.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.writing && len(w.waiting) == 0 && len(line) <= maxAtOnce && takes(w.file):
		_, _ = w.file.Write(line)
	case w.closed || w.size+len(line) > maxWaiting:
		w.missing++
	default:
		w.waiting = append(w.waiting, bytes.Clone(line))
		w.size += len(line)
		tasks.Wake(w.wake)
	}
	return len(line), nil
}

// Close writes what waits, as far as the file takes it within two seconds. What is written afterwards is lost if it would have to wait.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	tasks.Wake(w.wake)
	select {
	case <-w.ended:
	case <-time.After(lastWords):
	}
}

// run writes what waits until Close.
func (w *Writer) run() {
	defer close(w.ended)
	for range w.wake {
		for w.writeWaiting() {
		}
		w.mu.Lock()
		missing, closed := w.missing, w.closed
		w.missing = 0
		last := closed && len(w.waiting) == 0
		w.mu.Unlock()
		if missing > 0 && w.leftOut != nil && !closed {
			w.leftOut(missing)
		}
		if last {
			return
		}
	}
}

// writeWaiting writes the lines that wait. It returns false if none does.
func (w *Writer) writeWaiting() bool {
	w.mu.Lock()
	lines := w.waiting
	w.waiting, w.writing = nil, len(lines) > 0
	w.mu.Unlock()
	for _, line := range lines {
		_, _ = w.file.Write(line)
		w.mu.Lock()
		w.size -= len(line)
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.writing = false
	w.mu.Unlock()
	return len(lines) > 0
}
