// Package tap shows an operator the frames of one session, or of the next few that begin, while they pass, what the profile makes of them, and
// what becomes of the connections.
//
// A [Tap] collects events for its reader; the [Registry] has all taps. A session that is tapped has a [Tapped], whose filters stand in front of
// the handlers of its connections, look at the bytes and pass them on. A session that is not tapped has none, and pays nothing. The package
// knows sessions as what implements [Session].
package tap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Limits of taps.
const (
	Max       = 16      // of a Registry
	maxEvents = 4096    // that wait for a tap's reader
	MaxText   = 1 << 20 // bytes of text in them
)

// Errors of [Registry.Start].
var (
	ErrTooMany   = fmt.Errorf("there are %d taps already: end one of them first", Max)
	ErrNoSession = errors.New("there is no such session")
)

// Options choose what a tap shows: the session, or the client that waits for one, with that ID; or, without an ID, the next First sessions
// that begin and fit all fields that are not empty.
type Options struct {
	ID      record.ID
	Service string
	Backend string // that serves the session first
	Client  string // address, or address and port
	First   int
	// Text is how many bytes of a text frame are shown; 0 for none.
	Text int
}

// Event is what happened on a session. Which fields are set depends on Event: see api.TapEvent, which has the same.
type Event struct {
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
	registry *Registry
	options  Options
	wake     chan struct{} // of size one: there may be something for the reader

	mu       sync.Mutex
	events   []Event              // guarded by mu: not taken by the reader yet
	text     int                  // guarded by mu: bytes of text in events
	missed   uint64               // guarded by mu: events for which there was no room
	expected int                  // guarded by mu: sessions that are still to begin, or to be found on their loop
	watched  int                  // guarded by mu: sessions, and connections after them, that it still watches
	sessions map[*Tapped]struct{} // guarded by mu: that it watches
	ended    bool                 // guarded by mu: no further events
	reason   string               // guarded by mu: why it has ended
}

// Registry has all taps. Any goroutine may use it. The zero value has none.
type Registry struct {
	seeking atomic.Int32 // taps that wait for sessions to begin; changed with the tap's mu held
	mu      sync.Mutex
	all     []*Tap // guarded by mu
	closed  bool   // guarded by mu
}

// Start starts a tap. If the options have an ID, find finds what has it: it lets the tap watch a session that runs ([Tap.Watch]), and returns
// false if neither a session nor a waiting client has that ID. The error is ErrTooMany or ErrNoSession. The caller reads with [Tap.Next] and
// calls [Tap.Close] in the end.
func (r *Registry) Start(o Options, find func(*Tap) bool) (*Tap, error) {
	t := &Tap{registry: r, options: o, wake: make(chan struct{}, 1), expected: max(o.First, 1), sessions: make(map[*Tapped]struct{})}
	if o.ID != (record.ID{}) {
		t.expected = 1
	}
	if err := r.add(t); err != nil {
		return nil, err
	}
	if o.ID != (record.ID{}) && !find(t) { // after add, so that the session cannot begin unnoticed in between
		t.Close()
		return nil, ErrNoSession
	}
	return t, nil
}

// Close ends all taps, and refuses others: the proxy is shutting down.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.each(func(t *Tap) { t.End("the proxy is shutting down") })
}

// Began lets the taps that wait for sessions watch one that begins on a connection of this backend. It returns nil if none does.
func (r *Registry) Began(s Session, backend string) (tapped *Tapped) {
	if r.seeking.Load() == 0 {
		return nil
	}
	about := s.About()
	about.Backend, about.State = backend, "began"
	r.each(func(t *Tap) { tapped = t.join(tapped, s, &about, true) })
	return tapped
}

// Left tells the taps that the client of that ID has left without a session.
func (r *Registry) Left(id record.ID) {
	if r.seeking.Load() == 0 {
		return
	}
	r.each(func(t *Tap) {
		if t.options.ID == id {
			t.End("the client got no session")
		}
	})
}

// Counts returns how many taps there are, and how many of them wait for sessions to begin.
func (r *Registry) Counts() (all, seeking int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all), int(r.seeking.Load())
}

func (r *Registry) add(t *Tap) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.all) >= Max {
		return ErrTooMany
	}
	r.all = append(r.all, t)
	r.seeking.Add(1)
	return nil
}

func (r *Registry) remove(t *Tap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(other *Tap) bool { return other == t })
}

// each calls f with each tap.
func (r *Registry) each(f func(*Tap)) {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	for _, t := range all {
		f(t)
	}
}

// Next returns the events since the last call, and waits until there are some. more is false after the last ones. The error is the
// context's. One goroutine at a time may call it.
func (t *Tap) Next(ctx context.Context) (events []Event, more bool, err error) {
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
func (t *Tap) take() (events []Event, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	events, t.events, t.text = t.events, nil, 0
	if t.missed > 0 {
		events = append(events, Event{Time: time.Now(), Event: "missed", Count: t.missed})
		t.missed = 0
	}
	if t.ended {
		events = append(events, Event{Time: time.Now(), Event: "end", Reason: t.reason})
	}
	return events, !t.ended
}

// End ends the tap with an event that says why, which the reader still gets.
func (t *Tap) End(reason string) {
	t.mu.Lock()
	sessions := t.endLocked(reason)
	t.mu.Unlock()
	for tapped := range sessions {
		tapped.session.Post(func() { tapped.remove(t) })
	}
}

// Close ends the tap. The reader gets nothing more.
func (t *Tap) Close() {
	t.End("")
	t.registry.remove(t)
}

// endLocked ends the tap, and returns the sessions from which it has to be removed.
func (t *Tap) endLocked(reason string) (sessions map[*Tapped]struct{}) {
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
		t.registry.seeking.Add(-1)
	}
}

// signal wakes the reader.
func (t *Tap) signal() {
	tasks.Wake(t.wake)
}

// Watch lets the tap watch a session that runs already, unless it has watched it since its beginning. tapped is what the session has, nil for
// nothing, and the result is what it has from now on. It is called on the session's loop.
func (t *Tap) Watch(tapped *Tapped, s Session) *Tapped {
	about := s.About()
	return t.join(tapped, s, &about, false)
}

// join adds the tap to what a session has, which is nil for nothing, if the tap is for that session. began is false if the session runs already,
// and was chosen by its ID.
func (t *Tap) join(to *Tapped, s Session, about *About, began bool) *Tapped {
	tapped := to
	if tapped == nil {
		tapped = newTapped(s, about.ID)
	}
	if !t.watches(tapped, about, began) {
		return to
	}
	tapped.audience.set(append(slices.Clip(tapped.audience.taps), t))
	t.add(Event{
		Time: time.Now(), Session: tapped.audience.session, Event: sessionEvent, What: about.State, Service: about.Service, Client: about.Client.String(),
		Backend: about.Backend,
	})
	return tapped
}

// watches notes that the tap watches a session if it is for that.
func (t *Tap) watches(tapped *Tapped, about *About, began bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.expected == 0 || began && !t.options.fit(about) {
		return false
	}
	t.expectLocked(t.expected - 1)
	t.watched++
	t.sessions[tapped] = struct{}{}
	return true
}

// fit reports whether a session that begins is one of those that the tap is for.
func (o *Options) fit(about *About) bool {
	if o.ID != (record.ID{}) {
		return o.ID == about.ID
	}
	return (o.Service == "" || o.Service == about.Service) &&
		(o.Backend == "" || backend.Matches(about.Backend, o.Backend)) &&
		(o.Client == "" || isClient(about.Client, o.Client))
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

// release notes that a session, or a connection after it (nil), is no longer watched. The tap ends with the last one.
func (t *Tap) release(s *Tapped) {
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
func (t *Tap) add(e Event) {
	e.Text, e.Cut = cutText(e.Text, t.options.Text, e.Cut)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	if len(t.events) >= maxEvents || t.text+len(e.Text) > MaxText {
		t.missed++
		return
	}
	if t.missed > 0 {
		t.events = append(t.events, Event{Time: e.Time, Event: "missed", Count: t.missed})
		t.missed = 0
	}
	t.events = append(t.events, e)
	t.text += len(e.Text)
	if len(t.events) == 1 {
		t.signal()
	}
}

// cutText cuts a text to that many bytes, at the beginning of a character. cut tells that the text was longer already.
func cutText(text string, limit int, cut bool) (string, bool) {
	if len(text) <= limit {
		return text, cut
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}
