//go:build linux

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/bench/pools/network"
)

// No goroutine of a pool may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	roundTrip     = 5 * time.Millisecond
	checkInterval = 10 * time.Second
	pingTimeout   = time.Second
	dialTimeout   = time.Second
)

// check is a way in which pools fail.
type check struct {
	name string
	// run uses a full pool of rig's size on a fake clock, ends all its leases, and returns how the pool has failed.
	run func(*rig) error
	// fails names the designs that do. That they do shows that the check can.
	fails []string
}

// TestFailures holds each design against each way to fail: ours must not, and the others must where it is said.
func TestFailures(t *testing.T) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, d := range designs {
				t.Run(d.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						expect(t, c, d)
					})
				})
			}
		})
	}
}

func expect(t *testing.T, c check, d design) {
	t.Helper()
	r := newRig(d)
	err := c.run(r)
	r.pool.Close()
	if n := r.network.Open(); n > 0 {
		t.Errorf("%d connections are open after the end", n)
	}
	expected := false
	for _, name := range c.fails {
		expected = expected || name == d.name
	}
	switch {
	case err == nil && expected:
		t.Errorf("passes; it must fail, or else the check shows nothing")
	case err != nil && !expected:
		t.Error(err)
	case err != nil:
		t.Logf("fails as it must: %v", err)
	}
}

// rig is a full pool on a fake clock.
type rig struct {
	network *network.Network
	pool    connPool
	size    int
}

func newRig(d design) *rig {
	r := &rig{network: network.New(roundTrip), size: 4}
	s := settings{
		network: r.network, size: r.size,
		checkInterval: checkInterval, pingTimeout: pingTimeout, dialTimeout: dialTimeout,
	}
	if d.name == "naivepool" {
		r.pool = newLockedNaivePool(s, make(chanLock, 1)) // see there
	} else {
		r.pool = d.begin(s)
	}
	time.Sleep(time.Second)
	return r
}

// leaseAll leases what can be leased.
func (r *rig) leaseAll() (all []*network.Conn) {
	for {
		c, ok := r.pool.Lease()
		if !ok {
			return all
		}
		all = append(all, c)
	}
}

// endAll ends leases.
func (r *rig) endAll(all []*network.Conn) {
	for _, c := range all {
		giveBack(r.pool, c)
	}
}

// silenceOne makes an idle connection's server deaf to pings.
func (r *rig) silenceOne() *network.Conn {
	c, _ := r.pool.Lease()
	c.Silence(true)
	r.pool.Return(c)
	return c
}

// chanLock is a lock that leaves the fake clock going while somebody waits for it.
type chanLock chan struct{}

func (l chanLock) Lock()   { l <- struct{}{} }
func (l chanLock) Unlock() { <-l }

var checks = []check{
	// Of the first design.
	{"more than the size after a missed pong", driftsPastSize, []string{"naivepool"}},
	{"places lost or doubled by ending a lease twice", endsTwice, []string{"naivepool"}},
	{"stands still while a ping is slow", starves, []string{"naivepool"}},
	{"places lost by failed dials", leaksPlaces, []string{"naivepool"}},

	// Of the second.
	{"a server that hangs is not noticed", keepsSilent, []string{"channelpool"}},
	{"a dead connection is leased", leasesDead, []string{"naivepool", "channelpool"}},
	{"more than the size after it was lowered", overshoots, []string{"channelpool"}},
	{"statistics contradict themselves", miscounts, []string{"channelpool"}},
}
