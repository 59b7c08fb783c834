package fleet

import (
	"fmt"
	"testing"
)

// TestLargeFleet divides a server among many proxies that want all of it: each gets its part, the reserve stays free, and one that needs more
// gets it in one exchange, of which nobody else hears.
func TestLargeFleet(t *testing.T) {
	r := newRig(t)
	const n, part = smallFleet + 2, 7
	var all []*played
	for i := range n {
		all = append(all, r.join(HolderOptions{ID: ID(fmt.Sprintf("%02d", i))}).cap(8*n).needs(part-2, part-2, 8*n))
	}
	round := func() {
		for _, p := range all {
			p.exchange()
		}
		r.now += Instant(HeartbeatInterval)
	}
	for range 20 {
		round()
	}
	for _, p := range all {
		if got := p.h.Limit("s"); got != part {
			t.Errorf("%s has %d places, not %d", p.h.o.ID, got, part)
		}
	}
	version := r.ledger.Version
	if one := all[5].needs(part, part+1, 8*n); one.exchange() != nil && one.h.Limit("s") != part+4 {
		t.Errorf("one that needed %d places has %d", part+1, one.h.Limit("s"))
	}
	if r.ledger.Version != version {
		t.Error("all have to hear that one has grown")
	}
	// The others' clients take the rest of the reserve. All that have more than they need hear that it runs low, but by turns, and not at once.
	all[7].needs(part, part+6, 8*n).exchange()
	if r.ledger.Version != version {
		t.Error("all hear at once that the reserve runs low")
	}
	all[5].needs(part-2, part-2, 8*n)
	for range 20 {
		round()
	}
	if a := r.ledger.Accounts["s"]; a.isLow() {
		t.Errorf("the reserve is still low: %d of %d places are granted", a.Granted(), a.Cap())
	}
	if r.ledger.Version == version {
		t.Error("nobody has told that the reserve was low")
	}
}

// TestOthersHaveEnough lets only those give back at once that have most to give.
func TestOthersHaveEnough(t *testing.T) {
	a := &Account{}
	for i := range smallFleet + 1 {
		a.Grants = append(a.Grants, Grant{ID(rune('a' + i)), 8, Claim{Cap: 100, Needs: 4}})
	}
	a.Grants[0].Claim.Needs = 11 // it lacks three
	a.Grants[3].Places = 20
	a.Grants[4].Places = 10
	fair := Fair(a)
	for i, want := range []bool{3: false, 4: true, 5: true} {
		if got := a.othersHaveEnough(fair, i); i >= 3 && got != want {
			t.Errorf("%d gives %d of %d places; others have enough: %v", i, a.Grants[i].Places-fair[i], a.Grants[i].Places, got)
		}
	}
}
