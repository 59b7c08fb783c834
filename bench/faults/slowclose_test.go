package faults

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestSlowClose has a server's connections end ten seconds late. With the one-shot profile each session ends one, and its place
// must be free again once the time for closing is over.
func TestSlowClose(t *testing.T) {
	r := newRig(t, "one-shot")
	r.crowd.join(sessions)
	slow := r.victim().poison("slow_close", `"delay": 10000`, upstream, downstream)
	for range 2 {
		r.crowd.leave(r.crowd.present()...)
		begun := time.Now()
		wstest.Eventually(t, "the slots are back", func() bool { return r.backend(0).Leased == 0 && r.full(0) })
		took := time.Since(begun)
		t.Logf("the slots were back after %v", took.Round(time.Millisecond))
		if limit := r.settings.CloseTimeout + slack()*time.Second; took > limit {
			t.Errorf("the slots were back %v after the last client had left, want %v at most", took, limit)
		}
		r.crowd.join(sessions)
	}
	slow.heal()
	r.crowd.exchange(1, r.crowd.present()...)
	r.settle()
	r.checkAllWell()
	r.checkUnharmed(0, 1, 2)
	if _, retiring := r.watch.seen(); retiring == 0 {
		t.Error("no connection was slow to close: this test has shown nothing")
	}
}
