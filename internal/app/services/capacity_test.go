package services

import (
	"testing"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// startPublisher starts a server that publishes its capacity as Kyutai's does.
func startPublisher(t testing.TB, total int) (s *sim.Server, url string) {
	t.Helper()
	s, err := sim.Start(sim.Options{Protocol: sim.Kyutai})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Publish(total)
	return s, s.URL() + "/api/asr-streaming"
}

// follow adds the service stt whose backend a follows what the server at a URL publishes.
func (r *rig) follow(url string) {
	r.t.Helper()
	r.apply(func(c *config.Content) {
		c.Profiles["quick"] = config.Profile{YAML: "from: kyutai\npredial: costs-slot\ncapacity: {every: 1s}\n"}
		putService(c, "stt", func(s *config.Service) { s.Profile = "quick" })
		putBackend(c, "a", "stt", url, -1, func(b *config.Backend) { b.ConnectionsMax, b.Warm = 32, 0 })
	})
}

// ceiling waits until a backend has a ceiling.
func (r *rig) ceiling(name string, n int) {
	r.t.Helper()
	wstest.Eventually(r.t, "the ceiling changes", func() bool { return r.backend(name).Ceiling == n })
}

// A backend follows the total that its server publishes, without the sessions of strangers. It ends no session, and keeps the last good value.
func TestFollowedCapacity(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, url := startPublisher(t, 8)
	r.follow(url)
	r.ceiling("a", 8)
	var clients []*client
	for range 6 {
		clients = append(clients, r.join("/stt"))
	}

	s.Publish(4)
	r.ceiling("a", 4)
	if b := r.backend("a"); b.Leased != 6 || b.Cap != 32 {
		t.Fatalf("when the total fell: %+v", b.Pool)
	}
	answer := r.waiting("stt")
	for left := 5; left >= 4; left-- {
		_ = clients[left].Close()
		wstest.Eventually(t, "a session ends", func() bool { b := r.backend("a"); return b.Leased == left && b.Used() == left })
		if q := r.stats().Services[0].Queue; q.Waiting != 1 {
			t.Fatalf("with %d sessions of 4, %d clients wait", left, q.Waiting)
		}
	}
	_ = clients[3].Close()
	if status := <-answer; status != 101 {
		t.Fatalf("the client that waited got %d", status)
	}

	s.Publish(8)
	r.ceiling("a", 8)
	for range 3 {
		conn, _, err := websocket.DefaultDialer.Dial(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	r.ceiling("a", 5)
	if b := r.backend("a"); b.CeilingCause != "published" || b.CeilingSince.IsZero() || b.CeilingReason != "it publishes that it takes 8, and others than these proxies have 3" {
		t.Errorf("ceiling: %q since %v: %s", b.CeilingCause, b.CeilingSince, b.CeilingReason)
	}

	s.Publish(-1)
	wstest.Eventually(t, "the problem is known", func() bool { return r.backend("a").Published.Reason != "" })
	if b := r.backend("a"); b.Ceiling != 5 || b.Published.Total != 8 || b.Published.Strangers != 3 || !b.Published.Followed {
		t.Errorf("when the page is gone: %+v, %+v", b.Pool, b.Published)
	}
	s.Publish(7)
	r.ceiling("a", 4)
	if p := r.backend("a").Published; p.Reason != "" || p.Total != 7 {
		t.Errorf("when it is back: %+v", p)
	}

	// With a number, the cap is that, and the rest is only shown.
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", url, 20, nil) })
	if b := r.backend("a"); b.Ceiling != 20 || b.Published == nil || b.Published.Followed {
		t.Errorf("with a number: %+v, %+v", b.Pool, b.Published)
	}
}

// Before the first good reading, the cap holds.
func TestUnknownCapacity(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, url := startPublisher(t, -1)
	r.follow(url)
	r.ceiling("a", 32)
	if p := r.backend("a").Published; p.Reason == "" || !p.At.IsZero() {
		t.Errorf("%+v", p)
	}
	s.Publish(3)
	r.ceiling("a", 3)
}

// Each proxy claims the cap that it has read, and tells connections of the others from strangers'.
func TestCapacityInAFleet(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	s, url := startPublisher(t, 8)
	other, _, err := websocket.DefaultDialer.Dial(url, nil) // of another proxy
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r.services.SetLedger(&Ledger{Self: "me", Accounts: []fleet.Account{{
		Server: config.ServerOf(url), Grants: []fleet.Grant{{Proxy: "me", Places: 4}, {Proxy: "other", Places: 4, Claim: fleet.Claim{Cap: 32, Open: 1}}},
	}}})
	r.grant(url, 4)
	r.follow(url)
	wstest.Eventually(t, "the claim follows", func() bool { return r.usage(url).Cap == 8 })
	_ = r.join("/stt")
	wstest.Eventually(t, "the reading comes with what was open", func() bool { u := r.usage(url); return u.Open == 1 && u.Cap == 8 })
	s.Publish(3)
	wstest.Eventually(t, "the claim falls", func() bool { return r.usage(url).Cap == 3 })
	if b := r.backend("a"); b.Places.Cap != 3 || b.Limit != 3 || b.Published.Strangers != 0 {
		t.Errorf("%+v, %+v, %+v", b.Pool, b.Places, b.Published)
	}
}
