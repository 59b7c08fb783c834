//go:build linux && !portableloop

package session

import (
	"bytes"
	"testing"
)

// Relaying allocates nothing: not for a frame, not for a read. (The portable loops allocate for each write.) The counts
// are of the whole process, so that what allocates once in a while is to vanish among many frames.
func TestRelayAllocatesNothing(t *testing.T) {
	for _, size := range []int{0, 100, 1 << 10, 8 << 10} {
		c := newCircle(t, size)
		const perRun = 50
		allocs := testing.AllocsPerRun(100, func() {
			for range perRun {
				if err := c.run(); err != nil {
					t.Fatal(err)
				}
			}
		})
		if !bytes.Equal(c.got, c.back) {
			t.Fatal("something else came back")
		}
		if allocs > perRun/10 { // one frame in twenty that allocates shows
			t.Errorf("messages of %d bytes: %v allocations for %d frames", size, allocs, 2*perRun)
		}
	}
}
