package settings

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Durations are logged as seconds, with the unit in the key, whatever the format and wherever they were given.
func TestDurationsInSeconds(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log := NewLog(&out, &Settings{LogLevel: "info", LogFormat: format})
		log.With("timeout", 90*time.Second).Info("x", "waited", 1500*time.Millisecond, "lasted", 3780*time.Millisecond,
			slog.Group("of", slog.Duration("after", 1234567*time.Nanosecond)), "sessions", 3)
		line := out.String()
		if format == "text" {
			if want := "timeout_seconds=90 waited_seconds=1.5 lasted_seconds=3.78 of.after_seconds=0.001235 sessions=3\n"; !strings.HasSuffix(line, want) {
				t.Errorf("%s; want %s at the end", line, want)
			}
			continue
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		of, _ := got["of"].(map[string]any)
		if got["timeout_seconds"] != 90.0 || got["waited_seconds"] != 1.5 || got["lasted_seconds"] != 3.78 || of["after_seconds"] != 0.001235 ||
			got["sessions"] != 3.0 || strings.Contains(line, `"waited"`) {
			t.Errorf("%s", line)
		}
	}
}
