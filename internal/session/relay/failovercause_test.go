package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// began begins a session of Vosk's in which one message was answered by a partial result.
func (r *rig) began() (client, server *wstest.Peer, number int) {
	r.T.Helper()
	client, server, number = r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	return client, server, number
}

// continues checks that the next server gets the session that began has begun, and continues it.
func continues(client, next *wstest.Peer) {
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Send(frame.Text, sessiontest.Partial("one again"))
	sessiontest.Speak(client, next, 1, sessiontest.Final("one", 0, 0.2), sessiontest.Final("one", 0, 0.2))
	sessiontest.Speak(client, next, 2, sessiontest.Partial("two"), sessiontest.Partial("two"))
}

// moves returns what was counted of the backends' failovers.
func (r *rig) moves() (f meter.Failovers) { return r.stats().Meters.Total.Failovers }

// Whatever a server does that is not its last word, another one continues.
func TestServerFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(r *rig, server *wstest.Peer)
		cause meter.Cause
	}{
		"vanishes":       {func(_ *rig, p *wstest.Peer) { p.Reset() }, meter.Lost},
		"ends":           {func(_ *rig, p *wstest.Peer) { _ = p.Close() }, meter.Lost},
		"closed 1011":    {func(_ *rig, p *wstest.Peer) { p.SendClose(frame.InternalError, "out of memory") }, meter.Closed},
		"closed 1000":    {func(_ *rig, p *wstest.Peer) { p.SendClose(frame.NormalClosure, "") }, meter.Closed},
		"breaks framing": {func(_ *rig, p *wstest.Peer) { p.SendBytes([]byte{0xff, 0xff}) }, meter.Protocol},
		"bad close code": {func(_ *rig, p *wstest.Peer) { p.SendClose(1006, "") }, meter.Protocol},
		"unsolicited":    {func(_ *rig, p *wstest.Peer) { p.Send(frame.Text, sessiontest.Partial("again")) }, meter.Protocol},
		"stalls": {func(r *rig, _ *wstest.Peer) {
			r.on(func(s *Session) {
				s.leaveServer(meter.Stalled, event{kind: stopped, by: byBackend, class: meter.BackendFailed, code: frame.InternalError, reason: "backend stalled", fault: true})
			})
		}, meter.Stalled},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "vosk", 2, setup{})
			client, server, n := r.began()
			c.fail(r, server)
			next := r.Other(n)
			continues(client, next)
			if f := r.moves(); f[c.cause].Moved != 1 || f[c.cause].NotMoved != 0 {
				t.Errorf("counted: %+v", f)
			}
			for _, b := range r.stats().Meters.Backends { // the session left this one
				if f, left := b.Failovers[c.cause], b.Backend == r.Backends[n].Name(); f.Moved == 1 != left {
					t.Errorf("counted for %s: %+v; the session left %s", b.Backend, f, r.Backends[n].Name())
				}
			}
			client.CloseNormally()
			a := r.Record()
			if a["moves"].Int64() != 1 || a["by"].String() != "client" {
				t.Errorf("the record says %v", a)
			}
			if health := r.Backends[n].Health(); c.cause != meter.Closed && health.Broken != 1 {
				t.Errorf("the server that failed: %+v", health)
			}
		})
	}
}

// The client's end message was replaced by the reset, and the server dies before its last answer. The next one gets all of it again.
func TestServerDiesAtTheEnd(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.began()
	client.Send(frame.Text, voskEnd)
	for range 3 { // the reset, silence and the reset
		if _, _, err := server.Next(); err != nil {
			t.Fatal(err)
		}
	}
	client.Send(frame.Binary, "this goes nowhere")
	server.Reset()
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Send(frame.Text, sessiontest.Partial("one again"))
	next.ExpectOwn(frame.Text, `{"reset" : 1}`)
	next.Send(frame.Text, sessiontest.Final("one", 0, 0.1))
	client.Expect(frame.Text, sessiontest.Final("one", 0, 0.1))
	client.ExpectClose(frame.NormalClosure, "the session is over")
	client.SendClose(frame.NormalClosure, "")
	client.ExpectEnd()
	_ = client.Close()
	if a := r.Record(); a["moves"].Int64() != 1 || a["by"].String() != "client" || a["code"].Int64() != 1000 {
		t.Errorf("the record says %v", a)
	}
}

// The limits of a session apply again when it continues after its end had begun.
func TestLimitedAfterItsEndWasTakenBack(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.MaxDuration = time.Hour }})
	client, server, _ := r.began()
	client.Send(frame.Text, voskEnd)
	r.is(completing)
	r.Group.Pause()
	server.Reset()
	r.is(moving)
	r.on(func(s *Session) {
		if !s.deadline.Active() {
			t.Error("the session may last for ever")
		}
	})
	_ = client.Close()
}

// A session that waits for its next server may wait for longer than a new client, and says for how long.
func TestMoveTimeout(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.QueueTimeout, s.MoveTimeout = time.Millisecond, wstest.Timeout }})
	client, server, n := r.began()
	for _, s := range r.Scripts {
		s.HangUp(true)
	}
	other := r.Other(n)
	other.Reset()
	wstest.Eventually(t, "the other server's connection is lost", func() bool { return r.Backends[1-n].Stats().Idle == 0 })
	server.Reset()
	wstest.Eventually(t, "the session says how long it waits", func() bool {
		for _, d := range r.sessions.List() {
			if detail, ok := r.sessions.Detail(d.ID); ok && detail.State == "moving" {
				return time.Until(detail.Until) > time.Second
			}
		}
		return false
	})
	r.Scripts[1-n].HangUp(false)
	continues(client, r.Scripts[1-n].Take())
	client.CloseNormally()
}

// Without another server, the client gets what it gets without failover, with the reason why none continued.
func TestNoOtherServer(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.QueueTimeout = 50 * time.Millisecond }})
	client, server, n := r.began()
	for _, s := range r.Scripts {
		s.HangUp(true)
	}
	other := r.Other(n)
	other.Reset()
	wstest.Eventually(t, "the other server's connection is lost", func() bool { return r.Backends[1-n].Stats().Idle == 0 })
	server.Reset()
	client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer; not moved: no connection came free in time")
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
	if f := r.moves(); f[meter.Lost].Moved != 0 || f[meter.Lost].NotMoved != 1 {
		t.Errorf("counted: %+v", f)
	}
}

// A server that is gone for a moment, the only one, gets its sessions back.
func TestOnlyServerComesBack(t *testing.T) {
	r := newFailoverRig(t, "vosk", 1, setup{})
	client, server, _ := r.began()
	server.Reset()
	continues(client, r.Scripts[0].Take())
	client.CloseNormally()
}

// A client that leaves while its session moves has left. The record says that its server had failed, and what that had said.
func TestClientEndsWhileMoving(t *testing.T) {
	const left = "backend connection lost: connection reset by peer; not moved: the client left while it waited for another server"
	for name, c := range map[string]struct {
		end           func(client *wstest.Peer)
		code          frame.CloseCode
		class, reason string
	}{
		"closes": {func(p *wstest.Peer) {
			p.SendClose(frame.NormalClosure, "enough")
			p.ExpectClose(frame.NormalClosure, "enough")
			p.ExpectEnd()
			_ = p.Close()
		}, frame.NormalClosure, "backend_failed", left},
		"vanishes": {func(p *wstest.Peer) { p.Reset() }, frame.AbnormalClosure, "backend_failed", left},
		"breaks the protocol": {func(p *wstest.Peer) {
			p.SendBytes([]byte{0xff, 0xff})
			p.ExpectClose(frame.ProtocolError, frame.ErrReservedBits.Error())
			_ = p.Close()
		}, frame.ProtocolError, "client_error", frame.ErrReservedBits.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "vosk", 2, setup{})
			client, server, _ := r.began()
			r.Group.Pause()
			server.Reset()
			r.is(moving)
			client.Send(frame.Binary, sessiontest.Chunk(1)) // it is read
			client.Send(frame.Ping, "still there?")
			client.Expect(frame.Pong, "still there?")
			c.end(client)
			wstest.Eventually(t, "the session is over", func() bool { return r.sessions.Active() == 0 })
			a := r.Record()
			if a["by"].String() != "client" || a["code"].Int64() != int64(c.code) || a["class"].String() != c.class || a["reason"].String() != c.reason {
				t.Errorf("the record says %v", a)
			}
			if frames, bytes := a["frames_from_backend"].Uint64(), a["bytes_from_backend"].Uint64(); frames != 1 || bytes != uint64(len(sessiontest.Partial("one"))) {
				t.Errorf("the record has %d frames and %d bytes of the server", frames, bytes)
			}
			if f := r.moves(); f[meter.Lost].Moved != 0 || f[meter.Lost].NotMoved != 1 {
				t.Errorf("counted: %+v", f)
			}
			wstest.Eventually(t, "no client waits", func() bool { return r.Group.Queue().Waiting == 0 })
		})
	}
}

// is waits until the only session is in a state.
func (r *rig) is(wanted state) {
	r.T.Helper()
	wstest.Eventually(r.T, "the session is "+wanted.String(), func() (is bool) {
		r.each(func(s *Session) { is = s.life.state == wanted })
		return is
	})
}

// A client that sends faster than real time while its session moves is read until the window is full, and then not; nothing is lost.
func TestClientFloodsWhileMoving(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.ReplayWindow = time.Second }})
	client, server, n := r.began()
	r.Group.Pause()
	server.Reset()
	r.is(moving)
	const chunks = 60
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range chunks {
			client.Send(frame.Binary, sessiontest.Chunk(1+i%20))
		}
	}()
	wstest.Eventually(t, "the client is no longer read", func() (stopped bool) {
		r.on(func(s *Session) { stopped = s.client.Stopped() })
		return stopped
	})
	r.on(func(s *Session) {
		if a := s.failover.recoverability(); !a.Recoverable || a.Kept > 200<<10 {
			t.Errorf("recoverability: %+v", a)
		}
	})
	r.Group.Resume()
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Send(frame.Text, sessiontest.Partial("one again"))
	for i := range chunks {
		next.Expect(frame.Binary, sessiontest.Chunk(1+i%20))
		answer := sessiontest.Final("all", float64(i), float64(i)+1)
		next.Send(frame.Text, answer)
		client.Expect(frame.Text, answer)
	}
	<-sent
	client.CloseNormally()
}

// A bug in the book-keeping of one session's failover ends that session alone.
func TestPanicInFailover(t *testing.T) {
	for name, hurt := range map[string]func(s *Session){
		"up": func(s *Session) {
			for range 100 { // the cursor is beyond what is kept
				s.failover.machine.Advance()
			}
		},
		"down": func(s *Session) { s.failover.tracker = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var guard *panics.Guard
			r := newFailoverRig(t, "vosk", 2, setup{Recovers: func(g *panics.Guard) { guard = g }})
			victim, server, _ := r.began()
			r.on(hurt)
			other := r.Connect(wstest.UpgradeRequest("/v1/test"))
			other.ExpectUpgrade()
			if name == "up" {
				victim.Send(frame.Binary, sessiontest.Chunk(1))
			} else {
				server.Send(frame.Text, "boom")
			}
			wstest.Eventually(t, "the session is over", func() bool { return r.sessions.Active() == 1 })
			if guard.Count() == 0 {
				t.Error("nothing was counted")
			}
			_ = victim.Close()
			other.CloseNormally()
		})
	}
}

// A server that says that it is full, when it gets the replay, is passed over.
func TestNextServerIsFull(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{})
	const options, ready = `{"uid" : "u", "language" : "en", "audio_format" : "int16"}`, `{"uid" : "u", "message" : "SERVER_READY", "backend" : "x"}`
	client, server, n := r.Begin()
	client.Send(frame.Text, options)
	server.Expect(frame.Text, options)
	server.Send(frame.Text, ready)
	client.Expect(frame.Text, ready)
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	server.Reset()
	full := r.Other(n)
	full.ExpectOwn(frame.Text, options)
	full.Send(frame.Text, `{"uid" : "u", "status" : "WAIT", "message" : 3.5}`)
	back := r.Scripts[n].Take()
	back.ExpectOwn(frame.Text, options)
	back.Send(frame.Text, ready) // the client has had it
	back.Expect(frame.Binary, sessiontest.Chunk(1))
	back.Send(frame.Text, `{"uid" : "u", "segments" : [{"start" : "0.000", "end" : "1.000", "text" : "one", "completed" : false}]}`)
	client.Expect(frame.Text, `{"uid" : "u", "segments" : [{"start" : "0.000", "end" : "1.000", "text" : "one", "completed" : false}]}`)
	client.CloseNormally()
	if a := r.Record(); a["moves"].Int64() != 1 {
		t.Errorf("the record says %v", a)
	}
}

// A session that needs a connection dialed with its client's key gets another such connection, and no other.
func TestFailoverWithKey(t *testing.T) {
	keyed := func(p *wstest.Peer) bool { return p.Request.Header.Get("Authorization") == "Token good" }
	r := newFailoverRig(t, "deepgram", 1, setup{Queue: 2})
	client := r.Connect(wstest.UpgradeRequest("/v1/test?encoding=linear16&sample_rate=8000", "Authorization: Token good"))
	client.ExpectUpgrade()
	server := r.Scripts[0].Take()
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	server.Reset()
	next := r.Scripts[0].Take()
	if !keyed(server) || !keyed(next) || next.Request.URL.RawQuery != server.Request.URL.RawQuery {
		t.Errorf("the next connection was opened with %v", next.Request.Header)
	}
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	result := `{"type":"Results","start":0.0,"duration":0.1,"is_final":true,"channel":{"alternatives":[{"transcript":"one","words":[]}]}}`
	next.Send(frame.Text, result)
	client.Expect(frame.Text, result)
	_ = client.Close()
}
