package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// recoverable waits until the only session is recoverable, or not.
func (r *rig) recoverable(wanted bool) (why string) {
	r.T.Helper()
	wstest.Eventually(r.T, "the session is recoverable, or no longer", func() (is bool) {
		r.on(func(s *Session) { is, why = s.failover.machine.Recoverable() == wanted, s.failover.unrecoverable() })
		return is
	})
	return why
}

// A session whose server answers nothing for longer than replay-window continues, not recoverable. Once all is answered it is recoverable again,
// and moves.
func TestWindowTooSmall(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.ReplayWindow = time.Second }})
	client, server, n := r.began()
	for i := range 12 {
		client.Send(frame.Binary, sessiontest.Chunk(i))
		server.Expect(frame.Binary, sessiontest.Chunk(i))
	}
	if why := r.recoverable(false); why != "the server has answered nothing for longer than replay-window 1s" {
		t.Errorf("it is not recoverable since %s", why)
	}
	r.Line("session is no longer recoverable")
	client.Send(frame.Binary, sessiontest.Chunk(12)) // streams
	server.Expect(frame.Binary, sessiontest.Chunk(12))
	for i := range 12 {
		server.Send(frame.Text, sessiontest.Partial("one"))
		client.Expect(frame.Text, sessiontest.Partial("one"))
		_ = i
	}
	server.Send(frame.Text, sessiontest.Final("one", 0, 1.4))
	client.Expect(frame.Text, sessiontest.Final("one", 0, 1.4))
	r.recoverable(true)
	client.Send(frame.Binary, sessiontest.Chunk(13))
	server.Expect(frame.Binary, sessiontest.Chunk(13))
	server.Reset()
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(13))
	next.Send(frame.Text, sessiontest.Final("two", 0, 0.1))
	client.Expect(frame.Text, sessiontest.Final("two", 1.4, 1.5))
	client.CloseNormally()
	if n := r.stats().Meters.Total.Unrecoverable[meter.UnrecoverableWindow]; n != 1 {
		t.Errorf("%d sessions stopped being recoverable", n)
	}
}

// Without memory for it, a session continues, not recoverable, and ends with its server as without failover.
func TestNoReplayMemory(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	r.Arena.SetLimit(0)
	client, server, _ := r.began()
	if why := r.recoverable(false); why != "the proxy's replay-memory is used up" {
		t.Errorf("it is not recoverable since %s", why)
	}
	server.Reset()
	client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer; not moved: the proxy's replay-memory is used up")
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
}

// A message that is too long to be kept passes as it comes, in both directions, in one frame or many.
func TestLongMessages(t *testing.T) {
	for _, pieces := range []int{1, 3} {
		r := newFailoverRig(t, "vosk", 2, setup{})
		client, server, _ := r.began()
		long := strings.Repeat("x", maxWhole/pieces+1)
		send := func(from, to *wstest.Peer, first frame.Opcode) {
			sent := make(chan struct{})
			op := func(i int) frame.Opcode { return []frame.Opcode{first, frame.Continuation, frame.Continuation}[i] }
			go func() {
				defer close(sent)
				for i := range pieces {
					from.SendBytes(from.Encode(i == pieces-1, op(i), []byte(long)))
				}
			}()
			for i := range pieces {
				to.Expect(op(i), long)
			}
			<-sent
		}
		send(client, server, frame.Binary)
		send(server, client, frame.Text)
		if why := r.recoverable(false); why != "the client sent a message of more than 1024 KiB" {
			t.Errorf("it is not recoverable since %s", why)
		}
		sessiontest.Speak(client, server, 5, sessiontest.Partial("two"), sessiontest.Partial("two"))
		client.CloseNormally()
	}
}

// A pending move is carried out at the next answered point; the server that is left goes back to its pool.
func TestPendingMove(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.began()
	r.on(func(s *Session) {
		if why := s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Drained}, nil); why != "" {
			t.Error(why)
		}
	})
	sessiontest.Speak(client, server, 1, sessiontest.Partial("one"), sessiontest.Partial("one"))
	sessiontest.Speak(client, server, 2, sessiontest.Final("one", 0, 0.3), sessiontest.Final("one", 0, 0.3))
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, next, 3, sessiontest.Final("two", 0, 0.1), sessiontest.Final("two", 0.3, 0.4))
	r.on(func(s *Session) {
		if m, ok := s.MoveProgress(7); !ok || m.State != failover.MoveDone || m.Arrived != r.Backends[1-n] || m.Replayed != 0 {
			t.Errorf("the pending move: %+v, %+v", m, s.failover.pending)
		}
	})
	for range 3 { // the reset, silence and the reset
		if _, _, err := server.Next(); err != nil {
			t.Fatal(err)
		}
	}
	server.Send(frame.Text, `{"text" : ""}`)
	server.Send(frame.Text, sessiontest.Partial(""))
	server.Send(frame.Text, `{"text" : ""}`)
	wstest.Eventually(t, "the connection is back in its pool", func() bool { return r.Backends[n].Stats().Totals.Returned == 1 })
	if h := r.Backends[n].Health(); h.Broken != 0 {
		t.Errorf("the server that was left: %+v", h)
	}
	client.CloseNormally()
}

// A pending move waits for the last message of a turn, and the next server gets nothing of that turn.
func TestPendingMoveAtTheEndOfATurn(t *testing.T) {
	r := newFailoverRig(t, "realtimestt", 2, setup{Backend: withYAML(t, "profiles: {x: {from: realtimestt, greeting: none, busy: none, predial: idle, variant: none}}")})
	const start, finalize = `{"type":"start"}`, `{"type":"finalize"}`
	client, server, n := r.Begin()
	client.Send(frame.Text, start)
	server.Expect(frame.Text, start)
	r.on(func(s *Session) { s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Drained}, nil) })
	client.Send(frame.Text, finalize)
	server.Expect(frame.Text, finalize)
	for _, says := range []string{`{"type":"final","text":"one"}`, `{"type":"completion"}`} {
		server.Send(frame.Text, says)
		client.Expect(frame.Text, says)
	}
	next := r.Other(n)
	client.Send(frame.Text, start)
	next.Expect(frame.Text, start)
	_ = client.Close()
}

// When its time has come, a pending move is carried out by replay.
func TestPendingMoveByReplay(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, _, n := r.began()
	r.on(func(s *Session) {
		if why := s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Ordered, By: loop.Now().After(20 * time.Millisecond)}, r.Backends[1-n]); why != "" {
			t.Error(why)
		}
	})
	continues(client, r.Other(n))
	if f := r.moves(); f[meter.Ordered].Moved != 1 {
		t.Errorf("counted: %+v", f)
	}
	client.CloseNormally()
}

// A session that waits for a place on one backend continues on any when its server dies.
func TestServerDiesBeforePendingMove(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.began()
	r.Backends[1-n].SetMode(pool.Draining)
	r.on(func(s *Session) {
		if why := s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Ordered, By: loop.Now().After(time.Hour)}, r.Backends[1-n]); why != "" {
			t.Error(why)
		}
	})
	wstest.Eventually(t, "the session waits", func() bool { return r.Group.Queue().Waiting == 1 })
	server.Reset()
	continues(client, r.Scripts[n].Take())
	client.CloseNormally()
}

// A session whose next server dies after it was found, and before the session leaves its own, continues on any: its own works.
func TestNextServerDiesBeforePendingMove(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.began()
	r.on(func(s *Session) {
		if why := s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Rebalanced}, r.Backends[1-n]); why != "" {
			t.Error(why)
		}
	})
	found := func(matches func(*backend.Conn) bool) (is bool) {
		r.on(func(s *Session) { is = s.search != nil && s.search.conn != nil && matches(s.search.conn) })
		return is
	}
	wstest.Eventually(t, "the session has found a connection", func() bool { return found(func(*backend.Conn) bool { return true }) })
	next := r.Other(n)
	r.Scripts[1-n].HangUp(true)
	next.Reset()
	wstest.Eventually(t, "it is lost", func() bool { return found(func(c *backend.Conn) bool { return c.Stream().Ended() }) })
	sessiontest.Speak(client, server, 1, sessiontest.Final("one", 0, 0.2), sessiontest.Final("one", 0, 0.2))
	r.is(moving)
	server.Reset() // it would have to answer the reset
	back := r.Scripts[n].Take()
	back.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, back, 2, sessiontest.Final("two", 0, 0.1), sessiontest.Final("two", 0.2, 0.3))
	client.CloseNormally()
}

// A pending move for which there is no connection leaves the session where it is, and so does one that is taken back.
func TestPendingMoveWithoutConnection(t *testing.T) {
	r := newFailoverRig(t, "vosk", 1, setup{Service: func(s *route.Service) { s.QueueTimeout = 20 * time.Millisecond }})
	client, server, _ := r.began()
	r.on(func(s *Session) { s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Drained}, nil) })
	wstest.Eventually(t, "the pending move is refused", func() (refused bool) {
		r.on(func(s *Session) {
			m, _ := s.MoveProgress(7)
			refused = m.State == failover.MoveRefused && m.Why == "no other connection for it: no connection came free in time"
		})
		return refused
	})
	sessiontest.Speak(client, server, 1, sessiontest.Final("one", 0, 0.2), sessiontest.Final("one", 0, 0.2))
	r.on(func(s *Session) {
		s.OrderMove(failover.PendingMove{Number: 8, Cause: meter.Drained}, nil)
		s.WithdrawMove(8)
	})
	sessiontest.Speak(client, server, 2, sessiontest.Final("two", 0.2, 0.3), sessiontest.Final("two", 0.2, 0.3))
	client.CloseNormally()
}

// A session whose audio seems to crash servers is not given to all of them.
func TestPoisonousSession(t *testing.T) {
	r := newFailoverRig(t, "vosk", 1, setup{})
	client, server, _ := r.began()
	for range failover.MaxCrashes {
		server.Reset()
		server = r.Scripts[0].Take()
		server.ExpectOwn(frame.Text, sessiontest.VoskConfig)
		server.Expect(frame.Binary, sessiontest.Chunk(0))
		r.on(func(s *Session) { s.failover.machine.Began -= loop.Instant(2 * failover.Immediately) }) // it took a while
	}
	server.Reset()
	client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer; moved from 2 servers that failed")
	client.SendClose(frame.InternalError, "")
	client.ExpectEnd()
	_ = client.Close()
}

// A session whose memory is needed while it looks for its next server continues there: that gets all that is kept, and nothing is kept after that.
func TestMemoryNeededWhileMoving(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, n := r.began()
	r.losesMemory(server)
	next := r.Other(n)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Send(frame.Text, sessiontest.Partial("one again"))
	if why := r.recoverable(false); why != "the proxy's replay-memory is used up" {
		t.Errorf("it is not recoverable since %s", why)
	}
	sessiontest.Speak(client, next, 1, sessiontest.Final("one", 0, 0.2), sessiontest.Final("one", 0, 0.2))
	r.recoverable(true)
	client.CloseNormally()
}

// A server that would not serve a session whose memory was needed meanwhile is passed over: the next one gets the same, and the client the times
// of its own audio.
func TestMemoryNeededAndNextServerIsFull(t *testing.T) {
	r := newFailoverRig(t, "whisperlive", 2, setup{})
	const options, ready = `{"uid":"u","language":"en","audio_format":"int16"}`, `{"uid":"u","message":"SERVER_READY"}`
	const one = `{"uid":"u","segments":[{"start":"0.000","end":"0.050","text":"one","completed":true}]}`
	client, server, n := r.Begin()
	client.Send(frame.Text, options)
	server.Expect(frame.Text, options)
	server.Send(frame.Text, ready)
	client.Expect(frame.Text, ready)
	sessiontest.Speak(client, server, 1, one, one)
	client.Send(frame.Binary, sessiontest.Chunk(2))
	server.Expect(frame.Binary, sessiontest.Chunk(2))
	r.losesMemory(server)
	full := r.Other(n)
	full.ExpectOwn(frame.Text, options)
	wstest.Eventually(t, "the first server has a connection again", func() bool { return r.Backends[n].Stats().Idle == 1 })
	full.Send(frame.Text, `{"uid":"u","status":"WAIT","message":3.5}`)
	next := r.Scripts[n].Take()
	next.ExpectOwn(frame.Text, options)
	next.Send(frame.Text, ready) // the client has had it
	next.Expect(frame.Binary, sessiontest.Chunk(2))
	next.Send(frame.Text, `{"uid":"u","segments":[{"start":"0.000","end":"0.050","text":"two","completed":true}]}`)
	client.Expect(frame.Text, `{"uid":"u","segments":[{"start":"0.000","end":"0.050","text":"one","completed":true},`+
		`{"start":"0.050","end":"0.100","text":"two","completed":true}]}`)
	client.CloseNormally()
	if a := r.Record(); a["moves"].Int64() != 1 || a["backend"].String() != r.Backends[n].Name() {
		t.Errorf("the record says %v", a)
	}
}

// losesMemory resets the server of the only session, whose memory is needed before it has another one.
func (r *rig) losesMemory(server *wstest.Peer) {
	r.T.Helper()
	r.Group.Pause()
	server.Reset()
	r.is(moving)
	hog := new(replay.Window)
	hog.SetArena(r.Arena, replay.Owner{Tenant: "another", GiveUp: func() {}})
	r.Arena.SetLimit(r.Arena.Used())
	for hog.Append([]byte(sessiontest.Chunk(0))) && !r.asked() { // asks the session for its memory
	}
	hog.Free()
	r.Group.Resume()
}

// asked reports whether the only session was asked for its memory.
func (r *rig) asked() (is bool) {
	r.on(func(s *Session) { is = s.failover.window.Asked() })
	return is
}
