package loop

import (
	"testing"
	"time"
)

// A function that holds a loop up is seen in the sizes of its turns.
func TestTurns(t *testing.T) {
	g, err := NewGroup(Options{Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	const hog = 3 * time.Millisecond
	above := func() (n uint64) {
		for i, turns := 0, g.Turns(); i < len(turns.Counts); i++ {
			if i >= len(turns.Bounds) || turns.Bounds[i] > hog {
				n += turns.Counts[i]
			}
		}
		return n
	}
	g.loops[0].Call(func() {})
	before := above() // on a busy machine, any turn may take long
	g.loops[0].Call(func() {
		for begin := Now(); time.Duration(Now()-begin) <= hog; {
		}
	})
	g.loops[0].Call(func() {}) // the turn before has ended
	if n := above() - before; n == 0 {
		t.Errorf("a turn of more than %v was not counted: %v", hog, g.Turns())
	}
}
