//go:build linux

package fleetproof

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// prove runs a short proof with the program as it is.
func prove(t *testing.T, o Options) *Report {
	t.Helper()
	o.Binary = program
	o.Directory, o.Log = t.TempDir(), t.Output()
	o.Slack = 20 * time.Second // other tests run at the same time
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	report, err := Run(ctx, o)
	if errors.Is(err, pgtest.ErrNone) || errors.Is(err, kit.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	return report
}

// Proxies that do not share caps exceed them, and the proof says so.
func TestNotShared(t *testing.T) {
	report := prove(t, Options{Proxies: 2, Caps: []int{8}, Sessions: 50, Duration: time.Second, Arguments: []string{"--fleet", "off"}})
	if len(report.Violations) == 0 || !strings.Contains(report.Violations[0].Text, "server-1: ") {
		t.Errorf("got %+v", report.Violations)
	}
}

// Three proxies keep the caps of two servers, whatever happens to them and to PostgreSQL.
func TestFleet(t *testing.T) {
	report := prove(t, Options{
		Proxies: 3, Caps: []int{8, 20}, Sessions: 150, Once: true, Seed: 1,
		Kinds: []string{"kill", "failover", "lower-cap"},
	})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
}
