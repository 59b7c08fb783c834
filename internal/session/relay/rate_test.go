package relay

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/session/throttle"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// once is a rate at which one message is free, and the next ones wait for longer than any test.
var once = limits.Limits{MessageRate: limits.Rate{N: 1, Per: time.Hour}}

// heldBack waits until a limit holds the client of the only session back.
func (r *rig) heldBack() {
	r.T.Helper()
	wstest.Eventually(r.T, "the client is held back", func() (held bool) {
		r.on(func(s *Session) { held = s.client.Throttled() })
		return held
	})
}

// heldBackSession returns both ends of a session whose client has sent all that it may.
func (r *rig) heldBackSession() (client, server *wstest.Peer) {
	r.T.Helper()
	client, server = r.Session()
	client.Send(frame.Text, "one")
	client.Send(frame.Text, "two")
	server.Expect(frame.Text, "one")
	server.Expect(frame.Text, "two")
	r.heldBack()
	return client, server
}

// A client that sends much faster than it may has everything passed on, at its rate. Meanwhile a client of another address, and the
// backends' answers, are not held back.
func TestByteRate(t *testing.T) {
	rate := limits.Rate{N: 64 << 10, Per: 100 * time.Millisecond} // the first 64 KiB are free
	servers, over := map[string]chan *wstest.Peer{"greedy": make(chan *wstest.Peer, 1), "other": make(chan *wstest.Peer, 1)}, make(chan struct{})
	script := &wstest.Server{Serve: func(p *wstest.Peer) {
		if _, name, err := p.Next(); err == nil {
			servers[string(name)] <- p
			<-over
		}
	}}
	r := limitedRig(t, setup{Cap: 2, Script: script}, limits.Limits{}, limits.Limits{ByteRate: rate})
	t.Cleanup(func() { close(over) })
	r.Ready(2)
	greedy, other := r.Join(), r.from("127.0.0.2")
	greedy.Send(frame.Text, "greedy")
	other.Send(frame.Text, "other")
	server, otherServer := <-servers["greedy"], <-servers["other"]
	payload := wstest.Noise(1, 448<<10)
	begun := time.Now()
	go func() {
		for part := range 7 {
			greedy.SendBytes(greedy.Encode(true, frame.Binary, payload[part*64<<10:(part+1)*64<<10]))
		}
	}()
	r.heldBack()
	for i := range 20 {
		other.Send(frame.Text, fmt.Sprint(i))
		otherServer.Expect(frame.Text, fmt.Sprint(i))
		server.Send(frame.Text, fmt.Sprint(i))
		greedy.Expect(frame.Text, fmt.Sprint(i))
	}
	var got []byte
	for len(got) < len(payload) {
		_, part, err := server.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, part...)
	}
	// It took at least as long as the rate says: 6 periods, less what was sent before it had to be paid for.
	if took := time.Since(begun); took < 550*time.Millisecond {
		t.Errorf("%d bytes took %v at %v", len(got), took, rate)
	}
	if !bytes.Equal(got, payload) {
		t.Error("what arrived differs from what was sent")
	}
}

// from begins a session from another address of this machine.
func (r *rig) from(ip string) *wstest.Peer {
	r.T.Helper()
	p := wstest.DialFrom(r.T, ip, r.Address, wstest.UpgradeRequest("/v1/test"))
	p.ExpectUpgrade()
	return p
}

// Many small messages that arrive together are passed on a few at a time.
func TestMessageRate(t *testing.T) {
	r := limitedRig(t, setup{}, limits.Limits{MessageRate: limits.Rate{N: 100, Per: 100 * time.Millisecond}}, limits.Limits{})
	client, server := r.Session()
	const n = 500
	var all []byte
	for i := range n {
		all = append(all, client.Encode(true, frame.Binary, []byte{byte(i)})...)
	}
	begun := time.Now()
	client.SendBytes(all)
	for i := range n {
		server.Expect(frame.Binary, string([]byte{byte(i)}))
	}
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("%d messages took %v; want 400 ms", n, took)
	}
	wstest.Eventually(t, "the client is read again", func() (read bool) {
		r.on(func(s *Session) { read = !s.client.Paused() })
		return read
	})
}

// A piece of what has arrived exceeds a turn only by a little, whatever it is made of.
func TestTurnIsNotExceeded(t *testing.T) {
	r := limitedRig(t, setup{}, once, limits.Limits{})
	client, server := r.Session()
	var all []byte
	for range 5000 {
		all = append(all, client.Encode(true, frame.Binary, nil)...)
	}
	client.SendBytes(all)
	r.heldBack()
	passed := uint64(0)
	r.on(func(s *Session) { passed = s.scanner.Messages })
	if most := uint64(2 * throttle.MinPiece / frame.MinClientSize); passed > most || passed < 1 {
		t.Errorf("%d messages have passed; want at most %d", passed, most)
	}
	for range passed {
		server.Expect(frame.Binary, "")
	}
}

// A client that has sent too much gets no further turn by another connection, and pays for the first message there before it is passed on.
func TestOtherConnectionHasNoTurn(t *testing.T) {
	rate := limits.Rate{N: 1, Per: 200 * time.Millisecond}
	echo := &wstest.Server{Serve: func(p *wstest.Peer) {
		for h, payload, err := p.Next(); err == nil && h.Opcode == frame.Text; h, payload, err = p.Next() {
			p.Send(h.Opcode, string(payload))
		}
	}}
	r := limitedRig(t, setup{Cap: 2, Script: echo}, limits.Limits{MessageRate: rate}, limits.Limits{})
	r.Ready(2)
	first := r.Join()
	begun := time.Now()
	for range 4 { // the last one waits until the third is paid for
		first.Send(frame.Text, "one")
		first.Expect(frame.Text, "one")
	}
	second := r.Join()
	second.Send(frame.Text, "two")
	second.Send(frame.Text, "three")
	second.Expect(frame.Text, "two")
	if took := time.Since(begun); took < 4*rate.Per-50*time.Millisecond {
		t.Errorf("5 messages by 2 connections took %v, with one each %v", took, rate.Per)
	}
	second.Expect(frame.Text, "three")
	if took := time.Since(begun); took < 4*rate.Per {
		t.Errorf("6 messages by 2 connections took %v, with one each %v", took, rate.Per)
	}
}

// Both sides can end a session whose client is held back, and the proxy can.
func TestEndWhileHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		service func(*route.Service)
		act     func(r *rig, client, server *wstest.Peer)
		code    frame.CloseCode
		reason  string
		want    fate
	}{
		"backend closes": {nil, func(_ *rig, _, server *wstest.Peer) { server.SendClose(4000, "enough") }, 4000, "enough", fate{"backend", 4000, "enough", "discarded"}},
		"session limit": {
			func(s *route.Service) { s.MaxDuration = time.Hour }, func(r *rig, _, _ *wstest.Peer) {
				r.on(func(s *Session) {
					s.record.Leased = s.record.Leased.Add(-time.Hour)
					s.limitDuration()
				})
			}, 1008, "session limit reached", fate{"proxy", 1008, "session limit reached", "discarded"},
		},
		"operator": {nil, func(r *rig, _, _ *wstest.Peer) {
			var id record.ID
			r.on(func(s *Session) { id = s.record.ID })
			r.sessions.Kill(id, "")
		}, 1012, killedBy, fate{"proxy", 1012, killedBy, "discarded"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := limitedRig(t, setup{Service: c.service}, once, limits.Limits{})
			client, server := r.heldBackSession()
			client.Send(frame.Text, "three") // which is not read
			c.act(r, client, server)
			client.ExpectClose(c.code, c.reason)
			client.SendClose(c.code, "")
			client.ExpectEnd()
			_ = client.Close()
			r.expectRecord(c.want)
		})
	}
}

// What a client has sent before its close frame is passed on before it.
func TestCloseWhileHeldBack(t *testing.T) {
	r := limitedRig(t, setup{}, limits.Limits{MessageRate: limits.Rate{N: 1, Per: 50 * time.Millisecond}}, limits.Limits{})
	client, server := r.Session()
	for i := range 6 {
		client.Send(frame.Text, fmt.Sprint(i))
	}
	client.SendClose(frame.NormalClosure, "done")
	for i := range 6 {
		server.Expect(frame.Text, fmt.Sprint(i))
	}
	server.ExpectClose(frame.NormalClosure, "done")
	server.SendClose(frame.NormalClosure, "done")
	client.ExpectClose(frame.NormalClosure, "done")
	_ = client.Close()
	r.expectRecord(fate{"client", frame.NormalClosure, "done", "discarded"})
}

// A client that falls silent counts as held back only until it has been read again for a moment. As long as it sends more than it may, that is
// counted once.
func TestHeldBackEnds(t *testing.T) {
	t.Parallel()
	r := limitedRig(t, setup{}, limits.Limits{MessageRate: limits.Rate{N: 1, Per: 50 * time.Millisecond}}, limits.Limits{})
	client, server := r.Session()
	client.SendBytes(bytes.Repeat(wstest.ClientFrame(true, frame.Text, "x"), 5))
	for range 5 {
		server.Expect(frame.Text, "x")
	}
	wstest.Eventually(t, "the client counts as released", func() bool { return r.stats().HeldBack == 0 })
	if got := r.Shared.LimitLog.Total(); !limitAll && (len(got) != 1 || got[0].Times != 1) {
		t.Errorf("counted: %+v", got)
	}
	client.Send(frame.Text, "more")
	server.Expect(frame.Text, "more")
}

// The time for which we do not read a client does not count as its idleness.
func TestIdleWhileHeldBack(t *testing.T) {
	r := limitedRig(t, setup{Service: func(s *route.Service) { s.IdleTimeout = time.Hour }}, once, limits.Limits{})
	client, server := r.heldBackSession()
	r.on(func(s *Session) {
		for range 3 * idleChecks {
			s.checkIdle()
		}
	})
	server.Send(frame.Text, "still here")
	client.Expect(frame.Text, "still here")
}

// Limits that change apply to sessions that run: of a scope that they are in, and of one that has had no limits before.
func TestLimitsChange(t *testing.T) {
	r := limitedRig(t, setup{}, limits.Limits{}, limits.Limits{})
	change := func(service, client limits.Limits) {
		r.Scopes.SetService(route.Now(), r.Service.Scopes, service, client)
		r.sessions.LimitsChanged()
	}
	client, server := r.Session()
	client.Send(frame.Text, "zero")
	server.Expect(frame.Text, "zero")
	change(limits.Limits{}, once)
	wstest.Eventually(t, "the session is counted", func() (counted bool) {
		r.on(func(s *Session) { _, counted = loop.As[*throttle.Filter](s.client.Handler()) })
		return counted
	})
	client.Send(frame.Text, "one")
	client.Send(frame.Text, "two")
	server.Expect(frame.Text, "one")
	server.Expect(frame.Text, "two")
	r.heldBack()
	client.Send(frame.Text, "three")
	change(limits.Limits{Sessions: 1}, limits.Limits{})
	server.Expect(frame.Text, "three")
	p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
	_ = p.Close()
	if response.StatusCode != 503 {
		t.Errorf("another client gets %s: the session that runs is not counted", response.Status)
	}
}

// What a session sent before it had a rate is free, also if its places were counted.
func TestRateComesLater(t *testing.T) {
	if limitAll {
		t.Skip("each session has a rate from its beginning")
	}
	r := limitedRig(t, setup{}, limits.Limits{Sessions: 5}, limits.Limits{})
	client, server := r.Session()
	for range 100 {
		client.Send(frame.Text, "free")
		server.Expect(frame.Text, "free")
	}
	r.Scopes.SetService(route.Now(), r.Service.Scopes, limits.Limits{Sessions: 5, MessageRate: limits.Rate{N: 50, Per: time.Hour}}, limits.Limits{})
	r.sessions.LimitsChanged()
	wstest.Eventually(t, "the rate applies", func() (applies bool) {
		r.on(func(s *Session) { _, applies = loop.As[*throttle.Filter](s.client.Handler()) })
		return applies
	})
	for range 50 {
		client.Send(frame.Text, "paid")
		server.Expect(frame.Text, "paid")
	}
	if n := r.sessions.throttled.Load(); n != 0 {
		t.Error("the session is held back for what it was free to send")
	}
}

// A session that moves to another loop takes its limits along.
func TestMoveWhileHeldBack(t *testing.T) {
	r := limitedRig(t, setup{Loops: 2}, limits.Limits{MessageRate: limits.Rate{N: 1, Per: 20 * time.Millisecond}}, limits.Limits{})
	moves, stop := r.mover()
	client, server := r.Session()
	wstest.Eventually(t, "it moves", func() bool { return moves.Load() > 0 })
	go func() {
		for i := range 30 {
			client.Send(frame.Text, fmt.Sprint(i))
		}
	}()
	for i := range 30 {
		server.Expect(frame.Text, fmt.Sprint(i))
	}
	stop()
}
