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

// A client that has used up its turn is held back until the session stops the filter. No byte is lost, and the last message is the one that was
// sent last. Without a rate, there is no filter.
func TestFilter(t *testing.T) {
	const sent = 1000
	loops, err := loop.NewGroup(loop.Options{Min: 1, Max: 1, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loops.Close)
	scopes, now := limits.NewRegistry(), limits.Instant(loop.Now())
	scopes.SetProcess(now, limits.Limits{MessageRate: limits.Rate{N: 1, Per: time.Hour}})
	hold := new(limits.Hold)
	scopes.Admit(now, &limits.Visitor{Service: limits.NewService("test"), Address: netip.MustParseAddr("192.0.2.1")}, hold)
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
	l, bytes := loops.Loops()[0], []byte(nil)
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
