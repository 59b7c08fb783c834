package problems

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/ground/journal"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

const (
	// mostPast is how many problems of the past are kept.
	mostPast = 1000
	// mostLines bounds how many lines are read, or wait for a disk that takes none: each problem has two, one when it begins and one when it ends.
	mostLines = 4 * mostPast
	// fileSize is the size in bytes at which the file is put aside: that of some thousand problems.
	fileSize = 1 << 20
)

// History is the problems of the past, and those that last. A journal has a line for each that begins, and another one when it has ended.
// Its methods may be called from any goroutine, and only close waits for the disk.
type History struct {
	journal *journal.Journal[api.PastProblem] // static; nil for in memory only
	mine    func() bool                       // static
	notMine error                             // static: why the file is another process's, if it is
	log     *slog.Logger

	mu      sync.Mutex
	all     []api.PastProblem // guarded by mu; those that have ended, oldest first
	lasting []api.PastProblem // guarded by mu
	unread  string            // guarded by mu: why the file could not be read
	silent  bool              // guarded by mu: nothing more is written
}

// openHistory reads the history in the options' file, as far as it can be read; an empty name is none. close ends it.
func openHistory(o *Options) *History {
	h := &History{log: o.Log, mine: o.Mine, notMine: o.NotMine}
	if h.mine == nil {
		h.mine = func() bool { return true }
	}
	if o.File == "" {
		return h
	}
	if h.mine() {
		h.read(o.File)
	}
	h.journal = journal.Open[api.PastProblem](journal.Options{Path: o.File, MaxBytes: fileSize, Unwritten: mostLines})
	return h
}

// read takes what a file has. It is called before there are other goroutines.
func (h *History) read(file string) {
	lines, err := journal.Read[api.PastProblem](file, mostLines)
	if err != nil {
		h.unread = err.Error()
		h.log.Warn("the past problems cannot be read", "reason", err)
	}
	for i := range lines {
		p := &lines[i]
		endless := p.Ended.IsZero() && diagnosis.OfOneClient(&p.Problem) // of an earlier version: its end is not written
		if p.Kind != "" && !p.Since.IsZero() && !endless {
			h.take(p)
		}
	}
}

// open returns the problems that have begun and not ended.
func (h *History) open() []api.PastProblem {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lasting)
}

// past returns the problems that have ended, those that began last first, and why they are not on disk; empty if they are.
func (h *History) past() (all []api.PastProblem, unsaved string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all = append([]api.PastProblem{}, h.all...)
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b api.PastProblem) int { return b.Since.Compare(a.Since) }) // as their lists show them
	if h.journal == nil {
		return all, h.unread
	}
	if !h.mine() {
		return all, h.notMine.Error()
	}
	if err := h.journal.Problem(); err != nil {
		return all, err.Error()
	}
	return all, h.unread
}

// begun notes that a problem has begun.
func (h *History) begun(p *api.Problem) { h.add(api.PastProblem{Problem: *p}) }

// ended notes that a problem has ended.
func (h *History) ended(p *api.PastProblem) { h.add(*p) }

func (h *History) add(p api.PastProblem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := slices.ContainsFunc(h.lasting, func(o api.PastProblem) bool { return o.Same(&p.Problem) && o.Since.Equal(p.Since) }); known && p.Ended.IsZero() {
		return // it continues after a restart
	}
	h.take(&p)
	if h.journal != nil && !h.silent && h.mine() && !diagnosis.OfOneClient(&p.Problem) { // which may repeat them until the file has nothing else
		h.journal.Append(p)
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
		h.forget()
	}
}

// forget forgets the oldest problem of the kind that has most of them, so that what comes and goes all the time does not push out the rest.
func (h *History) forget() {
	counts := make(map[string]int)
	most := ""
	for i := range h.all {
		kind := h.all[i].Kind
		if counts[kind]++; counts[kind] > counts[most] {
			most = kind
		}
	}
	oldest := slices.IndexFunc(h.all, func(p api.PastProblem) bool { return p.Kind == most })
	h.all = slices.Delete(h.all, oldest, oldest+1)
}

// report logs that the file cannot be written, or can again, once each.
func (h *History) report() {
	if h.journal != nil {
		h.journal.Report(h.log, "past problems")
	}
}

// handOver has nothing more written.
func (h *History) handOver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = true
}

// close writes what is left, as far as the disk takes it.
func (h *History) close() {
	if h.journal != nil {
		h.journal.Close()
	}
}
