package network

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const roundTrip = 5 * time.Millisecond

func dial(t *testing.T, n *Network) *Conn {
	t.Helper()
	c, err := n.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Dialing takes one round trip, and fails when the server refuses or nobody waits for it.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(roundTrip)
		begun := time.Now()
		c := dial(t, n)
		if took := time.Since(begun); took != roundTrip {
			t.Errorf("dialing took %v; want %v", took, roundTrip)
		}
		n.Refuse(true)
		if _, err := n.Dial(t.Context()); err != ErrRefused {
			t.Errorf("error %v; want %v", err, ErrRefused)
		}
		ctx, cancel := context.WithTimeout(t.Context(), roundTrip/2)
		defer cancel()
		if _, err := n.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v; want %v", err, context.DeadlineExceeded)
		}
		c.Close()
		c.Close()
	})
}

// The server counts the connections that it has open, however they end.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(roundTrip)
		first, second, third := dial(t, n), dial(t, n), dial(t, n)
		expect := func(open int) {
			t.Helper()
			if n.Open() != open || n.Most() != 3 {
				t.Errorf("%d open, %d at most; want %d and 3", n.Open(), n.Most(), open)
			}
		}
		expect(3)
		first.Close()
		expect(2)
		second.Break()
		second.Close()
		expect(1)
		n.BreakOne()
		expect(0)
		n.BreakOne()
		if first.Alive() || second.Alive() || third.Alive() {
			t.Error("a connection is alive after its end")
		}
	})
}

// A ping is answered one round trip later, unless the server hangs or the connection ends.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(roundTrip)
		c := dial(t, n)
		expect := func(want error, took time.Duration) {
			t.Helper()
			begun := time.Now()
			if err := c.Ping(time.Second); err != want || time.Since(begun) != took {
				t.Errorf("%v after %v; want %v after %v", err, time.Since(begun), want, took)
			}
		}
		expect(nil, roundTrip)
		c.Silence(true)
		if err := c.SendPing(nil); err != nil {
			t.Errorf("a ping could not be written: %v", err)
		}
		expect(ErrNoPong, time.Second)
		c.Silence(false)
		expect(nil, roundTrip)
		time.AfterFunc(roundTrip/5, c.Break)
		expect(ErrClosed, roundTrip/5)
		expect(ErrClosed, 0)
	})
}

// A reader learns of the end that the server makes, once, and not of the client's own.
func TestOnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(roundTrip)
		told := 0
		tell := func() { told++ }
		expect := func(want int) {
			t.Helper()
			if told != want {
				t.Errorf("told %d times; want %d", told, want)
			}
		}
		watched, late, closed := dial(t, n), dial(t, n), dial(t, n)
		watched.OnEnd(tell)
		expect(0)
		watched.Break()
		watched.Break()
		expect(1)
		late.Break()
		late.OnEnd(tell)
		expect(2)
		closed.OnEnd(tell)
		closed.Close()
		expect(2)
	})
}
