package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// agesNow has the only session leave its server now for the age of its connection, by replay after a while.
func (r *rig) agesNow(replay time.Duration) {
	r.T.Helper()
	r.on(func(s *Session) {
		now := loop.Now()
		s.failover.leaveAt(failover.Lifetime{Cause: meter.Aged, From: now, By: now.After(replay)})
	})
}

// Before its connection is too old, a session moves to another one at an answered point, to the only server that there is.
func TestSessionAge(t *testing.T) {
	profile := withYAML(t, "profiles: {p: {from: vosk, max-age: 2h}}")
	r := newRig(t, sessiontest.Failover("vosk", 1, setup{
		Cap: 2, Service: func(s *route.Service) { s.SessionAge = time.Hour },
		Backend: func(o *backend.Options) { profile(o); o.Settings.Warm = 1 },
	}))
	client, server, _ := r.began()
	r.on(func(s *Session) {
		l, began := s.failover.lifetime, s.leg.conn.Established()
		if by := time.Duration(l.By - began); l.Cause != meter.Aged || by < 53*time.Minute || by > 59*time.Minute {
			t.Errorf("the session leaves after %v: %+v", by, l)
		}
		if !s.failover.leaving.Active() {
			t.Error("nothing makes it leave")
		}
	})
	r.agesNow(time.Hour)
	wstest.Eventually(t, "there is a connection for the move", func() (found bool) {
		r.on(func(s *Session) { _, found = s.searchesForMove(ownMove) })
		return found
	})
	sessiontest.Speak(client, server, 1, sessiontest.Partial("one"), sessiontest.Partial("one"))
	sessiontest.Speak(client, server, 2, sessiontest.Final("one", 0, 0.3), sessiontest.Final("one", 0, 0.3))
	next := r.Scripts[0].Take()
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, next, 3, sessiontest.Final("two", 0, 0.1), sessiontest.Final("two", 0.3, 0.4))
	line := r.Line("session moved")
	if line["cause"].String() != "aged" || line["from"].String() != line["to"].String() || line["replayed"].Duration() != 0 {
		t.Errorf("the log says %v", line)
	}
	if f := r.moves(); f[meter.Aged].Moved != 1 {
		t.Errorf("counted: %+v", f)
	}
	r.on(func(s *Session) {
		if l := s.failover.lifetime; time.Duration(l.By-s.leg.conn.Established()) < 53*time.Minute || !s.failover.leaving.Active() {
			t.Errorf("on its new connection, the session leaves with %+v", l)
		}
	})
	client.CloseNormally()
}

// The next connection may lead to the same server also where there are others: it is chosen as for a client that comes.
func TestSessionAgeStaysWithServer(t *testing.T) {
	r := newRig(t, sessiontest.Failover("vosk", 2, setup{Cap: 2, Backend: func(o *backend.Options) { o.Settings.Warm = 1 }}))
	r.AllReady(1, r.Backends...)
	client, _, n := r.began()
	r.Backends[1-n].Set(pool.Settings{Cap: 2, Warm: 1, Weight: 0.01})
	r.AllReady(1, r.Backends...) // the other server would take the session if only it had a connection
	r.agesNow(0)
	continues(client, r.Scripts[n].Take())
	client.CloseNormally()
}

// When no answered point comes, the session moves by replay.
func TestSessionAgeByReplay(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, _, n := r.began()
	r.on(func(s *Session) {
		if l := s.failover.lifetime; l != (failover.Lifetime{}) || s.failover.leaving.Active() {
			t.Errorf("without a limit, the session leaves: %+v", l)
		}
	})
	r.agesNow(20 * time.Millisecond)
	continues(client, r.Other(n))
	client.CloseNormally()
}

// Without a place for it, the session stays and tries again. When the server ends it, its own place is free.
func TestSessionAgeWithoutPlace(t *testing.T) {
	r := newFailoverRig(t, "vosk", 1, setup{Service: func(s *route.Service) { s.QueueTimeout = 10 * time.Millisecond }})
	client, server, _ := r.began()
	r.agesNow(20 * time.Millisecond)
	wstest.Eventually(t, "the session has tried again", func() bool { return r.Group.Queue().Totals.Queued > 2 })
	r.is(relaying)
	r.on(func(*Session) { r.Service.MoveTimeout = wstest.Timeout })
	server.SendClose(frame.GoingAway, "too old")
	server.ExpectClose(frame.GoingAway, "")
	_ = server.Close()
	continues(client, r.Scripts[0].Take())
	if f := r.moves(); f[meter.Closed].Moved != 1 || f[meter.Aged].NotMoved != 0 {
		t.Errorf("counted: %+v", f)
	}
	client.CloseNormally()
}

const liveGoAway = `{"uid" : "u", "message" : "DISCONNECT"}`

// A server says that it ends a session. The client does not hear of it: the session moves at its next answered point, or when the server closes.
func TestGoAway(t *testing.T) {
	for name, closes := range map[string]bool{"at an answered point": false, "by the server's close": true} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "whisperlive", 2, setup{})
			client, server, n := r.Begin()
			client.Send(frame.Text, liveOptions)
			server.Expect(frame.Text, liveOptions)
			server.Send(frame.Text, liveReady)
			client.Expect(frame.Text, liveReady)
			client.Send(frame.Binary, sessiontest.Chunk(1))
			server.Expect(frame.Binary, sessiontest.Chunk(1))
			server.Send(frame.Text, liveGoAway)
			segment := `{"uid" : "u", "segments" : [{"start" : "0.000", "end" : "0.050", "text" : "one", "completed" : true}]}`
			var next *wstest.Peer
			cause := meter.GoAway
			if closes {
				cause = meter.Closed
				server.SendClose(frame.NormalClosure, "")
				next = r.Other(n)
				next.ExpectOwn(frame.Text, liveOptions)
				next.Send(frame.Text, liveReady)
				next.Expect(frame.Binary, sessiontest.Chunk(1))
				next.Send(frame.Text, segment)
				client.Expect(frame.Text, segment)
			} else {
				server.Send(frame.Text, segment)
				client.Expect(frame.Text, segment)
				next = r.Other(n)
				next.ExpectOwn(frame.Text, liveOptions)
				next.Send(frame.Text, liveReady)
			}
			client.Send(frame.Binary, sessiontest.Chunk(2))
			next.Expect(frame.Binary, sessiontest.Chunk(2))
			client.CloseNormally()
			if f := r.moves(); f[cause].Moved != 1 {
				t.Errorf("counted: %+v", f)
			}
		})
	}
}

// A client whose session cannot move hears what its server says, and sees it close.
func TestGoAwayWithoutFailover(t *testing.T) {
	off := func(s *route.Service) { s.Failover, s.SessionAge, s.StallTimeout = false, time.Hour, time.Hour }
	r := newRig(t, setup{Profile: "whisperlive", Script: new(wstest.Server), Service: off})
	client, server := r.Session()
	client.Send(frame.Text, liveOptions)
	server.Expect(frame.Text, liveOptions)
	server.Send(frame.Text, liveReady)
	client.Expect(frame.Text, liveReady)
	r.on(func(s *Session) {
		if s.failover.leaving.Active() {
			t.Error("the session is to leave")
		}
	})
	server.Send(frame.Text, liveGoAway)
	client.Expect(frame.Text, liveGoAway)
	server.SendClose(frame.NormalClosure, "too old")
	client.ExpectClose(frame.NormalClosure, "too old")
	client.SendClose(frame.NormalClosure, "")
	client.ExpectEnd()
	_ = client.Close()
}
