package backend

import (
	"errors"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/pool"
)

const (
	fullHold    = 30 * time.Second // or up to a quarter less: how long a server that is full is asked for no more
	raiseEvery  = 5 * time.Second  // or up to a quarter less: between two steps up after that
	raiseDivide = 10               // steps are this part of the cap, and at least one connection
)

// errFull is what a server said that is well but takes no more connections. Dialing errors wrap it.
var errFull = errors.New("the server is full")

// ceiling is how many connections a server takes at present, when that is fewer than its cap. It holds no clock. All of it is
// owned by the worker.
type ceiling struct {
	value   int       // 0 for the cap
	raiseAt time.Time // when it may be raised
}

// lower notes that the server refused a connection beside so many others. It returns whether that is news.
func (c *ceiling) lower(others int, now time.Time) (news bool) {
	news = c.value == 0
	if others = max(others, 1); news || others < c.value {
		c.value = others
	}
	c.raiseAt = now.Add(jittered(fullHold))
	return news
}

// raise raises the ceiling by a step if it is time, and returns whether it did. At the cap there is none any more.
func (c *ceiling) raise(limit int, now time.Time) bool {
	if c.value == 0 || now.Before(c.raiseAt) {
		return false
	}
	c.value += max(1, limit/raiseDivide)
	c.raiseAt = now.Add(jittered(raiseEvery))
	if c.value >= limit {
		c.value = 0
	}
	return true
}

// full notes that the server refused a session, whose connection is still leased. Other servers of the kind count sessions,
// and not connections.
func (w *worker[C]) full() { w.tell(func(n *news) { n.full++ }) }

// refusedDial lowers the ceiling after the server refused a connection, which still has its place. It returns false when the
// server holds none: then it is not full, but not well.
func (w *worker[C]) refusedDial(s pool.Stats) bool {
	if s.Idle+s.Leased+s.Resetting+s.Retiring == 0 {
		return false
	}
	w.refused(s.Used()-1, s)
	return true
}

// refused lowers the ceiling to what the server holds beside what it refused.
func (w *worker[C]) refused(others int, s pool.Stats) {
	news := w.ceiling.lower(others, time.Now())
	w.pool.SetCeiling(w.ceiling.value)
	if news {
		w.report.log.Warn("backend is full, takes fewer connections for a while", "backend", w.report.named(),
			"connections", w.ceiling.value, "cap", s.Cap)
	}
}

// raise gives a server that was full more connections, step by step.
func (w *worker[C]) raise() {
	if w.ceiling.value == 0 {
		return
	}
	limit := w.pool.Stats().Cap
	if !w.ceiling.raise(limit, time.Now()) {
		return
	}
	w.pool.SetCeiling(w.ceiling.value)
	if w.ceiling.value == 0 {
		w.report.log.Info("backend may have all its connections again", "backend", w.report.named(), "cap", limit)
	}
}
