package faults

import "testing"

// TestLatency puts 100 ms, give or take 50, on each way to and from a server. Sessions begin and end meanwhile, some with an
// answer still to come, which must reach no client. Nothing breaks, and no connection is given up.
func TestLatency(t *testing.T) {
	r := newRig(t, "echo")
	r.crowd.join(sessions)
	slow := r.victim().poison("latency", `"latency": 100, "jitter": 50`, upstream, downstream)
	r.crowd.exchange(2, r.crowd.present()...)
	for range 3 {
		r.crowd.leaveAbruptly(r.crowd.present()[:50]...)
		r.crowd.join(50)
	}
	r.crowd.exchange(1, r.crowd.present()...)
	slow.heal()
	r.crowd.exchange(1, r.crowd.present()...)
	r.settle()
	r.checkAllWell()
	r.checkUnharmed(0, 1, 2)
	if resetting, _ := r.watch.seen(); resetting == 0 {
		t.Error("no answer was late: this test has shown nothing")
	}
}
