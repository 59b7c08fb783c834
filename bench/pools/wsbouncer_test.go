//go:build linux

package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// onOurs calls f with a full pool of wsbouncer's on a fake clock, and closes it afterwards.
func onOurs(t *testing.T, f func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(designs[2])
		f(r)
		r.pool.Close()
		if n := r.network.Open(); n > 0 {
			t.Errorf("%d connections are open after the end", n)
		}
	})
}

// Connections that end are replaced at once, all at the same time.
func TestReplacesLost(t *testing.T) {
	onOurs(t, func(r *rig) {
		r.network.Break()
		time.Sleep(roundTrip)
		synctest.Wait()
		if s := r.pool.Stats(); s.idle != r.size {
			t.Errorf("%+v after one round trip; want %d idle", s, r.size)
		}
		if n := r.network.Most(); n != r.size {
			t.Errorf("the server had %d connections open, of %d", n, r.size)
		}
	})
}

// A connection whose server hangs while it is leased is retired when the lease ends.
func TestRetiresSilentAfterLease(t *testing.T) {
	onOurs(t, func(r *rig) {
		c, _ := r.pool.Lease()
		c.Silence(true)
		time.Sleep(checkInterval + pingTimeout)
		if !c.Alive() {
			t.Error("the connection was closed while it was leased")
		}
		r.pool.Return(c)
		if c.Alive() {
			t.Error("the connection was not closed when it was returned")
		}
	})
}

// A size that was lowered and raised again is reached each time.
func TestResizes(t *testing.T) {
	onOurs(t, func(r *rig) {
		for _, size := range []int{1, 3, 2, r.size} {
			r.pool.Resize(size)
			time.Sleep(time.Second)
			if s := r.pool.Stats(); s.idle != size || r.network.Open() != size {
				t.Errorf("%+v, %d open; want %d", s, r.network.Open(), size)
			}
		}
	})
}
