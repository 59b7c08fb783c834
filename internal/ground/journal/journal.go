// Package journal keeps the last records of something in a file over restarts: JSON, one record a line, oldest first. Any storey may import it.
//
// The file has at most [Options.MaxBytes]. Then it becomes FILE.1, which replaces the one before, and a new file begins. So the records of
// at least that many bytes are kept, and at most twice as many. Several processes may append to the same file, such as a proxy and the one that
// replaces it: each record is appended whole, and a process notices that another one has renamed the file.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

const (
	// writeDelay is how long records are collected before they are written together. A process that is killed loses those of that time.
	writeDelay = 500 * time.Millisecond
	// retryDelay is the time to the next attempt after a write that failed.
	retryDelay = 5 * time.Second
	// closeTimeout is how long Close waits at most for a disk that does not answer.
	closeTimeout = 2 * time.Second
)

// Options say what a journal keeps. All fields are required.
type Options struct {
	// Path is that of the file. Its directory must exist when records are written.
	Path string
	// MaxBytes is the size at which the file is put aside.
	MaxBytes int64
	// Unwritten is how many records wait at most until they can be written. If the disk is full or slow, the oldest are left out.
	Unwritten int
}

// Journal appends records to a file. Its methods may be called from any goroutine, and all but Close never wait for the disk.
type Journal[T any] struct {
	o       Options       // static
	wake    chan struct{} // of size one: there are records to write
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the goroutine has ended

	file   *os.File // owned by the goroutine; nil while it could not be opened
	cut    bool     // owned by the goroutine: the file may end in the middle of a line
	ending sync.Once

	mu      sync.Mutex // not held while anything is encoded or written
	waiting []T        // guarded by mu: oldest first
	failed  error      // guarded by mu: why records could not be written; nil if the last write succeeded
	told    bool       // guarded by mu: Report has logged that records cannot be written
}

// Open returns a journal. It does not touch the file before there is something to write. Close ends it.
func Open[T any](o Options) *Journal[T] {
	j := &Journal[T]{o: o, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}), cut: true}
	go j.run()
	return j
}

// Read returns the last records that a journal's file has, at most limit, oldest first. Lines that are no record, such as one that a full disk has
// cut off, are left out.
func Read[T any](path string, limit int) ([]T, error) {
	var records []T
	for _, path := range []string{aside(path), path} {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var record T
			if json.Unmarshal(lines.Bytes(), &record) == nil {
				records = append(records, record)
			}
		}
		err = lines.Err()
		_ = file.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return records[max(0, len(records)-limit):], nil
}

// aside returns the path of the file with older records.
func aside(path string) string { return path + ".1" }

// Append adds a record. It is written within a second, if the disk takes it. The caller must not change what it points to afterwards.
func (j *Journal[T]) Append(record T) {
	j.mu.Lock()
	if len(j.waiting) >= j.o.Unwritten {
		j.waiting = append(j.waiting[:0], j.waiting[1:]...)
	}
	j.waiting = append(j.waiting, record)
	j.mu.Unlock()
	tasks.Wake(j.wake)
}

// Problem returns why records cannot be written; nil if they can, as far as is known.
func (j *Journal[T]) Problem() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Report logs that records cannot be written, and later that they can again, once each. what says what they are.
func (j *Journal[T]) Report(log *slog.Logger, what string) {
	j.mu.Lock()
	err, told := j.failed, j.told
	j.told = err != nil
	j.mu.Unlock()
	switch {
	case err != nil && !told:
		log.Warn(what+" are kept in memory only: their file cannot be written", "reason", err)
	case err == nil && told:
		log.Info(what + " are written to their file again")
	}
}

// Close writes what is left and ends the journal. It waits at most two seconds for the disk. Only the first call has an effect.
func (j *Journal[T]) Close() {
	j.ending.Do(func() { close(j.closing) })
	select {
	case <-j.done:
	case <-time.After(closeTimeout):
	}
}

// run writes records until Close.
func (j *Journal[T]) run() {
	defer close(j.done)
	for {
		select {
		case <-j.wake:
			delay := writeDelay
			if j.Problem() != nil {
				delay = retryDelay
			}
			select {
			case <-time.After(delay):
			case <-j.closing:
			}
			j.flush()
		case <-j.closing:
			j.flush()
			if j.file != nil {
				_ = j.file.Close() // each write has reported its own error
			}
			return
		}
	}
}

// flush writes all records that wait. What cannot be written waits for the next attempt.
func (j *Journal[T]) flush() {
	j.mu.Lock()
	records := j.waiting
	j.waiting = nil
	j.mu.Unlock()
	if len(records) == 0 {
		return
	}
	err := j.write(records)
	j.mu.Lock()
	j.failed = err
	if err != nil {
		records = append(records, j.waiting...)
		j.waiting = records[max(0, len(records)-j.o.Unwritten):]
	}
	j.mu.Unlock()
	if err != nil {
		tasks.Wake(j.wake)
	}
}

// write appends records to the file.
func (j *Journal[T]) write(records []T) error {
	if err := j.open(); err != nil {
		return err
	}
	var text bytes.Buffer
	if j.cut {
		text.WriteByte('\n')
	}
	for i := range records {
		line, err := json.Marshal(&records[i])
		if err != nil { // it would never be written
			continue
		}
		text.Write(append(line, '\n'))
	}
	_, err := j.file.Write(text.Bytes())
	j.cut = err != nil
	return err
}

// open opens the file, unless it is open and still the one at the path, and begins a new one if it is too large.
func (j *Journal[T]) open() error {
	at, err := os.Stat(j.o.Path)
	switch {
	case err == nil && at.Size() >= j.o.MaxBytes:
		if err := os.Rename(j.o.Path, aside(j.o.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	case err == nil && j.file != nil:
		if have, err := j.file.Stat(); err == nil && os.SameFile(have, at) {
			return nil
		}
	}
	if j.file != nil {
		_ = j.file.Close() // each write has reported its own error
		j.file = nil
	}
	file, err := os.OpenFile(j.o.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	j.file, j.cut = file, err != nil || info.Size() > 0
	return nil
}
