// Package accesslog writes the access log: a file with one line for each session that has ended and each client that was refused.
//
// A [Log] takes entries from any goroutine without ever waiting for the file. Its own goroutine writes them. If the file cannot be
// written, or not fast enough, lines are left out and counted, and no session waits for them.
package accesslog

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Bounds of what waits to be written.
const (
	maxQueued  = 16384            // entries; about 6 MB
	wakeAt     = 512              // this many queued entries are written immediately, fewer within a second
	maxKept    = 1024             // entries: a queue with more room than this is given back to the memory when it is empty
	batchBytes = 64 << 10         // lines are written in pieces of about this size
	interval   = time.Second      // how often everything that is queued is written, and a file that failed is tried again
	closeWait  = 3 * time.Second  // how long Close waits for the file
	quiet      = 10 * time.Second // the time between two complaints in the log, and how long a file may have been moved without a signal
)

// Options are the settings of an access log.
type Options struct {
	// Path is the file. It is created with mode 0640 if it is missing; its directory is not.
	Path string
	// Format is one of [Formats].
	Format string
	// Counters count the lines; nil to count them in the log alone. Several logs, one after the other, may share them.
	Counters *Counters
	// Guard recovers from panics while lines are written; nil to let them end the process.
	Guard *panics.Guard
	// Log gets a line when the file cannot be written, and one when it can be written again.
	Log *slog.Logger
}

// Log is an access log. Its methods may be called from any goroutine.
type Log struct {
	// Static.
	options Options
	wake    chan struct{} // size 1: many entries are queued
	reopen  chan struct{} // size 1: Reopen was called
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the writer's goroutine has ended

	mu     sync.Mutex
	queue  []Entry // guarded by mu
	closed bool    // guarded by mu

	// Owned by the writer's goroutine.
	file    output
	batch   []Entry // taken from the queue
	next    int     // the first of batch that is no line yet
	rest    []byte  // what is left to write of lines: the first may be written in part, see output.cut
	trouble trouble
	unmoved time.Time // when the path last led to the file
	stuck   bool      // the file was moved, and no other can be opened; the log has a line about it
}

// Counters are how many lines were written, and how many left out. Any goroutine may read them.
type Counters struct{ Written, LeftOut atomic.Uint64 }

// Start returns a log and starts the goroutine that writes it. It does not fail: while the file cannot be opened, the goroutine tries
// again every second. Close ends the goroutine.
func Start(o Options) *Log {
	l := newLog(o)
	go l.run()
	return l
}

func newLog(o Options) *Log {
	if o.Counters == nil {
		o.Counters = new(Counters)
	}
	return &Log{
		options: o, wake: make(chan struct{}, 1), reopen: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		file: output{path: o.Path}, trouble: trouble{log: o.Log.With("file", o.Path)},
	}
}

// Add queues an entry. It takes no longer than a copy of it. If the queue is full, the entry is counted and left out.
func (l *Log) Add(e Entry) {
	l.mu.Lock()
	full := l.closed || len(l.queue) >= maxQueued
	if !full {
		l.queue = append(l.queue, e)
	}
	many := len(l.queue) == wakeAt
	l.mu.Unlock()
	if full {
		l.options.Counters.LeftOut.Add(1)
	}
	if many {
		tasks.Wake(l.wake)
	}
}

// Reopen closes the file and opens the one that has the path now: after the old one was renamed. It does not wait for that.
func (l *Log) Reopen() { tasks.Wake(l.reopen) }

// Close writes what is queued and closes the file. It waits for that for a few seconds at most; after that, an entry that still
// waits is lost. Entries that are added after Close are left out.
func (l *Log) Close() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return
	}
	close(l.stop)
	select {
	case <-l.done:
	case <-time.After(closeWait):
		l.options.Log.Warn("the access log's file does not take the last lines", "file", l.options.Path)
	}
}
