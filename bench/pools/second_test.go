//go:build linux

package main

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"
)

// How the second design fails.

// A connection's server hangs: it is open, and pings can be written, but nothing comes back.
func keepsSilent(r *rig) error {
	c := r.silenceOne()
	time.Sleep(3*checkInterval + pingTimeout)

	all := r.leaseAll()
	defer r.endAll(all)
	if slices.Contains(all, c) {
		return fmt.Errorf("a connection that did not answer for %v can be leased", 3*checkInterval)
	}
	return nil
}

// All connections end, and the next moment one is leased.
func leasesDead(r *rig) error {
	r.network.Break()
	synctest.Wait()

	all := r.leaseAll()
	defer r.endAll(all)
	dead := 0
	for _, c := range all {
		if !c.Alive() {
			dead++
		}
	}
	if dead > 0 {
		return fmt.Errorf("%d of the %d connections leased were dead", dead, len(all))
	}
	return nil
}

// All connections are leased when the size is halved. Half of them come back, so that what is still leased is all that may
// be there.
func overshoots(r *rig) error {
	all := r.leaseAll()
	half := r.size / 2
	r.pool.Resize(half)
	synctest.Wait() // whoever looks after the size finds nothing to close yet
	r.endAll(all[half:])
	synctest.Wait()
	defer r.endAll(all[:half])
	if n := r.network.Open(); n > half {
		return fmt.Errorf("the server has %d connections open, of %d: %+v", n, half, r.pool.Stats())
	}
	return nil
}

// All connections are leased when somebody looks at the statistics. If that takes the pool to a connection, they are all
// returned at that moment.
func miscounts(r *rig) error {
	all := r.leaseAll()
	asked := false
	for _, c := range all {
		c.Asked = func() {
			if !asked {
				asked = true
				r.endAll(all)
			}
		}
	}
	s := r.pool.Stats()
	for _, c := range all {
		c.Asked = nil
	}
	if !asked {
		r.endAll(all)
	}
	if s.idle+s.leased != r.size {
		return fmt.Errorf("the statistics are %+v, of %d", s, r.size)
	}
	return nil
}
