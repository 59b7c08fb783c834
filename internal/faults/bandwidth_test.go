package faults

import "testing"

// TestBandwidth lets 100 kB pass each second on each connection to and from a server. Some clients send messages that take
// longer than a ping may, and the pings wait behind them: a server that is slow is not taken for a dead one.
func TestBandwidth(t *testing.T) {
	const rate = 100 // bytes per millisecond
	r := newRig(t, "echo")
	r.crowd.join(sessions - 30)
	slow := r.victim().poison("bandwidth", `"rate": 100`, upstream, downstream)
	silence := r.settings.PingInterval + r.settings.PingTimeout
	r.crowd.arrive(30, int(silence.Milliseconds()*rate*3/2))
	r.crowd.exchange(1, r.crowd.present()...)
	slow.heal()
	r.crowd.exchange(1, r.crowd.present()...)
	r.settle()
	r.checkAllWell()
	r.checkUnharmed(0, 1, 2)
}
