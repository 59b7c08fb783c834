package kit

import (
	"fmt"
	"strings"
	"testing"
)

// A trace keeps the latest events, and shows that there were others.
func TestTrace(t *testing.T) {
	var trace Trace
	const more = 3 * maxTraced
	for i := range more {
		trace.Add("word %d.", i)
	}
	all := trace.String()
	if !strings.Contains(all, fmt.Sprintf("word %d.", more-1)) || strings.Contains(all, "word 0.") || !strings.Contains(all, " earlier events\n") {
		t.Errorf("not the latest: %s", all)
	}
	if lines := strings.Count(all, "\n"); lines > maxTraced+1 {
		t.Errorf("%d lines", lines)
	}
}
