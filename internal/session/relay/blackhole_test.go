package relay

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// closesWith plays a server that ends each session at once.
func closesWith(code frame.CloseCode) func(*wstest.Peer) {
	return func(p *wstest.Peer) {
		if h, _, err := p.Next(); err == nil && h.Opcode != frame.Close {
			_, _ = p.Write(p.Encode(true, frame.Close, frame.AppendClosePayload(nil, code, "")))
		}
		readAll(p)
	}
}

// comesAndAsks plays a client that says something, and returns whether it was answered. It stays.
func (r *rig) comesAndAsks() (p *wstest.Peer, answered bool) {
	r.T.Helper()
	p = r.Join()
	p.Send(frame.Text, "hello")
	h, _, err := p.Next()
	if err != nil {
		r.T.Fatal(err)
	}
	return p, h.Opcode == frame.Text
}

// A backend that ends every session at once does not get them all, although it is always the one with the least to do.
func TestBlackHole(t *testing.T) {
	for _, code := range []frame.CloseCode{frame.ProtocolError, frame.UnsupportedData, frame.InvalidPayload, frame.InternalError} {
		t.Run(code.String(), func(t *testing.T) {
			var now atomic.Int64
			now.Store(int64(time.Hour))
			r := newRig(t, setup{Cap: 80, Queue: 80, Script: &wstest.Server{Serve: closesWith(code)}, More: []*wstest.Server{{Serve: wstest.Echo}}, Backend: func(o *backend.Options) {
				o.SlowStart = time.Minute
			}, Now: func() pool.Instant { return pool.Instant(now.Load()) }})
			r.AllReady(80, r.Backends...)
			failed := 0
			for range 60 {
				now.Add(int64(5 * time.Millisecond))
				if _, answered := r.comesAndAsks(); !answered {
					failed++
				}
				if failed == 5 {
					wstest.Eventually(t, "the circuit opens", func() bool { return r.Backend.Health().CircuitOpened > 0 })
				}
			}
			if failed > 25 { // five, and some in each trial
				t.Errorf("%d of 60 sessions failed", failed)
			}
			if h := r.Backends[1].Health(); h.CircuitOpened > 0 || h.Broken > 0 {
				t.Errorf("the good backend: %+v", h)
			}
		})
	}
}

// One client whose sessions the server ends at once does not take it away from others.
func TestBadClientTakesNoServerAway(t *testing.T) {
	poisoned := func(p *wstest.Peer) {
		for {
			h, payload, err := p.Next()
			switch {
			case err != nil || h.Opcode == frame.Close:
				return
			case string(payload) == "poison":
				_, _ = p.Write(p.Encode(true, frame.Close, frame.AppendClosePayload(nil, frame.InternalError, "")))
			default:
				_, _ = p.Write(p.Encode(true, h.Opcode, payload))
			}
		}
	}
	var now atomic.Int64
	now.Store(int64(time.Hour))
	r := newRig(t, setup{Cap: 4, Queue: 9, Script: &wstest.Server{Serve: poisoned}, Now: func() pool.Instant { return pool.Instant(now.Load()) }})
	good, _ := r.comesAndAsks()
	now.Add(int64(time.Minute))
	for range 20 {
		p := r.Join()
		p.Send(frame.Text, "poison")
		p.ExpectClose(frame.InternalError, "")
		_ = p.Close()
	}
	if h := r.Backend.Health(); h.CircuitOpened > 0 || h.Circuit != "closed" || h.Broken != 20 {
		t.Errorf("health: %+v", h)
	}
	good.Send(frame.Text, "still")
	good.Expect(frame.Text, "still")
}
