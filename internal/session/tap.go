package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// A tap shows an operator the frames of one session, or of the next few that begin, while they pass, what the profile makes of them,
// and what becomes of the connections. tapping.go observes the sessions.

// Limits of taps.
const (
	maxTaps      = 16
	maxTapEvents = 4096    // that wait for a tap's reader
	maxTapText   = 1 << 20 // bytes of text in them
)

// Errors of [Server.Tap].
var (
	ErrTooManyTaps = fmt.Errorf("there are %d taps already: end one of them first", maxTaps)
	ErrNoSession   = errors.New("there is no such session")
)

// TapOptions choose what a tap shows: the session, or the client that waits for one, with that ID; or, if ID is zero, the next First
// sessions that begin and fit all fields that are not empty.
type TapOptions struct {
	ID      record.ID
	Service string
	Backend string // that serves the session first
	Client  string // address, or address and port
	First   int
	// Text is how many bytes of a text frame are shown; 0 for none.
	Text int
}

// TapEvent is what happened on a session. Which fields are set depends on Event: see api.TapEvent, which has the same.
type TapEvent struct {
	Time                     time.Time
	Session                  string
	Event                    string
	From, To, Kind           string
	Size                     int64
	Fin                      bool
	Text                     string
	Cut                      bool
	Code                     uint16
	What, Reason             string
	Service, Backend, Client string
	Elapsed                  time.Duration
	Count                    uint64
}

// Tap collects events for one reader. Any goroutine may use it; Close ends it.
type Tap struct {
	// Static.
	server  *Sessions
	options TapOptions
	wake    chan struct{} // of size one: there may be something for the reader

	mu       sync.Mutex
	events   []TapEvent            // guarded by mu: not taken by the reader yet
	text     int                   // guarded by mu: bytes of text in events
	missed   uint64                // guarded by mu: events for which there was no room
	expected int                   // guarded by mu: sessions that are still to begin, or to be found on their loop
	watched  int                   // guarded by mu: sessions, and connections after them, that it still watches
	sessions map[*Session]struct{} // guarded by mu: that it watches
	ended    bool                  // guarded by mu: no further events
	reason   string                // guarded by mu: why it has ended
}

// taps are the taps of a server.
type taps struct {
	seeking atomic.Int32 // taps that wait for sessions to begin; changed with mu held
	mu      sync.Mutex
	all     []*Tap // guarded by mu
	closed  bool   // guarded by mu
}

// Tap starts a tap. The error is ErrTooManyTaps or ErrNoSession. Any goroutine may call it. The caller reads with [Tap.Next] and calls
// [Tap.Close] in the end.
func (s *Sessions) Tap(o TapOptions) (*Tap, error) {
	t := &Tap{server: s, options: o, wake: make(chan struct{}, 1), expected: max(o.First, 1), sessions: make(map[*Session]struct{})}
	chosen := o.ID != (record.ID{})
	if chosen {
		t.expected = 1
	}
	if err := s.taps.add(t); err != nil {
		return nil, err
	}
	if !chosen {
		return t, nil
	}
	session, waiting := s.registry.find(o.ID.Number) // after add, so that the session cannot begin unnoticed in between
	switch {
	case session != nil && o.ID.Process == s.process:
		if !session.client.Post(func() { session.tapRunning(t) }) {
			t.end("the proxy is shutting down")
		}
	case waiting == nil || o.ID.Process != s.process:
		t.Close()
		return nil, ErrNoSession
	}
	return t, nil
}

// EndTaps ends all taps, and refuses others: the proxy is shutting down. Any goroutine may call it.
func (s *Sessions) EndTaps() { s.taps.close() }

// add adds a tap.
func (s *taps) add(t *Tap) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.all) >= maxTaps {
		return ErrTooManyTaps
	}
	s.all = append(s.all, t)
	s.seeking.Add(1)
	return nil
}

// remove removes a tap.
func (s *taps) remove(t *Tap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(other *Tap) bool { return other == t })
}

// each calls f with each tap.
func (s *taps) each(f func(*Tap)) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, t := range all {
		f(t)
	}
}

// close ends all taps, and refuses others.
func (s *taps) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.each(func(t *Tap) { t.end("the proxy is shutting down") })
}

// left tells the taps that the client of that id has left without a session.
func (s *taps) left(id record.ID) {
	if s.seeking.Load() == 0 {
		return
	}
	s.each(func(t *Tap) {
		if t.options.ID == id {
			t.end("the client got no session")
		}
	})
}

// Next returns the events since the last call, and waits until there are some. more is false after the last ones. The error is the
// context's. One goroutine at a time may call it.
func (t *Tap) Next(ctx context.Context) (events []TapEvent, more bool, err error) {
	for {
		events, more = t.take()
		if len(events) > 0 || !more {
			return events, more, nil
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return nil, true, ctx.Err()
		}
	}
}

// take takes the events that wait.
func (t *Tap) take() (events []TapEvent, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	events, t.events, t.text = t.events, nil, 0
	if t.missed > 0 {
		events = append(events, TapEvent{Time: time.Now(), Event: "missed", Count: t.missed})
		t.missed = 0
	}
	if t.ended {
		events = append(events, TapEvent{Time: time.Now(), Event: "end", Reason: t.reason})
	}
	return events, !t.ended
}

// End ends the tap with an event that says why, which the reader still gets.
func (t *Tap) End(reason string) { t.end(reason) }

// Close ends the tap. The reader gets nothing more.
func (t *Tap) Close() {
	t.end("")
	t.server.taps.remove(t)
}

// end ends the tap: it watches nothing any more.
func (t *Tap) end(reason string) {
	t.mu.Lock()
	sessions := t.endLocked(reason)
	t.mu.Unlock()
	for session := range sessions {
		session.client.Post(func() { session.untap(t) })
	}
}

// endLocked ends the tap, and returns the sessions from which it has to be removed.
func (t *Tap) endLocked(reason string) (sessions map[*Session]struct{}) {
	if t.ended {
		return nil
	}
	t.ended, t.reason = true, reason
	sessions, t.sessions = t.sessions, nil
	if t.expected > 0 {
		t.expectLocked(0)
	}
	t.signal()
	return sessions
}

// expectLocked sets how many sessions are still to begin.
func (t *Tap) expectLocked(n int) {
	t.expected = n
	if n == 0 {
		t.server.taps.seeking.Add(-1)
	}
}

// signal wakes the reader.
func (t *Tap) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// watches begins to watch a session if the tap is for it. It is called on the session's loop. began is false if the session runs already,
// and was chosen by its id.
func (t *Tap) watches(s *Session, backend string, began bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.expected == 0 || began && !t.fits(s, backend) {
		return false
	}
	t.expectLocked(t.expected - 1)
	t.watched++
	t.sessions[s] = struct{}{}
	return true
}

// fits reports whether a session that begins is one of those that the tap is for.
func (t *Tap) fits(s *Session, backend string) bool {
	o := &t.options
	if o.ID != (record.ID{}) {
		return o.ID == s.record.ID
	}
	return (o.Service == "" || o.Service == s.record.Service.Name) &&
		(o.Backend == "" || isBackend(backend, o.Backend)) &&
		(o.Client == "" || isClient(s.record.Client, o.Client))
}

// isBackend reports whether a backend has this name, or is a server that was discovered for the backend of this name: NAME@ADDRESS:PORT.
func isBackend(name, wanted string) bool {
	rest, ok := strings.CutPrefix(name, wanted)
	return ok && (rest == "" || rest[0] == '@')
}

// isClient reports whether a client has that address, or address and port.
func isClient(client origin.Address, text string) bool {
	return text == client.Addr().String() || text == client.String()
}

// follows notes that the tap watches a connection after its session.
func (t *Tap) follows() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched++
}

// release notes that a session, or a connection after it (nil), is watched no more. The tap ends with the last one.
func (t *Tap) release(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched--
	if s != nil {
		delete(t.sessions, s)
	}
	if t.watched == 0 && t.expected == 0 {
		t.endLocked("everything that was to be watched has ended") // there are no sessions left to remove it from
	}
}

// add gives the reader an event. If there is no room for it, it is counted. It never waits.
func (t *Tap) add(e TapEvent) {
	e.Text, e.Cut = cutText(e.Text, t.options.Text, e.Cut)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if len(t.events) >= maxTapEvents || t.text+len(e.Text) > maxTapText {
		t.missed++
		return
	}
	if t.missed > 0 {
		t.events = append(t.events, TapEvent{Time: e.Time, Event: "missed", Count: t.missed})
		t.missed = 0
	}
	t.events = append(t.events, e)
	t.text += len(e.Text)
	if len(t.events) == 1 {
		t.signal()
	}
}

// cutText cuts a text to so many bytes, at the beginning of a character. cut tells that the text was longer already.
func cutText(text string, limit int, cut bool) (string, bool) {
	if len(text) <= limit {
		return text, cut
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}
