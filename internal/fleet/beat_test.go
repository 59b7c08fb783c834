package fleet

import (
	"fmt"
	"testing"
	"time"
)

// TestBeat: in a crowd that is told of changes, proxies make half as many exchanges, unless an epoch has just begun.
func TestBeat(t *testing.T) {
	r := newRig(t)
	var all []*played
	round := func() {
		for _, p := range all {
			p.exchange()
		}
		r.now += Instant(HeartbeatInterval)
	}
	expect := func(what string, tells bool, want time.Duration) {
		t.Helper()
		if got := all[0].h.HeartbeatInterval(tells); got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	for i := range crowd {
		all = append(all, r.join(HolderOptions{ID: ID(fmt.Sprintf("%02d", i))}).cap(8).needs(0, 0, 0))
	}
	round()
	round()
	expect("few enough", true, HeartbeatInterval)
	all = append(all, r.join(HolderOptions{ID: "last"}).cap(8).needs(0, 0, 0))
	round()
	round()
	expect("a crowd", true, SlowHeartbeatInterval)
	expect("a crowd that is not told", false, HeartbeatInterval)
	r.identity++
	round()
	expect("the database is another", true, HeartbeatInterval)
	for range 10 {
		round()
	}
	expect("the epoch has settled", true, SlowHeartbeatInterval)
}

// TestLate: who is not late makes an exchange before it is suspected, and who is late can be looked at twice before it would be free too late.
func TestLate(t *testing.T) {
	for members, beat := range map[int]time.Duration{2: HeartbeatInterval, crowd: HeartbeatInterval, crowd + 1: SlowHeartbeatInterval, 1000: SlowHeartbeatInterval} {
		if late := Late(members); late <= beat || late >= Unseen || late+beat >= 5*time.Second {
			t.Errorf("%d proxies: %s", members, late)
		}
	}
}
