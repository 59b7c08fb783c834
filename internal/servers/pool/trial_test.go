package pool

import "testing"

// A server on trial gets one session at a time, however many clients wait and connections are idle.
func TestTrial(t *testing.T) {
	r := newRig(t, Options{Queue: 5}, capped(5))
	p := r.pools[0]
	p.SetUsable(false)
	p.fill(4)
	first, second, third := r.wait(), r.wait(), r.wait()
	p.SetTrial(true)
	r.waiting(first, second, third)
	p.SetUsable(true)
	r.handed(first)
	r.waiting(second, third)
	if s, ok := p.Reserve(); ok {
		t.Errorf("slot %v is dialed for a client that must wait", s)
	}
	p.SetTrial(true)
	r.handed(second)
	r.waiting(third)
	p.SetTrial(false)
	r.handed(third)
	if _, leased, err := r.Acquire(&Waiter[int]{}); err != nil || !leased {
		t.Errorf("after the trial: leased %v, %v", leased, err)
	}
}
