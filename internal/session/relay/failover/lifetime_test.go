package failover

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A session leaves in time for its replay, after a wait for an answered point, and not when others do that began with it.
func TestAging(t *testing.T) {
	began := loop.Instant(time.Hour)
	for limit, want := range map[time.Duration]struct{ margin, wait time.Duration }{
		2 * time.Second:  {100 * time.Millisecond, 200 * time.Millisecond},
		10 * time.Minute: {30 * time.Second, 20 * time.Second},
		time.Hour:        {time.Minute, 20 * time.Second},
		48 * time.Hour:   {time.Minute, 20 * time.Second},
	} {
		latest, earliest := Aging(began, limit, 0), Aging(began, limit, 1)
		if by := began.After(limit - want.margin); latest != (Lifetime{meter.Aged, by.After(-want.wait), by}) {
			t.Errorf("%v: the latest is %+v", limit, latest)
		}
		if spread := time.Duration(latest.By - earliest.By); spread != limit/10 || latest.From-earliest.From != latest.By-earliest.By {
			t.Errorf("%v: the earliest is %+v, the latest %+v", limit, earliest, latest)
		}
		if retry := latest.Retry(); retry != want.wait/4 {
			t.Errorf("%v: tries again after %v", limit, retry)
		}
	}
}

// A session that its server tells to leave looks for another connection immediately, and waits for an answered point for some seconds.
func TestAnnounced(t *testing.T) {
	now := loop.Instant(time.Hour)
	for random, wait := range map[float64]time.Duration{0: 10 * time.Second, 0.5: 7500 * time.Millisecond, 1: 5 * time.Second} {
		if l := Announced(now, random); l != (Lifetime{meter.GoAway, now, now.After(wait)}) {
			t.Errorf("%+v", l)
		}
	}
	if retry := (Lifetime{}).Retry(); retry <= 0 {
		t.Errorf("tries again after %v", retry)
	}
}
