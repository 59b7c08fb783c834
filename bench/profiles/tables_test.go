//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
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

func TestJSONHasEveryNumber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "numbers.json")
	if err := writeJSON(file, []idleRow{{Profile: "x", Returns: []float64{1, 2}}}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Rows []idleRow }
	if err := json.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 1 || got.Rows[0].Profile != "x" || len(got.Rows[0].Returns) != 2 {
		t.Errorf("numbers are missing in %s", written)
	}
}
