package backend

import (
	"bytes"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Leases that no session has come of.

// A connection that was not used is idle again, whatever its profile: nothing was sent over it.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"echo", "one-shot"} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, name, nil)
			first := r.lease()
			first.ReturnUnused()
			r.ready(1)
			p.Send(frame.Ping, "idle as before")
			p.Expect(frame.Pong, "idle as before")
			s := r.use()
			if s.conn != first {
				t.Error("another connection")
			}
			s.on(s.conn.EndUnused) // in the last moment
			if st := r.Stats(); st.Totals.Leased != 2 || st.Totals.Returned != 2 || st.Totals.Dialed != 1 || st.Idle != 1 {
				t.Errorf("stats: %+v", st)
			}
			s.on(func() { s.conn.Stream().SetHandler(s.conn) })
		})
	}
}

// A client that waits gets it at once.
func TestGiveBackServesQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, "one-shot", nil)
	c := r.lease()
	var waiter pool.Waiter[*Conn]
	if _, ok, err := r.group.Acquire(&waiter); ok || err != nil {
		t.Fatal(ok, err)
	}
	c.ReturnUnused()
	if got := <-waiter.Ready(); got != c {
		t.Error("another connection")
	}
	c.ReturnUnused()
	r.ready(1)
}

// What the server has said before is for the next client then.
func TestGiveBackKeepsGreeting(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "one-shot", nil)
	hello := wstest.ServerFrame(true, frame.Text, "hello")
	p.SendBytes(hello)
	p.Send(frame.Ping, "")
	p.Expect(frame.Pong, "")
	r.lease().ReturnUnused()
	r.ready(1)
	if s := r.use(); !bytes.Equal(s.greeting, hello) {
		t.Errorf("greeting %q", s.greeting)
	} else {
		s.end(0)
	}
}

// One that was lost meanwhile is not idle again.
func TestGiveBackOfLost(t *testing.T) {
	t.Parallel()
	r, p := newIdleRig(t, "echo", nil)
	s := &session{t: t, conn: r.lease()}
	p.SendClose(1012, "restart")
	s.until("the loss is noticed", func() bool { return s.conn.cause() != nil })
	s.conn.ReturnUnused()
	p.ExpectClose(1012, "closed by the server: 1012 restart")
	_ = p.Close()
	r.accepted()
	r.ready(1)
	if st := r.Stats(); st.Totals.Reasons[pool.Closed] != 1 || st.Totals.Discarded != 1 || st.Totals.Returned != 0 {
		t.Errorf("stats: %+v", st)
	}
}
