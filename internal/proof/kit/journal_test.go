package kit

import (
	"strings"
	"testing"
)

// The first of a kind is told in full, with what went before, and the others are counted.
func TestJournal(t *testing.T) {
	var lines strings.Builder
	j := NewJournal(&lines)
	if j.Err() != nil {
		t.Error(j.Err())
	}
	for range maxLines {
		j.Event("something")
	}
	j.Event("the last thing")
	j.Violation("here", "bad", []string{"seen before"}, "the %s", "first")
	j.Violation("here", "bad", nil, "the second")
	j.Violation("there", "bad", nil, "the third")
	found := j.Found()
	if len(found) != 2 || found[0].Kind != "bad" || found[0].Place != "here" || found[0].Times != 2 || found[1].Times != 1 || found[0].Text != "the first" ||
		len(found[0].Before) != shown || !strings.HasSuffix(found[0].Before[shown-1], "the last thing") {
		t.Errorf("got %+v", found)
	}
	if j.Err() == nil || j.Err().Error() != "bad: the first" {
		t.Errorf("got %v", j.Err())
	}
	var out strings.Builder
	if kinds := Tell(&out, found); kinds != 1 {
		t.Errorf("%d kinds", kinds)
	}
	for _, want := range []string{"FOUND bad\n  how often: here 2, there 1\n  the first, at ", "s: here, the first\n", "    before:", "    history: seen before\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if all := lines.String(); strings.Count(all, "\n") != maxLines+3 || !strings.Contains(all, "s  FOUND bad: the first\n") {
		t.Errorf("the lines are\n%s", all)
	}
}
