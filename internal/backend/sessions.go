package backend

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// What the ends of sessions say about a server. A session that the server breaks counts towards its circuit, and so does one that
// it ends within a moment with a code that says that something is wrong with it. But a client may bring that about: with its own
// key or parameters, or with what it sends. So what fails at once over a connection that was dialed for one client alone does not
// count; and several failures of one client after the other count as one while the server serves others well.

// moment is how long a session must last before its end says nothing about its beginning any more.
const moment = time.Second

// sessionEnd is how a session ended.
type sessionEnd struct {
	client  netip.Addr   // zero if it is not known
	began   pool.Instant // 0 if it was over before it began
	broken  string       // how the server failed; empty if it did not
	private bool         // its connection was dialed with what its client said
	old     bool         // its connection was dialed in a way that has been changed since
	silent  bool         // it is neither a failure nor a session that went well
}

// failureCode tells whether a server that closes a session within a moment with this code says that something is wrong.
func failureCode(code frame.CloseCode) bool {
	switch code {
	case frame.ProtocolError, frame.UnsupportedData, frame.InvalidPayload, frame.InternalError:
		return true
	}
	return false
}

// wellCode tells whether a server that closes with this code says that all is well.
func wellCode(code frame.CloseCode) bool {
	return code == frame.NormalClosure || code == frame.GoingAway || code == frame.NoStatus
}

// endOf returns what the end of a session says. It is called on the connection's loop.
func (c *Conn) endOf(e *Ending, now pool.Instant) sessionEnd {
	end := sessionEnd{client: e.Client, began: c.sessionBegan, broken: e.Fault, private: c.private(), old: c.outdated()}
	atOnce := c.closeReceived && e.ClosedWith != 0 && end.quick(now)
	if end.broken == "" && atOnce && failureCode(e.ClosedWith) {
		end.broken = fmt.Sprintf("the server ended it at once with code %d", e.ClosedWith)
	}
	end.silent = end.broken == "" && (atOnce && !wellCode(e.ClosedWith) || c.EarlyEnd() != nil)
	return end
}

// quick tells whether the session ended within a moment.
func (e *sessionEnd) quick(now pool.Instant) bool {
	return e.began == 0 || time.Duration(now-e.began) < moment
}

// sessionBook is what a worker knows of its backend's sessions. It is guarded by the worker's mutex.
type sessionBook struct {
	going   int      // sessions that go on
	young   [2]int   // of them, by the parity of the second in which they began
	seconds [2]int64 // these seconds

	first   netip.Addr // of the clients whose sessions have ended
	several bool       // there was more than one address
	failed  netip.Addr // whose session was the last that counted as a failure
}

// second returns the second of an instant, and its place in young.
func second(at pool.Instant) (int64, int) {
	n := int64(at) / int64(time.Second)
	return n, int(n & 1)
}

func (b *sessionBook) begin(now pool.Instant) {
	b.going++
	n, i := second(now)
	if b.seconds[i] != n {
		b.seconds[i], b.young[i] = n, 0
	}
	b.young[i]++
}

func (b *sessionBook) end(e *sessionEnd) {
	if e.began != 0 {
		b.going--
		if n, i := second(e.began); b.seconds[i] == n {
			b.young[i]--
		}
	}
	switch {
	case !b.first.IsValid():
		b.first = e.client
	case e.client != b.first:
		b.several = true
	}
}

// settled returns how many sessions go on that began longer than a moment ago.
func (b *sessionBook) settled(now pool.Instant) int {
	n, _ := second(now)
	settled := b.going
	for i, of := range b.seconds {
		if of == n || of == n-1 {
			settled -= b.young[i]
		}
	}
	return settled
}

// counts tells whether a failure counts towards the circuit, and takes it that it does.
func (b *sessionBook) counts(e *sessionEnd, now pool.Instant) bool {
	quick := e.quick(now)
	switch {
	case e.private && quick:
		return false
	case e.client == b.failed && b.settled(now) > 0 && (quick || b.several):
		return false // others are served well: it may be this client's doing
	}
	b.failed = e.client
	return true
}

// began notes that a session began.
func (w *worker[C]) began(now pool.Instant) {
	w.mu.Lock()
	w.sessions.begin(now)
	w.mu.Unlock()
	w.conduct.sessionBegan(now)
}

// ended notes how a session ended.
func (w *worker[C]) ended(e sessionEnd, now pool.Instant) {
	w.mu.Lock()
	n := &w.news
	before := n.broken
	w.sessions.end(&e)
	switch {
	case e.broken != "" && e.old: // it says nothing about those to come
	case e.broken != "":
		if w.sessions.counts(&e, now) {
			n.broken, n.breaking = n.broken+1, e.broken
		}
	case !e.silent:
		n.ended, n.broken = true, 0
	}
	w.mu.Unlock()
	if e.broken != "" {
		w.report.update(func(h *Health) { h.Broken++ })
		if !e.old {
			w.conduct.sessionFailed(now)
		}
	}
	if before > 0 || e.broken != "" {
		poke(w.wanted)
	}
}
