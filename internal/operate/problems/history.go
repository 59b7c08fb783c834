package problems

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	// mostPast is how many problems of the past are kept.
	mostPast = 1000
	// mostLines is from how many lines on the file is written anew: each problem has two, one when it begins and one when it ends.
	mostLines = 4 * mostPast
	// mostUnwritten bounds the lines that wait for a disk that takes none.
	mostUnwritten = 2 * mostPast
	// mostRead bounds how much of a file is read, whatever wrote it.
	mostRead = 16 << 20
	// retry is how long after a failure the disk is tried again.
	retry = 30 * time.Second
)

// History is the problems of the past, and those that last, as their file has them: a line of JSON when a problem begins, and another one when
// it has ended. Its methods may be called from any goroutine. One goroutine writes, so that nothing waits for the disk.
type History struct {
	file    string // static; empty for none
	log     *slog.Logger
	wake    chan struct{} // of size one: there is something to write
	end     chan struct{}
	running sync.WaitGroup // the writer

	lines int // in the file; owned by the writer

	mu        sync.Mutex
	all       []api.PastProblem // guarded by mu; those that have ended, oldest first
	lasting   []api.PastProblem // guarded by mu
	unwritten []api.PastProblem // guarded by mu; oldest first
	unsaved   string            // guarded by mu: why the last write failed
	silent    bool              // guarded by mu: nothing more is written
}

// openHistory reads the history in a file, as far as it can be read. Close ends it.
func openHistory(file string, guard *panics.Guard, log *slog.Logger) *History {
	h := &History{file: file, log: log, wake: make(chan struct{}, 1), end: make(chan struct{})}
	if file == "" {
		return h
	}
	if err := h.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.unsaved = err.Error()
		log.Warn("the past problems cannot be read", "reason", err)
	}
	h.running.Go(func() {
		defer guard.Recover("history of problems", nil)
		h.write()
	})
	return h
}

// open returns the problems that have begun and not ended.
func (h *History) open() []api.PastProblem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lasting)
}

// past returns the problems that have ended, the latest first, and why they are not on disk; empty if they are.
func (h *History) past() (all []api.PastProblem, unsaved string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all = append([]api.PastProblem{}, h.all...)
	slices.Reverse(all)
	return all, h.unsaved
}

// begun notes that a problem has begun.
func (h *History) begun(p *api.Problem) { h.add(api.PastProblem{Problem: *p}) }

// ended notes that a problem has ended.
func (h *History) ended(p *api.PastProblem) { h.add(*p) }

func (h *History) add(p api.PastProblem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := slices.ContainsFunc(h.lasting, func(o api.PastProblem) bool { return o.Same(&p.Problem) && o.Since.Equal(p.Since) }); known && p.Ended.IsZero() {
		return // it goes on after a restart
	}
	h.take(&p)
	if h.file == "" || h.silent {
		return
	}
	if h.unwritten = append(h.unwritten, p); len(h.unwritten) > mostUnwritten {
		h.unwritten = slices.Delete(h.unwritten, 0, len(h.unwritten)-mostUnwritten)
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// take takes one line. It is called with mu held, or before there are other goroutines.
func (h *History) take(p *api.PastProblem) {
	h.lasting = slices.DeleteFunc(h.lasting, func(o api.PastProblem) bool { return o.Same(&p.Problem) })
	if p.Ended.IsZero() {
		if h.lasting = append(h.lasting, *p); len(h.lasting) > mostPast {
			h.lasting = slices.Delete(h.lasting, 0, 1)
		}
		return
	}
	if slices.ContainsFunc(h.all, func(o api.PastProblem) bool { return o.Same(&p.Problem) && o.Since.Equal(p.Since) }) {
		return // it was written twice, since the disk was full in between
	}
	if h.all = append(h.all, *p); len(h.all) > mostPast {
		h.all = slices.Delete(h.all, 0, 1)
	}
}

// read reads the file. It skips what it does not understand, such as a line that a full disk has cut off.
func (h *History) read() error {
	f, err := os.Open(h.file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, mostRead))
	lines.Buffer(nil, mostRead)
	for lines.Scan() {
		h.lines++
		var p api.PastProblem
		if json.Unmarshal(lines.Bytes(), &p) == nil && p.Kind != "" && !p.Since.IsZero() {
			h.take(&p)
		}
	}
	return lines.Err()
}

// handOver has nothing more written.
func (h *History) handOver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent, h.unwritten = true, nil
}

// close writes what is left, and ends the writer.
func (h *History) close() {
	close(h.end)
	h.running.Wait()
}

// write is the writer's goroutine.
func (h *History) write() {
	again := time.NewTimer(retry)
	defer again.Stop()
	for {
		select {
		case <-h.wake:
		case <-again.C:
		case <-h.end:
			h.flush()
			return
		}
		h.flush()
		again.Reset(retry)
	}
}

// flush writes what is unwritten. What cannot be written stays.
func (h *History) flush() {
	h.mu.Lock()
	some := slices.Clone(h.unwritten)
	var whole []api.PastProblem
	if h.lines+len(some) > mostLines && !h.silent {
		whole = slices.Concat(h.all, h.lasting)
	}
	h.mu.Unlock()
	if len(some) == 0 {
		return
	}
	err := error(nil)
	if whole != nil {
		if err = replace(h.file, encode(whole)); err == nil {
			h.lines = len(whole)
		}
	}
	if whole == nil || err != nil && h.lines < 2*mostLines { // a file that cannot be replaced may still be appended to
		if err = appendTo(h.file, encode(some)); err == nil {
			h.lines += len(some)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if h.unsaved == "" {
			h.log.Warn("the past problems cannot be written: they are kept in memory", "reason", err)
		}
		h.unsaved = err.Error()
		return
	}
	h.unsaved = ""
	h.unwritten = slices.DeleteFunc(h.unwritten, func(p api.PastProblem) bool {
		return slices.ContainsFunc(some, func(o api.PastProblem) bool {
			return o.Same(&p.Problem) && o.Since.Equal(p.Since) && o.Ended.Equal(p.Ended)
		})
	})
}

func encode(all []api.PastProblem) []byte {
	var b bytes.Buffer
	for i := range all {
		if line, err := json.Marshal(&all[i]); err == nil {
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// appendTo appends lines to a file. If the file ends in the middle of a line, since a full disk has cut off the last write, it ends that line first.
func appendTo(file string, lines []byte) (err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	_, err = f.Write(lines)
	return err
}

// replace replaces a file in one step.
func replace(file string, content []byte) error {
	fresh := file + ".new"
	err := os.WriteFile(fresh, content, 0o640)
	if err == nil {
		err = os.Rename(fresh, file)
	}
	if err != nil {
		_ = os.Remove(fresh)
	}
	return err
}
