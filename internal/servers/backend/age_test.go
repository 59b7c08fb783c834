package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Limits of how long a connection is kept: its age and the sessions that it has served.

// grown makes a connection older than it may become.
func (s *session) grown() { s.on(func() { s.conn.retireAt = loop.Now() }) }

// An idle connection that is too old is closed in order and replaced. That is no failure of the server.
func TestAgedWhileIdle(t *testing.T) {
	t.Parallel()
	const age = 200 * time.Millisecond
	begun := time.Now()
	r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.MaxAge = age })
	for range 4 { // more than would be suspicious if they were lost
		p := r.accepted()
		p.ExpectClose(frame.GoingAway, aged.text)
		if took := time.Since(begun); took < age*3/4 {
			t.Errorf("closed after %v", took)
		}
		begun = time.Now() // the next is dialed when this one is gone
		p.SendClose(frame.GoingAway, "")
		_ = p.Close()
	}
	wstest.Eventually(t, "they are noted", func() bool { return r.Stats().Totals.Reasons[pool.Aged] >= 4 })
	r.log.await(t, reachable)
}

// The ages at which connections are retired are spread.
func TestAgesAreSpread(t *testing.T) {
	t.Parallel()
	const connections = 24
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.Settings.Cap, o.Settings.Warm, o.MaxAge, s.Serve = connections, connections, time.Hour, wstest.Echo
	})
	r.ready(connections)
	ages := make(map[time.Duration]bool)
	for range connections {
		s := &session{t: t, conn: r.lease()}
		s.on(func() {
			age := time.Duration(s.conn.retireAt - s.conn.established)
			if age < 45*time.Minute || age > time.Hour {
				t.Errorf("may become %v old", age)
			}
			ages[age.Round(time.Second)] = true
			if !s.conn.timer.Active() {
				t.Error("its age is not checked")
			}
		})
		defer s.conn.ReturnUnused()
	}
	if len(ages) < connections/2 {
		t.Errorf("only %d different ages", len(ages))
	}
}

// A session is never cut for the age of its connection, which is retired when the lease ends, whichever way it does.
func TestAgedInUse(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*session, *wstest.Peer){
		"clean":     func(s *session, _ *wstest.Peer) { s.end(0) },
		"abandoned": func(s *session, _ *wstest.Peer) { s.on(s.conn.EndUnused) },
		"reset": func(s *session, p *wstest.Peer) {
			s.ask("1")
			p.Expect(frame.Text, "1")
			if v := s.end(1); v != Resetting {
				s.t.Errorf("outcome %v", v)
			}
			p.Send(frame.Text, "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "echo", func(o *Options, _ *wstest.Server) { o.MaxAge = time.Hour })
			s := r.use()
			if name == "abandoned" {
				s.on(func() { s.conn.Stream().SetHandler(s.conn) }) // as if it had not begun
			}
			s.grown()
			s.check()
			if s.ended != nil || r.Stats().Leased != 1 {
				t.Error("the session was cut")
			}
			end(s, p)
			p.ExpectClose(frame.GoingAway, aged.text)
			_ = p.Close()
			r.accepted()
			if st := r.Stats(); st.Totals.Reasons[pool.Aged] != 1 || st.Totals.Discarded != 1 || st.Totals.Returned != 0 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

// One that becomes too old between its lease and the session serves that session.
func TestAgedBeforeUse(t *testing.T) {
	t.Parallel()
	for name, pings := range map[string]time.Duration{"with pings": time.Hour, "without": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.MaxAge, o.PingInterval = time.Hour, pings })
			s := &session{t: t, conn: r.lease()}
			s.grown()
			s.check()
			if !s.begin() {
				t.Fatal("not alive")
			}
			s.end(0)
			if st := r.Stats(); st.Totals.Reasons[pool.Aged] != 1 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

// alarm owns a timer that closes a channel.
type alarm struct {
	rung chan struct{}
	loop *loop.Loop
}

// Loop implements [loop.Owner].
func (a alarm) Loop() *loop.Loop { return a.loop }

// Expired implements [loop.Owner].
func (a alarm) Expired(*loop.Timer) { close(a.rung) }

// A session on an old connection is not asked for pings more often than others.
func TestAgedIsPingedAsOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "echo", func(o *Options, s *wstest.Server) {
		o.MaxAge = time.Hour
		o.PingInterval, o.PingTimeout = time.Hour, time.Hour
		s.Serve = func(p *wstest.Peer) { // all pongs
			for {
				h, payload, err := p.Next()
				if err != nil {
					return
				}
				if h.Opcode == frame.Ping {
					_, _ = p.Conn.Write(wstest.ServerFrame(true, frame.Pong, string(payload)))
				}
			}
		}
	})
	s := r.use()
	s.grown()
	s.check()
	s.settled()
	passed := alarm{make(chan struct{}), s.conn.stream.Loop()}
	var timer loop.Timer
	s.on(func() { // later than anything that is set to happen at once
		timer.Set(passed, 250*time.Millisecond, 0)
	})
	<-passed.rung
	s.on(func() {
		if s.pings != 1 {
			t.Errorf("%d pings", s.pings)
		}
	})
	s.end(0)
}

// A connection serves a number of sessions, and is closed in order then.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	for name, owed := range map[string]uint64{"clean at once": 0, "after a reset": 1} {
		t.Run(name, func(t *testing.T) {
			r, p := newIdleRig(t, "echo", func(o *Options, _ *wstest.Server) { o.MaxSessions = 3 })
			for n := 1; n <= 3; n++ {
				s := r.use()
				for range owed {
					s.ask("1")
					p.Expect(frame.Text, "1")
				}
				s.end(owed)
				for range owed {
					p.Send(frame.Text, "1")
				}
			}
			p.ExpectClose(frame.GoingAway, "served its sessions")
			_ = p.Close()
			r.accepted()
			r.ready(1)
			if st := r.Stats(); st.Totals.Reasons[pool.WornOut] != 1 || st.Totals.Returned != 2 || st.Totals.Dialed != 2 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

// Sessions get no connection that has reached half of the age at which the server ends it.
func TestMaxAgeOfServer(t *testing.T) {
	list, err := profile.Parse("test.yaml", []byte(
		"profiles: {aged: {from: echo, max-age: 10m, limits: {age: 6m}}, young: {from: echo, max-age: 10m, limits: {age: 4m}}}"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{5 * time.Minute, 4 * time.Minute} {
		for _, own := range []time.Duration{0, time.Hour} {
			o := Options{MaxAge: own}
			if o.keepTo(list[i]); o.MaxAge != want {
				t.Errorf("%s: %v", list[i].Name, o.MaxAge)
			}
		}
	}
	o := Options{MaxAge: time.Minute}
	if o.keepTo(list[0]); o.MaxAge != time.Minute {
		t.Errorf("the backend's own age: %v", o.MaxAge)
	}
}
