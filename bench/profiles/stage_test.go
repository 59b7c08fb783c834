//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/bench/results"
	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// No client outlives a test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestProfilesReuse checks that the measured profiles reuse connections, with the subprotocol that clients ask for.
func TestProfilesReuse(t *testing.T) {
	subprotocols := map[string]string{}
	for _, d := range measured(t) {
		subprotocols[d.profile] = d.Subprotocol()
	}
	for name, subprotocol := range subprotocols {
		p, err := app.FindProfile(name, []string{"accepting.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		if p.Reuse == profile.OneShot || p.Subprotocol != subprotocol {
			t.Errorf("%s: reuse %v (%s), subprotocol %q, want %q", name, p.Reuse, p.Reason, p.Subprotocol, subprotocol)
		}
	}
}

// built prepares the programs for a test.
func built(t *testing.T) *programs {
	t.Helper()
	p, err := prepare(t.Context(), options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remove)
	return p
}

func measured(t *testing.T) []dialogue {
	t.Helper()
	all, err := dialogues()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReturns measures a few sessions of each dialogue.
func TestReturns(t *testing.T) {
	p := built(t)
	const latency, sessions = time.Millisecond, 2
	all := measured(t)
	for i := range all {
		d := &all[i]
		rows, err := p.returns(t.Context(), d, latency, sessions)
		if err != nil {
			t.Errorf("%s: %v", d.profile, err)
			continue
		}
		if len(rows) != len(d.manners) {
			t.Errorf("%s: %d rows for %d manners", d.profile, len(rows), len(d.manners))
		}
		for _, r := range rows {
			if len(r.Returns) != sessions || len(r.Answers) != sessions || results.Quantile(r.Answers, 0) < milliseconds(latency) {
				t.Errorf("%s: a server with a latency of %v is said to answer after %v ms, connections to return after %v",
					d.profile, latency, r.Answers, r.Returns)
			}
		}
	}
}

// TestDialedAgainIsNoReturn checks that a connection that was dialed again does not count as reused.
func TestDialedAgainIsNoReturn(t *testing.T) {
	p := built(t)
	d := measured(t)[0]
	d.profile = "one-shot"
	d.manners = []manner{leaves}
	rows, err := p.returns(t.Context(), &d, time.Millisecond, 2)
	if err == nil || !strings.Contains(err.Error(), "not used again") {
		t.Errorf("one-shot connections returned after %v (%v)", rows, err)
	}
}
