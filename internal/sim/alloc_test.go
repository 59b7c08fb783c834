//go:build linux && !portableloop

package sim

import (
	"io"
	"testing"
)

// On the event loops of Linux; those of other systems start goroutines.
func TestEchoDoesNotAllocate(t *testing.T) {
	s := start(t, Options{})
	c := dialRaw(t, s)
	message := clientFrame(binaryFrame, noise(1024))
	back := make([]byte, len(message)-4)
	trip := func() {
		c.write(t, message)
		if _, err := io.ReadFull(c, back); err != nil {
			t.Fatal(err)
		}
	}
	trip()                                           // for the buffers
	result := testing.Benchmark(func(b *testing.B) { // AllocsPerRun would take the loops' processors away
		for b.Loop() {
			trip()
		}
	})
	if perTrip := result.AllocsPerOp(); perTrip > 0 {
		t.Errorf("%v allocations per round trip; want none", perTrip)
	}
}
