package faults

import (
	"testing"
	"time"
)

// TestBandwidth lets 40 kB pass each second on each connection to and from a server. Some clients begin with a message that
// takes longer than a ping may, and the pings wait behind it: a server that is slow is not taken for a dead one.
func TestBandwidth(t *testing.T) {
	const rate = 40 // bytes per millisecond
	r := newRig(t, "echo", func(r *rig) { r.settings.PingTimeout = (1 + slack()) * time.Second })
	slow := r.victim().poison("bandwidth", `"rate": 40`, upstream, downstream)
	begun := time.Now()
	silence := r.settings.PingInterval + r.settings.PingTimeout
	heavy := r.crowd.arrive(30, int(silence.Milliseconds()*rate*5/4)) // the first to come, so that each server gets ten
	r.crowd.join(sessions - len(heavy))
	r.crowd.greet(heavy...)
	if took := time.Since(begun); took < silence {
		t.Errorf("all messages were back after %v: this test has shown nothing", took)
	}
	slow.heal()
	r.crowd.exchange(1, r.crowd.present()...)
	r.settle()
	r.checkAllWell()
	r.checkUnharmed(0, 1, 2)
}
