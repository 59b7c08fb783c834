package tap

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// session is a session whose loop is the test's goroutine. It receives what its filter passes on.
type session struct {
	about    About
	scanner  frame.Scanner
	posted   []func()
	untapped int
}

func newSession(id record.ID) *session {
	return &session{about: About{
		ID: id, Service: "stt", Client: origin.Address{AddrPort: netip.MustParseAddrPort("192.0.2.1:4000")}, State: "relaying",
	}, scanner: frame.NewClientScanner(0)}
}

func (s *session) Post(f func()) bool      { s.posted = append(s.posted, f); return true }
func (s *session) About() About            { return s.about }
func (s *session) Scanner() *frame.Scanner { return &s.scanner }
func (s *session) FramesHandled() uint64   { return s.scanner.Frames }
func (s *session) Scans() bool             { return true }
func (s *session) Drops() bool             { return false }
func (s *session) End() End                { return End{By: "client", Code: frame.NormalClosure, Lasted: time.Second} }
func (s *session) Untapped()               { s.untapped++ }

// run calls what was posted.
func (s *session) run() {
	for _, f := range s.posted {
		f()
	}
	s.posted = nil
}

// id returns the ID of that number.
func id(number uint64) record.ID { return record.ID{Process: record.Process{'x'}, Number: number} }

// none finds no session.
func none(*Tap) bool { return false }

// events returns what a tap has shown.
func events(t *testing.T, tap *Tap) (all []string, more bool) {
	t.Helper()
	got, more, err := tap.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range got {
		all = append(all, e.Event+" "+e.What+e.Reason)
	}
	return all, more
}

// A tap watches as many sessions as it was asked for, of those that fit. It ends with the last.
func TestTapOfNextSessions(t *testing.T) {
	var r Registry
	if tapped := r.Began(newSession(id(1)), "gpu-1"); tapped != nil {
		t.Error("a session is tapped without a tap")
	}
	two, err := r.Start(Options{First: 2, Service: "stt", Backend: "gpu", Client: "192.0.2.1"}, none)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"service": {Service: "tts"}, "backend": {Backend: "cpu"}, "client": {Client: "192.0.2.2"}} {
		if tap, err := r.Start(o, none); err != nil {
			t.Fatal(err)
		} else if tapped := r.Began(newSession(id(2)), "gpu@192.0.2.9:80"); tapped.Count() > 1 || len(tap.sessions) > 0 {
			t.Errorf("another %s is tapped", name)
		}
	}
	s := newSession(id(4))
	if tapped := r.Began(s, "gpu"); tapped != nil {
		t.Error("a third session is tapped")
	}
	for tapped := range two.sessions {
		tapped.Forgotten()
		tapped.Forgotten()
		if tapped.Count() != 0 {
			t.Error("a session that has gone is tapped")
		}
	}
	all, more := events(t, two)
	want := []string{"session began", "session began", "session ended", "session ended", "end everything that was to be watched has ended"}
	if len(all) != len(want) || more {
		t.Errorf("%q; want %q", all, want)
	}
	r.Close()
	if _, err := r.Start(Options{}, none); !errors.Is(err, ErrTooMany) {
		t.Errorf("another tap: %v", err)
	}
}

// A tap of a session that runs leaves it when the reader closes the tap. Taps of nothing are refused, and their number is bounded.
func TestTapOfRunningSession(t *testing.T) {
	var r Registry
	if _, err := r.Start(Options{ID: id(1)}, none); !errors.Is(err, ErrNoSession) {
		t.Errorf("a tap of no session: %v", err)
	}
	s := newSession(id(1))
	var tapped *Tapped
	watch := func(tap *Tap) bool { tapped = tap.Watch(tapped, s); return true }
	var all []*Tap
	for range Max {
		tap, err := r.Start(Options{ID: id(1)}, watch)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tap)
	}
	if _, err := r.Start(Options{ID: id(1)}, watch); !errors.Is(err, ErrTooMany) || tapped.Count() != Max {
		t.Errorf("%d taps, and one more: %v", tapped.Count(), err)
	}
	for i, tap := range all {
		tap.Close()
		s.run()
		if left := Max - i - 1; tapped.Count() != left || s.untapped != map[bool]int{left == 0: 1}[true] {
			t.Errorf("%d taps are left, and the session was untapped %d times", tapped.Count(), s.untapped)
		}
	}
	if n, seeking := r.Counts(); n != 0 || seeking != 0 {
		t.Errorf("%d taps are left, %d of them seek sessions", n, seeking)
	}
	if _, _, err := all[0].Next(context.Background()); err != nil {
		t.Error(err)
	}
}

// A tap of a client that waits ends when the client leaves.
func TestTapOfClientThatLeaves(t *testing.T) {
	var r Registry
	tap, err := r.Start(Options{ID: id(1)}, func(*Tap) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	r.Left(id(2))
	r.Left(id(1))
	if all, more := events(t, tap); more || len(all) != 1 || all[0] != "end the client got no session" {
		t.Errorf("%q", all)
	}
}

// The methods of a session that is not tapped do nothing, and put nothing in front of its handlers.
func TestNotTapped(t *testing.T) {
	var tapped *Tapped
	tapped.Moving("full")
	tapped.Moved("gpu")
	tapped.Hidden()
	tapped.Reset()
	tapped.Greeted([]byte{0x81, 0})
	tapped.SentToBackend(frame.Text, nil)
	tapped.Ended()
	tapped.Forgotten()
	next := loop.Handler(loop.Filter{})
	if tapped.Count() != 0 || tapped.BeforeClient(next) != next || tapped.BeforeBackend(nil, next) != next {
		t.Error("a session that is not tapped has filters")
	}
}
