package fleet

import (
	"testing"
	"time"
)

func TestDemandMovesPlaces(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(16).needs(4, 0, 4)
	b := r.join(HolderOptions{ID: "b"}).cap(16).needs(0, 0, 4)
	a.exchange()
	b.exchange()
	r.expect("b has asked", map[ID]int{"a": 16, "b": 0})
	a.exchange()
	r.expect("a has heard of it", map[ID]int{"a": 7, "b": 0})
	a.exchange()
	b.exchange()
	r.expect("all but the reserve is divided", map[ID]int{"a": 7, "b": 7})

	b.needs(7, 10, 10)
	b.exchange()
	r.expect("b has needed more, and got what was in reserve", map[ID]int{"a": 7, "b": 9})
	a.exchange()
	a.exchange()
	b.exchange()
	r.expect("b has needed more, and got one in advance", map[ID]int{"a": 4, "b": 11})

	// b's sessions end only one by one.
	a.needs(4, 6, 6)
	b.needs(11, 20, 20)
	b.exchange()
	a.exchange()
	r.expect("b has taken the last one before a", map[ID]int{"a": 4, "b": 12})
	b.exchange()
	r.expect("b is to have no more than half", map[ID]int{"a": 4, "b": 10})
	a.needs(4, 9, 9)
	a.exchange()
	b.needs(11, 20, 20).exchange()
	r.expect("half is fair", map[ID]int{"a": 4, "b": 8})
	b.needs(9, 20, 20).exchange()
	a.exchange()
	r.expect("two of b's sessions have ended", map[ID]int{"a": 7, "b": 8})
	if sum := r.ledger.Accounts["s"].Granted(); sum > 16 {
		t.Errorf("%d places of 16 are granted", sum)
	}
}

// TestReserve grows from the reserve in one exchange, of which nobody else hears, and gives back when the reserve runs low.
func TestReserve(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(32).needs(5, 5, 32)
	b := r.join(HolderOptions{ID: "b"}).cap(32).needs(5, 5, 32)
	for range 3 {
		a.exchange()
		b.exchange()
	}
	r.expect("all but an eighth are divided", map[ID]int{"a": 14, "b": 14})
	version := r.ledger.Version
	a.needs(14, 15, 32).exchange()
	r.expect("a has grown, and got one in advance", map[ID]int{"a": 16, "b": 14})
	if r.ledger.Version != version {
		t.Error("b has to hear of it, although half of the reserve is left")
	}
	a.needs(5, 5, 32).exchange()
	a.exchange()
	r.expect("there is enough in reserve", map[ID]int{"a": 16, "b": 14})
	b.needs(14, 15, 32).exchange()
	if r.ledger.Version == version {
		t.Error("a does not hear that the reserve runs low")
	}
	a.exchange()
	a.exchange()
	r.expect("a has given back what it does not need", map[ID]int{"a": 13, "b": 15})
}

func TestDue(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(4).needs(4, 0, 0)
	b := r.join(HolderOptions{ID: "b"}).cap(4)
	due := func(p *played) bool {
		r.now += Instant(soonest)
		for server, u := range p.usage {
			p.h.Use(server, u)
		}
		return p.h.Due(r.now)
	}
	if due(a); !a.h.needsFull {
		t.Fatal("the first report is not whole")
	}
	a.exchange()
	b.exchange()
	if due(a) || due(b) {
		t.Error("an exchange is due without need")
	}
	b.needs(0, 1, 1)
	if !due(b) {
		t.Error("b needs a place, and no exchange is due")
	}
	b.exchange()
	if due(b) {
		t.Error("b has said that it needs a place, and another exchange is due")
	}
	a.exchange()
	if due(a) {
		t.Error("a still has four connections, and an exchange is due")
	}
	if a.needs(3, 0, 0); !due(a) {
		t.Error("a has closed a connection, and no exchange is due")
	}
	a.exchange()
	b.exchange()
	r.expect("the place has moved, and a gives back another", map[ID]int{"a": 2, "b": 1})
}

// A proxy whose clients wait for long writes when they have waited twice as long, or when they become many more or fewer.
func TestWaitingWritesLittle(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(16).needs(8, 40, 40)
	b := r.join(HolderOptions{ID: "b"}).cap(16).needs(8, 40, 40)
	for range 4 {
		a.exchange()
		b.exchange()
	}
	r.expect("both need all places", map[ID]int{"a": 8, "b": 8})
	told := 0
	for second := range 64 {
		r.now += Instant(time.Second)
		a.usage["s"] = Usage{Cap: 16, Used: 8, Needs: 40 + second%4, Waiting: 32 + second%4, Wants: 40 + second%4, Waited: second}
		a.h.Use("s", a.usage["s"])
		due := a.h.Due(r.now)
		report := a.report()
		a.h.Answered(report, r.exchange(report), r.now, r.now)
		if !report.Quiet() {
			told++
		}
		if due {
			t.Errorf("after %d s, an exchange is due", second)
		}
	}
	if told != 6 { // after 1, 2, 4, 8, 16 and 32 s
		t.Errorf("the ledger was told %d times", told)
	}
	for _, c := range []struct {
		needs int
		told  bool
	}{{44, false}, {50, true}, {47, false}, {40, true}} {
		r.now += Instant(time.Second)
		a.usage["s"] = Usage{Cap: 16, Used: 8, Needs: c.needs, Waiting: c.needs - 8, Wants: c.needs, Waited: 63}
		a.h.Use("s", a.usage["s"])
		due := a.h.Due(r.now)
		report := a.report()
		a.h.Answered(report, r.exchange(report), r.now, r.now)
		if !report.Quiet() != c.told {
			t.Errorf("with %d needs: %+v", c.needs, report.Claims)
		}
		if due && !c.told {
			t.Errorf("with %d needs, an exchange is due that says nothing", c.needs)
		}
	}
}

// A proxy that would like to keep more warm than it has tells how much it needs, too.
func TestNeedsAreTold(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(16).needs(0, 0, 16)
	b := r.join(HolderOptions{ID: "b"}).cap(16).needs(0, 0, 16)
	for range 3 {
		a.exchange()
		b.exchange()
	}
	a.needs(7, 6, 16).exchange()
	if got := r.ledger.Accounts["s"].Grants[0].Claim.Needs; got != 6 {
		t.Errorf("the ledger hears of %d of 6 sessions", got)
	}
}
