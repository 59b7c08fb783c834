package services

import (
	"fmt"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// many puts n backends that are not dialed, as long as no client comes, into 10 services.
func many(c *config.Content, n int) {
	for i := range n {
		service := fmt.Sprintf("service-%d", i%10)
		if i < 10 {
			putService(c, service, nil)
		}
		putBackend(c, fmt.Sprintf("gpu-%d", i), service, fmt.Sprintf("ws://10.%d.%d.%d:2700", i>>16, i>>8&255, i&255), 32,
			func(b *config.Backend) { b.Warm = 0 })
	}
}

// Thousands of backends come, change their services, and go.
func TestThousands(t *testing.T) {
	t.Parallel()
	const n = 2000
	r := newRig(t)
	begun := time.Now()
	took := func(what string) {
		t.Logf("%s: %v", what, time.Since(begun).Round(time.Millisecond))
		begun = time.Now()
	}
	r.apply(func(c *config.Content) { many(c, n) })
	took("added")
	r.apply(func(c *config.Content) {
		for name, b := range c.Backends {
			b.Service = "service-0"
			c.Backends[name] = b
		}
	})
	took("moved")
	wstest.Eventually(t, "the old ones have gone", func() bool { s := r.stats(); return len(s.Leaving) == 0 && len(s.Backends) == n })
	took("gone")
	r.apply(func(c *config.Content) { clear(c.Backends) })
	took("removed")
	wstest.Eventually(t, "all have gone", func() bool { s := r.stats(); return len(s.Leaving) == 0 && len(s.Backends) == 0 })
	r.services.mu.Lock()
	defer r.services.mu.Unlock()
	if len(r.services.servers) != 0 {
		t.Errorf("%d servers are remembered", len(r.services.servers))
	}
}

// BenchmarkApply applies a change of one of 5,000 backends.
func BenchmarkApply(b *testing.B) {
	r := newRig(b)
	r.apply(func(c *config.Content) { many(c, 5000) })
	var snapshots [2]*config.Snapshot
	for i := range snapshots {
		content := r.content.Clone()
		putBackend(&content, "gpu-0", "service-0", "ws://10.0.0.0:2700", 32+i, nil)
		var err error
		if snapshots[i], err = config.NewSnapshot(fmt.Sprint(i), &content, nil); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	for b.Loop() {
		if err := r.services.Apply(snapshots[i%2]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
