package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Tap starts a tap, see [tap.Registry.Start]. Any goroutine may call it.
func (s *Sessions) Tap(o tap.Options) (*tap.Tap, error) {
	return s.taps.Start(o, func(t *tap.Tap) bool {
		if o.ID.Process != s.shared.Process {
			return false
		}
		session, waiting := s.registry.find(o.ID.Number)
		if session != nil && !session.client.Post(func() { session.tapRunning(t) }) {
			t.End("the proxy is shutting down")
		}
		return session != nil || waiting != nil
	})
}

// EndTaps ends all taps, and refuses others: the proxy is shutting down. Any goroutine may call it.
func (s *Sessions) EndTaps() { s.taps.Close() }

// tapRunning lets a tap watch the session, which runs already.
func (s *Session) tapRunning(t *tap.Tap) {
	if s.life.state == gone {
		t.End("the session has ended")
		return
	}
	s.tap = t.Watch(s.tap, (*tappedSession)(s))
	s.compose()
}

// showState shows the taps that the session has entered another state.
func (s *Session) showState(e *event) {
	switch s.life.state {
	case moving:
		s.tap.Moving(e.reason)
	case lingering:
		s.tap.Ended()
	}
}

// tappedSession is a session as its taps know it: a [tap.Session].
type tappedSession Session

func (h *tappedSession) Post(f func()) bool { return h.client.Post(f) }

func (h *tappedSession) About() tap.About {
	about := tap.About{ID: h.record.ID, Service: h.record.Service.Name, Client: h.record.Client, State: h.life.state.String()}
	if conn := h.leg.conn; conn != nil {
		about.Backend = conn.Backend().Name()
	}
	return about
}

func (h *tappedSession) End() tap.End {
	r := &h.record
	end := tap.End{By: r.By.String(), Code: r.Code, Reason: r.Reason, Lasted: r.Ended.Sub(r.Leased)}
	if r.Backend != nil {
		end.Backend = r.Backend.Name()
	}
	return end
}

func (h *tappedSession) Scanner() *frame.Scanner { return &h.scanner }

func (h *tappedSession) FramesHandled() uint64 {
	if f := h.failover; f != nil && f.machine.Streams() {
		return f.framesBefore + f.outgoing.Frames
	}
	return h.scanner.Frames
}

func (h *tappedSession) Scans() bool { return !h.life.discardInput }

func (h *tappedSession) Drops() bool {
	return !rulesOf[h.life.state].toBackend && h.life.state != moving
}

func (h *tappedSession) Untapped() {
	h.tap = nil
	(*Session)(h).compose()
}
