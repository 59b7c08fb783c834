package session

import (
	"fmt"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// A session goes to the backend of which the smallest share is in use, and to any other when that one has no idle
// connection.
func TestLeastLoaded(t *testing.T) {
	rigs := []*rig{newRig(t, setup{cap: 6, profile: "echo"}), newRig(t, setup{cap: 3, profile: "echo"})}
	large, small := rigs[0].backend, rigs[1].backend
	rigs[0].ready(6)
	rigs[1].ready(3)
	service := &Service{Backends: []*backend.Backend{small, large}}
	var held []*backend.Conn
	lease := func() {
		t.Helper()
		c, ok := service.lease()
		if !ok {
			t.Fatalf("no connection, large %+v, small %+v", large.Stats(), small.Stats())
		}
		held = append(held, c)
	}
	for round := 1; round <= 3; round++ {
		for range 3 {
			lease()
		}
		if l, s := large.Stats().Leased, small.Stats().Leased; l != 2*round || s != round {
			t.Errorf("%d and %d connections are leased; want %d and %d", l, s, 2*round, round)
		}
	}
	if _, ok := service.lease(); ok {
		t.Error("leased more than there are")
	}
	end := func(c *backend.Conn) {
		done := make(chan struct{})
		c.Use(func(bool) { c.End(profile.Traffic{}, false, frame.GoingAway, ""); close(done) })
		<-done
	}
	// All of the small one's in use, and one of the large one's idle.
	for i, c := range held {
		if c.Backend() == large {
			end(c)
			held[i] = held[0]
			held = held[1:]
			break
		}
	}
	lease()
	for _, c := range held {
		end(c)
	}
	if l, s := large.Stats().Idle, small.Stats().Idle; l != 6 || s != 3 {
		t.Errorf("%d and %d connections are idle at the end; want all", l, s)
	}
}

// Among equals the choice is random: backends that are listed first get no more than their part.
func TestTiesAreRandom(t *testing.T) {
	rigs := []*rig{newRig(t, setup{profile: "echo"}), newRig(t, setup{profile: "echo"}), newRig(t, setup{profile: "echo"})}
	service := new(Service)
	for _, r := range rigs {
		r.ready(1)
		service.Backends = append(service.Backends, r.backend)
	}
	counts := make(map[*backend.Backend]int)
	const rounds = 300
	for range rounds {
		c, ok := service.lease()
		if !ok {
			t.Fatal("no connection")
		}
		counts[c.Backend()]++
		done := make(chan struct{})
		c.Use(func(bool) { c.End(profile.Traffic{}, false, frame.GoingAway, ""); close(done) })
		<-done
	}
	for _, b := range service.Backends {
		if n := counts[b]; n < rounds/6 { // 6 standard deviations below a third
			t.Errorf("one of three equal backends got %d of %d sessions: %v", n, rounds, fmt.Sprint(counts))
		}
	}
}
