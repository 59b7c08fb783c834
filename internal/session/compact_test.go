package session

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// moveSessions moves all sessions to fresh memory, and checks that nothing points to their former memory.
func (r *rig) moveSessions() {
	r.t.Helper()
	var former []weak.Pointer[Session]
	r.each(func(s *Session) {
		if s.canBeMoved() {
			former = append(former, weak.Make(s))
			s.moveInto(new(Session))
		}
	})
	if len(former) == 0 {
		r.t.Error("no session can be moved")
	}
	for range 5 { // the stack of a goroutine that was interrupted may seem to have a pointer
		runtime.GC()
		left := 0
		for _, p := range former {
			if p.Value() != nil {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	r.t.Error("something still points to where a session was")
}

// exchange has a message go from the client to the server and back. The session is moved in the middle of both frames.
func exchange(r *rig, client, server *wstest.Peer, text string) {
	r.t.Helper()
	pass := func(from, to *wstest.Peer, scanner func(*Session) *frame.Scanner) {
		b := from.Encode(true, frame.Text, []byte(text))
		from.SendBytes(b[:len(b)-1])
		wstest.Eventually(r.t, "nearly all of the frame has come", func() (within bool) {
			r.on(func(s *Session) { within = !scanner(s).AtFrameBoundary() })
			return within
		})
		r.moveSessions()
		from.SendBytes(b[len(b)-1:])
		to.Expect(frame.Text, text)
	}
	pass(client, server, func(s *Session) *frame.Scanner { return &s.scanner })
	pass(server, client, func(s *Session) *frame.Scanner { return &s.leg.conn.Scanner })
}

// A session that is moved in memory goes on as if nothing had happened, in the middle of a frame, with timers, limits and another server to go on with;
// and nothing keeps a pointer to where it was.
func TestMovedInMemory(t *testing.T) {
	if tapAll {
		t.Skip("tapped sessions stay")
	}
	timed := func(s *Service) { s.IdleTimeout, s.MaxDuration = time.Hour, time.Hour }
	talk := func(t *testing.T, r *rig, client, server *wstest.Peer) {
		for _, text := range []string{"one", "two", "three"} {
			exchange(r, client, server, text)
		}
		client.Send(frame.Ping, "still there?")
		client.ExpectOwn(frame.Pong, "still there?")
		server.Send(frame.Ping, "and you?")
		server.ExpectOwn(frame.Pong, "and you?")
	}
	for _, profile := range []string{"one-shot", "echo"} {
		t.Run(profile, func(t *testing.T) {
			r := newRig(t, setup{profile: profile, service: timed})
			client, server := r.session()
			talk(t, r, client, server)
		})
	}
	t.Run("limits", func(t *testing.T) {
		r := limitedRig(t, setup{profile: "echo", service: timed}, limits.Limits{MessageRate: limits.Rate{N: 1000, Per: time.Second}}, limits.Limits{Sessions: 5})
		client, server := r.session()
		talk(t, r, client, server)
	})
	t.Run("limits that are new", func(t *testing.T) {
		r := newRig(t, setup{profile: "echo", service: timed})
		client, server := r.session()
		r.moveSessions()
		r.scopes.SetProcess(instant(), tinyTurns)
		r.server.LimitsChanged()
		wstest.Eventually(t, "the limits hold", func() (limited bool) {
			r.on(func(s *Session) { _, limited = s.client.Handler().(*clientSide); limited = !limited })
			return limited
		})
		talk(t, r, client, server)
	})
	t.Run("after a tap", func(t *testing.T) {
		r := newRig(t, setup{profile: "echo", service: timed})
		client, server := r.session()
		r.tapRunning(100).tap.Close()
		wstest.Eventually(t, "nobody taps the session", func() (free bool) {
			r.on(func(s *Session) { free = s.tap == nil })
			return free
		})
		talk(t, r, client, server)
	})
	t.Run("failover", func(t *testing.T) {
		r := newFailoverRig(t, "vosk", 2, setup{service: timed})
		client, server, n := r.begin()
		client.Send(frame.Text, fullConfig)
		server.Expect(frame.Text, fullConfig)
		speak(client, server, 0, partial("one"), partial("one"))
		r.moveSessions()
		speak(client, server, 1, final("one", 0.05, 0.15), final("one", 0.05, 0.15))
		r.moveSessions()
		_ = server.Close()
		other := r.other(n)
		other.ExpectOwn(frame.Text, fullConfig)
	})
}

// The timers of a session that was moved end it, and so does an operator.
func TestMovedInMemoryEnds(t *testing.T) {
	for reason, end := range map[string]struct {
		service func(*Service)
		act     func(*rig)
		code    frame.CloseCode
	}{
		"idle limit reached":    {service: func(s *Service) { s.IdleTimeout = 40 * time.Millisecond }, code: frame.PolicyViolation},
		"session limit reached": {service: func(s *Service) { s.MaxDuration = 40 * time.Millisecond }, code: frame.PolicyViolation},
		killedBy: {act: func(r *rig) {
			var id ID
			r.on(func(s *Session) { id = s.record.ID })
			if !r.server.Kill(id, "") {
				r.t.Error("there is no such session")
			}
		}, code: frame.ServiceRestart},
	} {
		t.Run(reason, func(t *testing.T) {
			r := newRig(t, setup{profile: "echo", script: &wstest.Server{Serve: wstest.Echo}, service: end.service})
			client := r.join()
			r.server.Compact()
			r.server.Compact()
			if end.act != nil {
				end.act(r)
			}
			client.ExpectClose(end.code, reason)
		})
	}
}

// A session to which there are pointers that the move does not know of stays where it is.
func TestNotMovedInMemory(t *testing.T) {
	if tapAll {
		t.Skip("there is a tap on each session already")
	}
	r := newRig(t, setup{profile: "echo", script: &wstest.Server{Serve: wstest.Echo}})
	client := r.join()
	client.Ask("are you there?")
	can := func() (can bool) {
		r.on(func(s *Session) { can = s.canBeMoved() })
		return can
	}
	if !can() {
		t.Error("a session that just relays stays")
	}
	tap := r.tapRunning(0)
	wstest.Eventually(t, "a tapped session stays", func() bool { return !can() })
	r.server.Compact()
	client.Ask("and now?")
	tap.tap.Close()
	wstest.Eventually(t, "it stays no longer", can)
	r.on(func(s *Session) {
		s.search = new(search)
		if s.canBeMoved() {
			t.Error("a session that searches is moved")
		}
		s.search = nil
		state := s.life.state
		for s.life.state = moving; s.life.state <= gone; s.life.state++ {
			if s.canBeMoved() {
				t.Errorf("a session is moved in the state %v", s.life.state)
			}
		}
		s.life.state = state
	})
}

// heapInUse returns how much memory the runtime's pages of objects take.
func heapInUse() uint64 {
	runtime.GC()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

// When three quarters of the sessions have ended, in no order, hardly a page of the runtime is free, and Compact frees those that held
// sessions.
func TestCompactGivesMemoryBack(t *testing.T) {
	if tapAll || compactAll {
		t.Skip("no session is moved, or all are all the time")
	}
	const sessions, left = 480, 120
	r := newRig(t, setup{profile: "echo", cap: sessions, script: &wstest.Server{Serve: wstest.Echo}})
	r.ready(sessions)
	clients := make([]*wstest.Peer, sessions)
	for i := range clients {
		clients[i] = r.connect(wstest.UpgradeRequest("/v1/test"))
		clients[i].ExpectUpgrade()
		clients[i].Ask("hello")
	}
	pages := func() int {
		found := make(map[uintptr]bool)
		r.each(func(s *Session) { found[uintptr(unsafe.Pointer(s))/pageSize] = true })
		return len(found)
	}
	all := pages()
	for i, c := range clients {
		if i%(sessions/left) != 0 {
			c.CloseNormally()
		}
	}
	wstest.Eventually(t, "three quarters of the sessions have ended", func() bool { return r.server.Active() == left })
	before, inUse := pages(), heapInUse()
	r.server.Compact()
	after, freed := pages(), int64(inUse)-int64(heapInUse())
	t.Logf("%d pages with %d sessions, %d with %d, %d after that; %d KiB are free", all, sessions, before, left, after, freed>>10)
	if before < all*9/10 || after > left/int(packed)+1 {
		t.Errorf("%d pages held sessions; when %d of %d were left, %d did, and after Compact %d", all, left, sessions, before, after)
	}
	if ended := sessions - left; freed < int64(ended)*600 {
		t.Errorf("%d bytes are free of %d sessions that have ended", freed, ended)
	}
	for i, c := range clients {
		if i%(sessions/left) == 0 {
			c.Ask("still there?")
		}
	}
}
