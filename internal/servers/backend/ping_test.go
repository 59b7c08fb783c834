package backend

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Pings over real sockets: that they are sent, and what comes of it. What counts as a sign of life is in signs_test.go.

// check has the connection check itself now, which sends a ping.
func (s *session) check() { s.on(s.conn.check) }

// due has the pong be due now, as if the ping had been sent an hour ago.
func (s *session) due() {
	s.on(func() {
		if s.conn.pinged != 0 {
			s.conn.pinged = s.conn.pinged.After(-time.Hour)
		}
		s.conn.timer.Stop()
		s.conn.pongDue()
	})
}

// settled waits until a ping has been answered, and returns the round trip.
func (s *session) settled() (roundTrip time.Duration) {
	s.t.Helper()
	wstest.Eventually(s.t, "the pong has arrived", func() (settled bool) {
		s.on(func() { settled, roundTrip = s.conn.pinged == 0, time.Duration(s.conn.roundTrip)*time.Microsecond })
		return settled
	})
	return roundTrip
}

// pinging are options under which pings are sent and awaited only when a test says so.
func pinging(o *Options, _ *wstest.Server) { o.PingInterval, o.PingTimeout = time.Hour, time.Hour/2 }

// A connection whose pings are answered stays, be it idle or in use, and it is known how long that takes.
func TestPingsAreAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) {
		o.PingInterval, o.PingTimeout = 20*time.Millisecond, wstest.Timeout
	})
	r.ready(1)
	p := r.accepted()
	seen := make(map[string]bool)
	answer := func() {
		t.Helper()
		for range 2 {
			payload := p.ExpectPing()
			if seen[payload] {
				t.Errorf("the same payload %x again", payload)
			}
			seen[payload] = true
			p.Send(frame.Pong, payload)
		}
	}
	answer()
	s := r.use()
	answer()
	if s.end(0); s.pings == 0 {
		t.Error("the session was not asked to send a ping")
	}
	answer()
	wstest.Eventually(t, "the round trip is known", func() bool { return r.Health().RoundTripSeconds > 0 })
	if st := r.Stats(); st.Totals.Dialed != 1 || st.Idle != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// An idle connection that does not answer is given up within the deadline, and replaced.
func TestSilentWhileIdle(t *testing.T) {
	t.Parallel()
	const interval, timeout = 40 * time.Millisecond, 60 * time.Millisecond
	begun := time.Now()
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.PingInterval, o.PingTimeout = interval, timeout })
	p := r.accepted()
	p.ExpectPing()
	p.ExpectEnd() // no close frame: no one is there to read it
	if took := time.Since(begun); took < interval*3/4+timeout {
		t.Errorf("given up after %v", took)
	}
	r.accepted()
	wstest.Eventually(t, "it is noted", func() bool { return r.Stats().Totals.Reasons[pool.Silent] > 0 })
}

// A session whose connection does not answer is told.
func TestSilentInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", pinging)
	s := r.use()
	s.check()
	s.due()
	s.until("the session is told", func() bool { return s.ended != nil })
	if !strings.Contains(s.ended.Error(), "no answer to a ping within 30m0s") {
		t.Errorf("told %q", s.ended)
	}
	if st := r.Stats(); st.Leased != 1 {
		t.Errorf("it is up to the session: %+v", st)
	}
	s.finish(Ending{Fault: "vanished"})
	if st := r.Stats(); st.Totals.Reasons[pool.Silent] != 1 || st.Totals.Discarded != 1 {
		t.Errorf("stats: %+v", st)
	}
	if h := r.Health(); h.Broken != 1 {
		t.Errorf("health: %+v", h)
	}
}

// A session that has leased the connection, but has not begun, is told then.
func TestSilentBeforeUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", pinging)
	s := &session{t: t, conn: r.lease()}
	s.check()
	s.due()
	s.until("it is noticed", func() bool { return s.conn.cause() != nil })
	if s.begin() {
		t.Error("alive")
	}
	if st := r.Stats(); st.Totals.Reasons[pool.Silent] != 1 || st.Totals.Discarded != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// Without pings and without an age there is nothing to look at.
func TestNoTimer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", nil)
	s := r.use()
	s.ask("1")
	p := r.accepted()
	p.Expect(frame.Text, "1")
	s.end(1)
	p.Send(frame.Text, "1")
	r.ready(1)
	s.on(func() {
		if s.conn.timer.Active() {
			t.Error("a timer is set")
		}
	})
}

// Pings and ages are spread, so that connections which were dialed together are not pinged or retired together.
func TestJitter(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{1, 2, time.Second, time.Hour} {
		shortest, longest := d, time.Duration(0)
		for range 1000 {
			j := jittered(d)
			if j < d*3/4 || j > d {
				t.Fatalf("jittered(%v) = %v", d, j)
			}
			shortest, longest = min(shortest, j), max(longest, j)
		}
		if d >= time.Second && (shortest > d*77/100 || longest < d*98/100) {
			t.Errorf("jittered(%v) is between %v and %v", d, shortest, longest)
		}
	}
}
