package throttle

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// session is a session that counts its client's messages.
type session struct {
	scanner  frame.Scanner
	ended    atomic.Bool
	held     chan limits.Cause
	released chan struct{}
	messages chan uint64 // after each read
}

func (s *session) Relaying() bool           { return !s.ended.Load() }
func (s *session) HeldBack(by limits.Cause) { s.held <- by }
func (s *session) Released()                { s.released <- struct{}{} }

// Received implements [loop.Handler].
func (s *session) Received(_ *loop.Conn, b []byte) int {
	run, err := s.scanner.Next(b)
	if err != nil {
		panic(err)
	}
	s.messages <- s.scanner.Messages
	return run.Consumed
}

// Flushed implements [loop.Handler].
func (s *session) Flushed(*loop.Conn) {}

// Ended implements [loop.Handler].
func (s *session) Ended(*loop.Conn, error) {}

// Gathered implements [loop.GatheringHandler].
func (s *session) Gathered(*loop.Conn) {}

// oneLoop returns an event loop, which ends with the test.
func oneLoop(t *testing.T) *loop.Loop {
	loops, err := loop.NewGroup(loop.Options{Min: 1, Max: 1, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loops.Close)
	return loops.Loops()[0]
}

// limited returns the places of a session whose client has a rate of messages.
func limited(rate limits.Rate) *limits.Hold {
	scopes, now := limits.NewRegistry(), limits.Instant(loop.Now())
	scopes.SetProcess(now, limits.Limits{MessageRate: rate})
	hold := new(limits.Hold)
	scopes.Admit(now, &limits.Visitor{Service: limits.NewService("test"), Address: netip.MustParseAddr("192.0.2.1")}, hold)
	return hold
}

// reluctant is a handler that takes nothing of the first piece, although it ends a message, and everything of the others.
type reluctant struct {
	session
	pieces []int
}

// Received implements [loop.Handler].
func (r *reluctant) Received(_ *loop.Conn, b []byte) int {
	if r.pieces = append(r.pieces, len(b)); len(r.pieces) > 1 {
		return len(b)
	}
	r.scanner.Messages++
	return 0
}

// A handler that cannot use a piece gets a longer one, also at the end of a turn: otherwise the loop would present the same for ever.
func TestLongerPiece(t *testing.T) {
	l, r := oneLoop(t), &reluctant{session: session{scanner: frame.NewClientScanner(0)}}
	f := new(Filter)
	f.Init(r, limited(limits.Rate{N: 10, Per: time.Second}), &r.scanner, time.Minute)
	near, _ := wstest.Pair(t)
	socket, err := loop.Detach(near)
	if err != nil {
		t.Fatal(err)
	}
	l.Call(func() {
		c := l.Add(socket, f.Before(r), nil)
		if n := f.Received(c, make([]byte, 20)); n != 20 || len(r.pieces) != 2 || r.pieces[0] != MinPiece || r.pieces[1] != 20 {
			t.Errorf("%d bytes were taken, in pieces of %v", n, r.pieces)
		}
		c.Close()
	})
}

// A client that has used up its turn is held back until the session stops the filter. No byte is lost, and the last message is the one that was
// sent last. Without a rate, there is no filter.
func TestFilter(t *testing.T) {
	const sent = 1000
	l, hold := oneLoop(t), limited(limits.Rate{N: 1, Per: time.Hour})
	s := &session{scanner: frame.NewClientScanner(0), held: make(chan limits.Cause, 1), released: make(chan struct{}, 1), messages: make(chan uint64, sent)}
	f := new(Filter)
	if f.Before(s) != loop.Handler(s) || (*Filter)(nil).Before(s) != loop.Handler(s) {
		t.Error("there is a filter without a rate")
	}
	f.Init(s, hold, &s.scanner, time.Minute)
	near, far := wstest.Pair(t)
	socket, err := loop.Detach(near)
	if err != nil {
		t.Fatal(err)
	}
	var bytes []byte
	for range sent {
		bytes = append(bytes, wstest.ClientFrame(true, frame.Binary, "")...)
	}
	var c *loop.Conn
	l.Call(func() { c = l.Add(socket, f.Before(s), nil) })
	if _, err := far.Write(bytes); err != nil {
		t.Fatal(err)
	}
	if by := wstest.Receive(t, s.held, "the client to be held back"); by.Limit != limits.MessageRate {
		t.Errorf("held back by %v", limits.DescribeCause(by, ""))
	}
	l.Call(func() {
		if by, since := f.HeldBack(); by.Limit != limits.MessageRate || since == 0 || !c.Throttled() {
			t.Errorf("held back by %v since %v", limits.DescribeCause(by, ""), since)
		}
		if n, most := s.scanner.Messages, uint64(2*MinPiece/frame.MinClientSize); n == 0 || n > most {
			t.Errorf("%d messages have passed; want at most %d", n, most)
		}
		s.ended.Store(true)
		f.Stop(c)
	})
	wstest.Receive(t, s.released, "the client to be released")
	for n := uint64(0); n < sent; {
		n = wstest.Receive(t, s.messages, "messages")
	}
	l.Call(func() { c.Close() })
}
