package relay

import (
	"fmt"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// panicsInTimer is a session that panics when one of its timers expires.
type panicsInTimer struct{ *clientSide }

// Expired implements [loop.TimerHandler].
func (panicsInTimer) Expired(*loop.Conn, *loop.Timer) { panic("timer") }

// A panic in one session's book-keeping, or of its slot, ends that session: its client is told, its connection's slot is given up, and
// another connection is dialed. The others continue.
func TestPanicEndsOneSession(t *testing.T) {
	const others = 3
	for name, hurt := range map[string]func(r *rig, s *Session){
		"client's event":  func(_ *rig, s *Session) { s.leg.up.scanner, s.leg.up.to = nil, nil },
		"backend's event": func(_ *rig, s *Session) { s.leg.down.to = nil },
		"timer": func(_ *rig, s *Session) {
			s.client.SetHandler(panicsInTimer{(*clientSide)(s)})
			s.timer.Set(s.client, 0, 0)
		},
		"posted": func(_ *rig, s *Session) { s.client.Post(func() { panic("posted") }) },
		"backend's event, when the lease has just ended": func(_ *rig, s *Session) {
			s.leg.conn.Stream().Post(func() { s.leg.conn.End(endingOf(s)); panic("the session does not get to know") })
		},
		"slot": func(_ *rig, s *Session) { // its lease has ended, and it does not know
			s.client.Post(func() { s.leg.conn.End(endingOf(s)); s.leg.conn.End(endingOf(s)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var guard *panics.Guard
			r := newRig(t, setup{Profile: "echo", Cap: others + 1, Script: &wstest.Server{Serve: wstest.Echo}, Recovers: func(g *panics.Guard) { guard = g }})
			r.Ready(others + 1)
			victim := r.Join()
			victim.Send(frame.Text, "hello")
			victim.Expect(frame.Text, "hello")
			r.on(func(s *Session) { hurt(r, s) })
			var peers []*wstest.Peer
			for range others {
				peers = append(peers, r.Join())
			}
			if name == "client's event" || name == "backend's event" {
				victim.Send(frame.Text, "boom")
			}
			wstest.Eventually(t, "the session is over", func() bool { return r.sessions.Active() == others })
			for i, p := range peers {
				text := fmt.Sprint("still here ", i)
				p.Send(frame.Text, text)
				p.Expect(frame.Text, text)
			}
			if a := r.Record(); frame.CloseCode(a["code"].Int64()) != frame.InternalError || a["reason"].String() != "internal error" || a["by"].String() != "proxy" {
				t.Errorf("session ended with %v", a)
			}
			if n := guard.Count(); n == 0 {
				t.Error("nothing was counted")
			}
			wstest.Eventually(t, "the connection is replaced", func() bool { s := r.Backend.Stats(); return s.Idle == 1 && s.Leased == others && s.Used() == others+1 })
			if s := r.Backend.Stats(); s.Totals.Reasons[pool.InternalError] != 1 && name != "slot" || s.Totals.DialFailed != 0 {
				t.Errorf("the books are %+v", s)
			}
			for _, p := range peers {
				p.CloseNormally()
			}
			wstest.Eventually(t, "all sessions are over", func() bool { return r.sessions.Active() == 0 })
		})
	}
}

func endingOf(s *Session) backend.Ending {
	return backend.Ending{Traffic: s.leg.traffic(s.sentNow()), Code: frame.GoingAway, Text: "over"}
}
