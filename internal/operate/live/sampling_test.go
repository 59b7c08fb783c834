package live

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// TestRates follows sessions over samples of two seconds each.
func TestRates(t *testing.T) {
	for name, samples := range map[string][]struct {
		client, backend uint64
		want            float64
	}{
		"both send":        {{10, 10, 2}, {14, 14, 4}, {18, 18, 4}},
		"the client only":  {{10, 10, 2}, {11, 10, 0.5}, {11, 10, 0}, {11, 11, 0.5}},
		"nothing is sent":  {{10, 10, 2}, {10, 10, 0}, {10, 10, 0}},
		"only the backend": {{10, 10, 2}, {10, 20, 5}, {10, 30, 5}},
	} {
		var r rates
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for i, sample := range samples {
			all := []Session{{Number: 1}, {Number: 2, Session: api.Session{
				FramesFromClient: sample.client, FramesFromBackend: sample.backend, AgeSeconds: 10 + 2*float64(i),
			}}}
			if r.measure(at, all); all[1].FramesPerSecond != sample.want {
				t.Errorf("%s, sample %d: got %v; want %v", name, i, all[1].FramesPerSecond, sample.want)
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

// The time in the queue is not a part of a session's rate, whether it was over before the first sample or between two.
func TestRateAfterWaiting(t *testing.T) {
	var r rates
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := []Session{
		{Number: 1, Session: api.Session{FramesFromClient: 33, FramesFromBackend: 30, AgeSeconds: 9, WaitedSeconds: 5.8}},
		{Number: 2, Session: api.Session{State: api.StateWaiting, AgeSeconds: 4, WaitedSeconds: 4}},
	}
	if r.measure(at, all); all[0].FramesPerSecond < 19 || all[0].FramesPerSecond > 20 || all[1].FramesPerSecond != 0 {
		t.Errorf("%v and %v frames/s; want 63 in 3.2 s, and 0 while it waits", all[0].FramesPerSecond, all[1].FramesPerSecond)
	}
	all[1].Session = api.Session{State: api.StateRelaying, FramesFromClient: 25, AgeSeconds: 6, WaitedSeconds: 4.75}
	if r.measure(at.Add(2*time.Second), all); all[1].FramesPerSecond != 20 {
		t.Errorf("%v frames/s; want 25 in 1.25 s", all[1].FramesPerSecond)
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
