package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/session/throttle"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Taps and rates come and go in any order: a filter stands in front of the session's handlers exactly while it has something to do, the tap in
// front of the rate. Meanwhile frames pass both ways.
func TestFiltersComeAndGo(t *testing.T) {
	if tapAll || limitAll {
		t.Skip("there are filters in front of each session")
	}
	r := limitedRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}}, limits.Limits{}, limits.Limits{})
	client := r.Join()
	chain := func() (chain struct{ tapped, tappedBackend, rated, tapFirst bool }) {
		type sent interface{ Sent(frame.Opcode, []byte) } // which taps are told
		r.on(func(s *Session) {
			h := s.client.Handler()
			if _, ok := loop.As[*clientSide](h); !ok {
				t.Errorf("%T does not stand in front of the session", h)
			}
			_, chain.tapFirst = h.(sent)
			_, chain.tapped = loop.As[sent](h)
			_, chain.rated = loop.As[*throttle.Filter](h)
			_, plain := s.leg.conn.Stream().Handler().(*backendSide)
			chain.tappedBackend = !plain
		})
		return chain
	}
	expect := func(tapped, rated bool) {
		t.Helper()
		wstest.Eventually(t, "the chains are composed", func() bool {
			c := chain()
			return c.tapped == tapped && c.tapFirst == tapped && c.tappedBackend == tapped && c.rated == rated
		})
		client.Ask("hello")
	}
	limit := func(l limits.Limits) {
		r.Scopes.SetService(route.Now(), r.Service.Scopes, l, limits.Limits{})
		r.sessions.LimitsChanged()
	}
	fast := limits.Limits{MessageRate: limits.Rate{N: 1000, Per: 1}}
	expect(false, false)
	tap := r.tapRunning(10)
	expect(true, false)
	limit(fast)
	expect(true, true)
	tap.tap.Close()
	expect(false, true)
	tap = r.tapRunning(10)
	expect(true, true)
	limit(limits.Limits{Sessions: 5})
	expect(true, false)
	tap.tap.Close()
	expect(false, false)
	client.CloseNormally()
}
