package live

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// TestRatesAndLags follows sessions over samples of two seconds each.
func TestRatesAndLags(t *testing.T) {
	type want struct{ rate, lag float64 }
	for name, samples := range map[string][]struct {
		client, backend uint64
		want            want
	}{
		"both send":            {{10, 10, want{2, 0}}, {14, 14, want{4, 0}}, {18, 18, want{4, 0}}},
		"the backend is mute":  {{10, 10, want{2, 0}}, {14, 10, want{2, 0}}, {18, 10, want{2, 2}}, {22, 10, want{2, 4}}, {26, 11, want{2.5, 0}}},
		"the client waits":     {{10, 10, want{2, 0}}, {11, 10, want{0.5, 0}}, {11, 10, want{0, 2}}, {11, 10, want{0, 4}}, {11, 11, want{0.5, 0}}, {11, 11, want{0, 0}}},
		"nothing is sent":      {{10, 10, want{2, 0}}, {10, 10, want{0, 0}}, {10, 10, want{0, 0}}},
		"only the backend":     {{10, 10, want{2, 0}}, {10, 20, want{5, 0}}, {10, 30, want{5, 0}}},
		"mute from the start":  {{5, 0, want{0.5, 0}}, {9, 0, want{2, 0}}, {13, 0, want{2, 2}}},
		"answers after a long": {{1, 0, want{0.1, 0}}, {2, 0, want{0.5, 0}}, {3, 1, want{1, 0}}, {4, 1, want{0.5, 0}}, {5, 1, want{0.5, 2}}},
	} {
		var r rates
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for i, sample := range samples {
			all := []Session{{Number: 1}, {Number: 2, Session: api.Session{
				FramesFromClient: sample.client, FramesFromBackend: sample.backend, AgeSeconds: 10 + 2*float64(i),
			}}}
			r.measure(at, all)
			if got := (want{all[1].FramesPerSecond, all[1].LagSeconds}); got != sample.want {
				t.Errorf("%s, sample %d: got %+v; want %+v", name, i, got, sample.want)
			}
			at = at.Add(2 * time.Second)
		}
	}
}

// A session that has just begun has no huge rate.
func TestRateOfNewcomer(t *testing.T) {
	var r rates
	all := []Session{{Number: 1, Session: api.Session{FramesFromClient: 8, FramesFromBackend: 2, AgeSeconds: 0.01}}}
	if r.measure(time.Now(), all); all[0].FramesPerSecond != 10 {
		t.Errorf("got %v frames/s; want the 10 of its first second so far", all[0].FramesPerSecond)
	}
}

// TestRatesForget: what is remembered of sessions ends with them.
func TestRatesForget(t *testing.T) {
	var r rates
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 50 {
		at = at.Add(time.Second)
		n := uint64(i % 26)
		r.measure(at, []Session{{Number: n}, {Number: n + 1}})
		if len(r.sessions) != 2 || r.sessions[n] == nil || r.sessions[n+1] == nil {
			t.Fatalf("%d sessions are remembered after sample %d", len(r.sessions), i)
		}
	}
}
