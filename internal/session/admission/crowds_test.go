package admission

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd of honest clients on a slow machine loses none: handshakes may take longer if all do.
func TestPatienceFollowsHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		var waiting []*opening
		for range 100 { // each takes 400 ms, since eight clients share 50 ms each
			if len(waiting) == 8 {
				waiting[0].leave(true)
				waiting = waiting[1:]
			}
			waiting = append(waiting, l.enter(""))
			time.Sleep(50 * time.Millisecond)
		}
		if _, dropped := l.set.counts(); dropped["oldest"] != 0 {
			t.Errorf("dropped %v", dropped)
		}
	})
}

// A flood of handshakes that never come to their end makes the proxy impatient, and handshakes that do make it patient again: from one
// network that is alone, and from ever new ones.
func TestPatienceFollowsFloods(t *testing.T) {
	for _, networks := range []int{1, 1000} {
		var e experience
		learn := func(ended bool) {
			for i := range 6 * endWeight {
				e.learn(netip.AddrFrom4([4]byte{198, 51, byte(i % networks >> 8), byte(i % networks)}), ended, 20*time.Millisecond)
			}
		}
		if got := e.overall().patience(); got != calmPatience {
			t.Errorf("at first a handshake may take %v", got)
		}
		learn(false)
		if got := e.overall().patience(); got >= 2*minPatience {
			t.Errorf("in a flood a handshake may take %v", got)
		}
		learn(true)
		if got := e.overall().patience(); got < calmPatience*9/10 {
			t.Errorf("after the flood a handshake may take %v", got)
		}
	}
}

// One network changes nothing for the others, whatever its handshakes are like, and no handshake says much.
func TestExperienceIsByNetwork(t *testing.T) {
	honest := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i)) }
	hostile := netip.MustParseAddr("198.51.100.7")
	var e experience
	for i := range 8 * votes {
		e.learn(honest(i%(votes-1)), true, 5*time.Millisecond)
	}
	before := e.overall()
	for range 1000 {
		e.learn(hostile, true, 9300*time.Millisecond)
	}
	if after := e.overall(); after.waited > before.waited+time.Millisecond || after.patience() > calmPatience {
		t.Errorf("slow handshakes of one network: %+v, before %+v", after, before)
	}
	if got := e.of(hostile); got.waited > longestSample || got.patience() > calmPatience {
		t.Errorf("its own: %+v", got)
	}
	for range 1000 {
		e.learn(hostile, false, 0)
	}
	if after := e.overall(); after.ending < 0.9 {
		t.Errorf("dropped handshakes of one network: %+v", after)
	}
	if got := e.of(hostile).ending; got > 0.01 {
		t.Errorf("its own: %v come to their end", got)
	}
	if got := e.of(honest(200)); got != e.overall() {
		t.Errorf("of a new network: %+v", got)
	}
	var alone experience
	alone.learn(hostile, true, 9300*time.Millisecond)
	alone.learn(hostile, true, 9300*time.Millisecond)
	if got := alone.of(hostile); got.waited > usualAtStart*3/2 {
		t.Errorf("after two slow handshakes, %v is usual", got.waited)
	}
}
