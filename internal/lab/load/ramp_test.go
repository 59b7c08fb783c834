package load

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// dialTimes returns when connectAll dials its clients, and since when each counts its time.
func dialTimes(t *testing.T, o Options, clients int, takes time.Duration) (times, began []time.Duration) {
	r := &run{Options: o, stage: &stage{epoch: time.Now()}}
	if o.DialParallel > 0 {
		r.slots = make(chan struct{}, o.DialParallel)
	}
	all := make([]*client, clients)
	for i := range all {
		all[i] = &client{id: uint32(i)}
	}
	times, began = make([]time.Duration, clients), make([]time.Duration, clients)
	var mu sync.Mutex
	r.connectAll(t.Context(), all, func(_ context.Context, c *client) {
		mu.Lock()
		times[c.id], began[c.id] = time.Since(r.epoch), time.Duration(c.began)
		mu.Unlock()
		time.Sleep(takes) // by the bubble's clock
	})
	r.first.Wait()
	return times, began
}

func TestRampSpreadsClientsOverItsTime(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		ramp     time.Duration
		parallel int
		want     []time.Duration
	}{
		{0, 0, []time.Duration{0, 0, 0, 0, 0}},
		{10 * s, 0, []time.Duration{0, 2 * s, 4 * s, 6 * s, 8 * s}},
		{0, 1, []time.Duration{0, 3 * s, 6 * s, 9 * s, 12 * s}},
		{10 * s, 1, []time.Duration{0, 3 * s, 6 * s, 9 * s, 12 * s}},
		{20 * s, 1, []time.Duration{0, 4 * s, 8 * s, 12 * s, 16 * s}},
		{0, 2, []time.Duration{0, 0, 3 * s, 3 * s, 6 * s}},
	} {
		synctest.Test(t, func(t *testing.T) {
			times, began := dialTimes(t, Options{Ramp: c.ramp, DialParallel: c.parallel}, len(c.want), 3*s)
			if !slices.Equal(times, c.want) || !slices.Equal(began, c.want) {
				t.Errorf("ramp %s, %d at a time: dialled at %v, counted from %v; want %v", c.ramp, c.parallel, times, began, c.want)
			}
		})
	}
}
