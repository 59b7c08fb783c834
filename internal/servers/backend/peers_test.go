package backend

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/health"
)

// Backends are compared with those that serve, by the sessions that began and failed there, and with none that is gone.
func TestPeers(t *testing.T) {
	t.Parallel()
	const now = 1
	var peers Peers
	serves := map[string]bool{"b": true, "c": true, "d": true}
	joined := make(map[string]*member)
	for _, name := range []string{"a", "b", "c", "d"} {
		joined[name] = peers.join(func() bool { return serves[name] })
		joined[name].sessionBegan(now)
	}
	joined["b"].sessionFailed(now)
	seen := func(own float64, others health.Peers) {
		t.Helper()
		joined["a"].compare(now, func(sessions *health.Sessions, peers func() health.Peers) bool {
			got := peers()
			if sessions.Began != own || got.Serving != others.Serving || got.Ejected != others.Ejected ||
				got.Sessions.Began != others.Sessions.Began || got.Sessions.Failed != others.Sessions.Failed {
				t.Errorf("%+v, %+v; want %v, %+v", sessions, got, own, others)
			}
			return false
		})
	}
	seen(1, health.Peers{Serving: 3, Sessions: health.Sessions{Began: 3, Failed: 1}})
	serves["c"] = false
	seen(1, health.Peers{Serving: 2, Sessions: health.Sessions{Began: 2, Failed: 1}})
	joined["b"].compare(now, func(*health.Sessions, func() health.Peers) bool { return true })
	seen(1, health.Peers{Serving: 1, Ejected: 1, Sessions: health.Sessions{Began: 1}})
	joined["b"].leave()
	joined["b"].leave()
	seen(1, health.Peers{Serving: 1, Sessions: health.Sessions{Began: 1}})
	if n := len(peers.list); n != 3 {
		t.Errorf("%d backends are left", n)
	}
}

// A backend without peers is compared with none.
func TestNoPeers(t *testing.T) {
	t.Parallel()
	var none *Peers
	p := none.join(nil)
	p.sessionBegan(1)
	p.sessionFailed(1)
	p.compare(1, func(*health.Sessions, func() health.Peers) bool {
		t.Error("compared")
		return true
	})
	p.leave()
}
