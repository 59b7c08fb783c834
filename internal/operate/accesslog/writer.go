package accesslog

import (
	"bytes"
	"time"
)

// This file is the goroutine that writes an access log.

// run is the goroutine.
func (l *Log) run() {
	defer close(l.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		l.guarded(l.write)
		select {
		case <-l.wake:
		case <-ticker.C:
			l.guarded(l.look)
		case <-l.reopen:
			l.guarded(l.openAgain)
		case <-l.stop:
			select {
			case <-l.reopen: // it was called before Close: the last lines belong in the new file
				l.guarded(l.openAgain)
			default:
			}
			l.guarded(l.finish)
			return
		}
	}
}

// guarded calls f. After a panic it leaves out the lines at hand, since one of them may be the cause.
func (l *Log) guarded(f func()) {
	defer l.options.Guard.Recover("access log", l.dropAtHand)
	f()
}

// dropAtHand leaves out the lines that were taken from the queue.
func (l *Log) dropAtHand() {
	l.options.Counters.LeftOut.Add(uint64(len(l.batch) - l.next + bytes.Count(l.rest, []byte{'\n'})))
	l.batch, l.next, l.rest = nil, 0, nil
	if l.file.cut {
		l.rest = []byte{'\n'} // so that the next entry begins on a new line
	}
}

// write writes everything that is queued, unless the file fails.
func (l *Log) write() {
	if l.trouble.failed(l.open()) {
		return
	}
	for l.fill() {
		n, err := l.file.write(l.rest)
		l.options.Counters.Written.Add(uint64(bytes.Count(l.rest[:n], []byte{'\n'})))
		l.rest = l.rest[n:]
		if l.trouble.failed(err) {
			return
		}
	}
	l.trouble.over(l.options.Counters.LeftOut.Load())
}

// open opens the file if it is not open.
func (l *Log) open() error {
	if l.file.file != nil {
		return nil
	}
	return l.takeFile(l.file.openPath())
}

// takeFile has the log continue in a file that was opened now.
func (l *Log) takeFile(file opened, err error) error {
	if err != nil {
		return err
	}
	if another := l.file.set(file); another && l.file.cut {
		_, l.rest, _ = bytes.Cut(l.rest, []byte{'\n'}) // the end of a line that began in the file before
		l.options.Counters.LeftOut.Add(1)
		l.file.cut = false
	}
	l.unmoved, l.stuck = time.Now(), false
	return nil
}

// openAgain opens the file that has the path now, and closes the one before. If there is none, the log keeps the one before.
func (l *Log) openAgain() {
	l.trouble.forget() // this was asked for: log how it went
	before := l.file.file != nil
	file, err := l.file.openPath()
	if l.takeFile(file, err) != nil {
		if before {
			l.trouble.log.Warn("the access log cannot be opened again: writing to the file that it had before", "error", err)
		}
		return // otherwise write tries it again, and complains
	}
	l.trouble.log.Info("access log opened again")
}

// look looks whether the path leads to another file than the one that is open, or to none, for so long that no signal to open it again
// is to be expected.
func (l *Log) look() {
	if !l.file.moved() {
		l.unmoved = time.Now()
		return
	}
	if time.Since(l.unmoved) < quiet {
		return
	}
	l.unmoved = time.Now()
	file, err := l.file.openPath()
	if l.takeFile(file, err) != nil {
		if !l.stuck {
			l.trouble.log.Warn("the access log's file was moved or removed, and it cannot be opened again: writing to the moved one", "error", err)
		}
		l.stuck = true
		return
	}
	l.trouble.log.Info("access log opened again, since its file was moved or removed")
}

// finish writes what is left and closes the file.
func (l *Log) finish() {
	l.write()
	l.mu.Lock()
	left := uint64(len(l.queue))
	l.queue = nil
	l.mu.Unlock()
	before := l.options.Counters.LeftOut.Load()
	l.dropAtHand()
	l.options.Counters.LeftOut.Add(left)
	if n := l.options.Counters.LeftOut.Load() - before; n > 0 {
		l.trouble.log.Warn("the access log lacks the last lines", "lines", n)
	}
	if err := l.file.close(); err != nil {
		l.trouble.log.Warn("closing the access log", "error", err)
	}
}

// fill makes lines of entries, unless there are some left to write. It returns whether there is anything to write.
func (l *Log) fill() bool {
	if len(l.rest) > 0 {
		return true
	}
	if l.rest = l.rest[:0]; cap(l.rest) < batchBytes {
		l.rest = make([]byte, 0, batchBytes+4096)
	}
	for len(l.rest) < batchBytes && (l.next < len(l.batch) || l.take()) {
		e := &l.batch[l.next]
		l.next++
		l.rest = e.appendLine(l.rest, l.options.Format)
		*e = Entry{} // its texts are no longer needed
	}
	return len(l.rest) > 0
}

// take takes the queue as the next batch, all of whose entries are lines by now. It returns false if the queue is empty.
func (l *Log) take() bool {
	spare := l.batch[:0]
	if cap(spare) > maxKept {
		spare = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch, l.next, l.queue = l.queue, 0, spare
	return len(l.batch) > 0
}
