//go:build linux && !portableloop

package relay

import (
	"bytes"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// Relaying allocates nothing: not for a frame, not for a read. (The portable loops allocate for each write.) The counts
// are of the whole process, so that what allocates once in a while is to vanish among many frames.
func TestRelayAllocatesNothing(t *testing.T) {
	if tapAll {
		t.Skip("a tap allocates")
	}
	for i, size := range []int{0, 1 << 10, 8 << 10, 1 << 10, 8 << 10} {
		c := newCircle(t, size, func(s *route.Service) {
			if i > 2 {
				reconnects(s)
			}
		})
		result := testing.Benchmark(func(b *testing.B) { // AllocsPerRun would take the loops' processors away
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
		if !bytes.Equal(c.got, c.back) {
			t.Fatal("something else came back")
		}
		if n := result.AllocsPerOp(); n > 0 {
			t.Errorf("messages of %d bytes: %v allocations for a round trip, reconnect: %t", size, n, i > 2)
		}
	}
}
