package kit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Races are found in the logs of all processes, however deep they are.
func TestRaces(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("good/log", "level=WARN msg=\"no data race\"\n")
	if err := Races(directory); err != nil {
		t.Errorf("without a report: %v", err)
	}
	bad := write("bad/log", "level=INFO\n==================\nWARNING: DATA RACE\nRead at 0x1 by goroutine 7:\n")
	if err := Races(directory); err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "good") {
		t.Errorf("with a report in %s: %v", bad, err)
	}
}
