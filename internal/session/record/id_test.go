package record

import (
	"math"
	"testing"
)

func TestID(t *testing.T) {
	id := ID{NewProcess(), 1042}
	if got, ok := ParseID(id.String()); !ok || got != id {
		t.Errorf("%s is read as %v, %v", id, got, ok)
	}
	other, ok := ParseID(ID{id.Process, 1043}.String())
	if !ok || other.Number != 1043 {
		t.Errorf("the next one is read as %v, %v", other, ok)
	}
	for _, number := range []uint64{0, 1, math.MaxUint16, 1<<16 + 1, math.MaxUint32, 1 << 32, 3<<32 + 7} {
		if shown := shuffle(number); unshuffle(shown) != number || shown>>32 != number>>32 {
			t.Errorf("%d is shown as %d, and read as %d", number, shown, unshuffle(shown))
		}
	}
	if a, b := NewProcess(), NewProcess(); a == b {
		t.Errorf("two processes are %s", a)
	}
	for _, text := range []string{
		"", "-", "1042", "abcdefgh", "abcdefgh-", "abcdefgh-x", "abcdefgh--1", "abcdefgh-01", "abcdefgh-+1", "abcdefg-1", "abcdefghi-1",
		"abcdefgh-18446744073709551616", "abcdefgh-1 ", "abcdefgh-1-1",
	} {
		if id, ok := ParseID(text); ok {
			t.Errorf("%q is read as %v", text, id)
		}
	}
}
