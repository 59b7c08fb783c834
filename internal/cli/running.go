package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// running returns the statistics of the proxy; nil if none is known. If it cannot read them, it writes why to messages, since a list
// is useful without them.
func (t *target) running(ctx context.Context, messages io.Writer) *api.Stats {
	if t.proxy == nil {
		return nil
	}
	r := new(api.Stats)
	if err := t.proxy.API().Get(ctx, api.StatsPath, nil, r); err != nil {
		fmt.Fprintf(messages, "The present state of the proxy is not shown: %v\n", err)
		return nil
	}
	diagnosis.DescribeOlder(r)
	if r.Fleet != nil {
		sayMissing(messages, r.Fleet.Missing)
	}
	return r
}

// sayMissing says which proxies are not in what a fleet has answered.
func sayMissing(messages io.Writer, missing []api.MissingProxy) {
	for i := range missing {
		fmt.Fprintf(messages, "Not included: %s\n", &missing[i])
	}
}

// hasServices reports whether there are statistics of services.
func hasServices(now *api.Stats) bool { return now != nil && len(now.Services) > 0 }

// hasBackends reports whether there are statistics of backends.
func hasBackends(now *api.Stats) bool { return now != nil && len(now.Backends) > 0 }

// backendForPrograms returns the state of a backend for JSON; nil if it is not known.
func backendForPrograms(b *api.Backend) map[string]any {
	if b == nil {
		return nil
	}
	condition := b.Condition
	all := map[string]any{
		"dialing": b.Dialing, "idle": b.Idle, "leased": b.Leased, "resetting": b.Resetting, "retiring": b.Retiring, "health": condition.Word,
	}
	if condition.Why != "" {
		all["trouble"] = condition.Why
	}
	return all
}

// ceilingOf returns what a backend's connections are limited to below its cap, and why; empty for nothing.
func ceilingOf(b *api.Backend) string {
	if b.CeilingCause == "" {
		return ""
	}
	why := cmp.Or(b.CeilingReason, "the server said that it is full")
	return fmt.Sprintf("%d of %d since %s: %s", b.Ceiling, b.Cap, clock(b.CeilingSince), why)
}

// backendNow returns the state of a backend for a table.
func backendNow(b *api.Backend) [][]string {
	condition := b.Condition
	health := condition.Word
	if condition.Why != "" {
		health += ": " + condition.Why
	}
	rows := [][]string{{"health", health}}
	for _, c := range []struct {
		what string
		n    int
	}{{"dialing", b.Dialing}, {"idle", b.Idle}, {"leased", b.Leased}, {"resetting", b.Resetting}, {"retiring", b.Retiring}} {
		rows = append(rows, []string{c.what, strconv.Itoa(c.n)})
	}
	for _, c := range [][]string{
		{"ceiling", ceilingOf(b)},
		{"published", diagnosis.Published(b, time.Now())},
		{"lag", measuredSeconds(b.LagSeconds)},
		{"lateness", measuredSeconds(b.LatenessSeconds)},
		{"stalls", countOf(int(b.Stalls))},
		{"sessions moved", countOf(int(b.Moved))},
		{"sessions not moved", countOf(int(b.NotMoved))},
		{"canary", canaryOf(b)},
	} {
		if c[1] != "" {
			rows = append(rows, c)
		}
	}
	return rows
}
