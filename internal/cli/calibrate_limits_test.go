package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// What the proxy shows in a step decides whether it kept streams from the server: not what was before the step, nor what is when it has ended.
func TestProxyLimits(t *testing.T) {
	places := func(limit, ceiling int) api.Stats {
		b := leased("gpu-1", "enabled", 0)
		b.Places, b.Limit, b.Ceiling, b.Cap = new(api.Places), limit, ceiling, 50
		return backends(b, leased("gpu-2", "enabled", 0))
	}
	reached := func(n uint64) api.Stats {
		now := places(50, 50)
		now.Limits.Totals = []api.LimitTotal{{Limit: "session-rate", Scope: "process", Count: n}, {Limit: "session-rate", Scope: "service", Count: 2 * n}}
		return now
	}
	short := places(50, 50)
	short.Shortages = []string{"no descriptor"}
	for _, c := range []struct {
		what    string
		says    string // empty for nothing
		streams int
		answers []any // one before the step
	}{
		{"all places, which others get again when the streams have ended", "", 50, []any{places(22, 50), places(32, 50), places(50, 50), places(22, 50)}},
		{"too few places", "may have only 32 of its 50 connections", 50, []any{places(50, 50), places(22, 50), places(32, 50), places(22, 50)}},
		{"enough places for fewer streams", "", 32, []any{places(22, 50), places(22, 50), places(32, 50), places(22, 50)}},
		{"all places of a server that is full", "", 50, []any{places(22, 50), places(32, 50), places(30, 30)}},
		{"too few places of a server that was full", "may have only 22 of its 50 connections", 50, []any{places(10, 10), places(10, 10), places(22, 50)}},
		{"a shortage in the step", "lacks resources: no descriptor", 50, []any{places(50, 50), short, places(50, 50)}},
		{"a shortage before the step", "", 50, []any{short, places(50, 50), places(50, 50)}},
		{"a limit in the step", "reached the proxy's total-session-rate", 50, []any{reached(7), reached(8), reached(8)}},
		{"a limit before the step", "", 50, []any{reached(8), reached(8), reached(8)}},
		{"no answer in the step", "no answer", 50, []any{places(50, 50), errors.New("no answer"), places(50, 50)}},
	} {
		l := &proxyLimits{proxy: &playedProxy{answers: c.answers}, backend: "gpu-1"}
		l.begin(t.Context())
		for range c.answers[1:] {
			l.look(t.Context())
		}
		if err := l.kept(t.Context(), c.streams); (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
