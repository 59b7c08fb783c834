//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestIdleTable(t *testing.T) {
	text := idleTable([]idleRow{{
		Profile: "watson", Client: ends, Latency: 20, Settle: 100, Answers: []float64{19, 20, 40}, Returns: []float64{150, 126, 100},
	}}, options{rounds: 1})
	if want := "\n| watson | 20 | 20.00 | 100 | " + string(ends) + " | 126.00 | 150.00 | 6.00 | 1.05 |\n"; !strings.Contains(text, want) {
		t.Errorf("no row %q in:\n%s", want, text)
	}
}
