package app

import "testing"

func TestBurst(t *testing.T) {
	for _, test := range []struct {
		name  string
		begun []uint64 // at each look
		over  int      // the look at which it is over, from 1; 0 for none
	}{
		{"nothing happens", []uint64{0, 0, 0, 0}, 0},
		{"too few to matter", []uint64{trimAfter - 1, trimAfter - 1, trimAfter - 1}, 0},
		{"a burst, once", []uint64{0, trimAfter, trimAfter, trimAfter, trimAfter, trimAfter}, 4},
		{"it goes on", []uint64{600, 1200, 1800, 2400, 3000}, 0},
		{"a pause is not its end", []uint64{1000, 1000, 2000, 2000, 2000}, 5},
		{"some always come", []uint64{1000, 1000 + trimCalm, 1000 + 2*trimCalm, 1000 + 3*trimCalm}, 3},
	} {
		var b burst
		for i, begun := range test.begun {
			if over := b.isOver(begun); over != (i+1 == test.over) {
				t.Errorf("%s: look %d says %v", test.name, i+1, over)
			}
		}
	}
}
