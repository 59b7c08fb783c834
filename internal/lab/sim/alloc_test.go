//go:build linux && !portableloop

package sim

import (
	"io"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// On the event loops of Linux; those of other systems start goroutines.
func TestEchoDoesNotAllocate(t *testing.T) {
	s := start(t, Options{})
	c := dialRaw(t, s)
	message := wstest.ClientFrame(true, binaryFrame, wstest.Noise(1, 1024))
	back := make([]byte, len(message)-4)
	trip := func() {
		_, sent := c.Write(message)
		if _, err := io.ReadFull(c, back); err != nil || sent != nil {
			t.Fatal(sent, err)
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
