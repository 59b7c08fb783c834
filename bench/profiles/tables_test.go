//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// wantRows fails the test for each row that the table's Markdown does not have.
func wantRows(t *testing.T, table *table, rows ...string) {
	t.Helper()
	text := table.markdown()
	for _, row := range rows {
		if !strings.Contains(text, "\n"+row+"\n") {
			t.Errorf("no row %q in:\n%s", row, text)
		}
	}
}

func TestMarkdown(t *testing.T) {
	wantRows(t, &table{Title: "T", Header: []string{"a", "b"}, Rows: [][]string{{"1", "2|3"}, {"skipped"}}},
		"| a | b |", "| --- | --- |", "| 1 | 2/3 |", "| skipped |  |")
}

func TestPerTrip(t *testing.T) {
	first := reading{answers: 1000, cpu: child.CPU{Total: time.Second}}
	last := reading{answers: 3000, cpu: child.CPU{Total: time.Second + 50*time.Millisecond}}
	got, err := perTrip(first, last)
	if err != nil {
		t.Fatal(err)
	}
	if got.Micros != 25 || got.Trips != 2000 {
		t.Errorf("50 ms for 2000 round trips are %v µs for each of %d, want 25", got.Micros, got.Trips)
	}
	if _, err := perTrip(last, last); err == nil {
		t.Error("nothing was answered, which is no error")
	}
}

func TestCPUTable(t *testing.T) {
	var runs []cpuRun
	for profile, micros := range map[string][]float64{"echo": {20, 40, 30}, "vosk": {21, 40, 33}, "funasr-reused": {30, 30, 30}} {
		for round, m := range micros {
			runs = append(runs, cpuRun{Profile: profile, Round: round, Micros: m, Trips: 10, Others: 0.25})
		}
	}
	wantRows(t, cpuTable(runs, options{rounds: 3}),
		"| echo | 30.0 (20.0 - 40.0) | 1.000 (1.000 - 1.000) | 30 | 0.25 (0.25 - 0.25) |",
		"| vosk | 33.0 (21.0 - 40.0) | 1.050 (1.000 - 1.100) | 30 | 0.25 (0.25 - 0.25) |", // not 33/30
		"| funasr-reused | 30.0 (30.0 - 30.0) | 1.000 (0.750 - 1.500) | 30 | 0.25 (0.25 - 0.25) |")
}

func TestIdleTable(t *testing.T) {
	wantRows(t, idleTable([]idleRow{{
		Profile: "watson", Client: ends, Latency: 20, Settle: 100, Answers: []float64{19, 20, 40}, Returns: []float64{150, 126, 100},
	}}, options{rounds: 1}),
		"| watson | 20 | 20.00 | 100 | "+string(ends)+" | 126.00 | 150.00 | 6.00 | 1.05 |")
}

func TestJSONHasEveryNumber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "numbers.json")
	if err := writeJSON(file, []*table{{Name: "idle", Numbers: []idleRow{{Profile: "x", Returns: []float64{1, 2}}}}}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tables []struct {
			Name    string
			Numbers []struct {
				Returns []float64 `json:"returns_ms"`
			}
		}
	}
	if err := json.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Tables) != 1 || got.Tables[0].Name != "idle" || len(got.Tables[0].Numbers) != 1 || len(got.Tables[0].Numbers[0].Returns) != 2 {
		t.Errorf("numbers are missing in %s", written)
	}
}
