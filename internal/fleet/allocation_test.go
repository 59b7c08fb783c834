package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFair(t *testing.T) {
	for _, test := range []struct {
		name   string
		cap    int
		grants []Grant
		want   []int
	}{
		{"alone", 16, []Grant{{"a", 0, Claim{Wants: 2}}}, []int{16}},
		{"needs before wants", 10, []Grant{{"a", 0, Claim{Needs: 2, Wants: 10}}, {"b", 0, Claim{Needs: 6, Wants: 6}}}, []int{3, 6}},
		{"needs are max-min fair", 10, []Grant{{"a", 0, Claim{Needs: 1}}, {"b", 0, Claim{Needs: 20}}, {"c", 0, Claim{Needs: 20}}}, []int{1, 5, 4}},
		{"shares", 12, []Grant{{"a", 0, Claim{Needs: 20, Share: 3}}, {"b", 0, Claim{Needs: 20}}}, []int{9, 3}},
		{"floors", 8, []Grant{{"a", 0, Claim{Floor: 3}}, {"b", 0, Claim{Needs: 20}}}, []int{3, 5}},
		{"floors above the cap", 4, []Grant{{"a", 0, Claim{Floor: 3}}, {"b", 0, Claim{Floor: 3}}}, []int{2, 2}},
		{"what is left is divided", 16, []Grant{{"a", 16, Claim{Needs: 2, Wants: 4}}, {"b", 0, Claim{Needs: 2, Wants: 4}}}, []int{7, 7}},
		{"free places go to who has least", 16, []Grant{{"a", 7, Claim{Wants: 4}}, {"b", 2, Claim{Wants: 2}}}, []int{7, 7}},
		{"the reserve is for needs", 16, []Grant{{"a", 7, Claim{Needs: 9, Wants: 16}}, {"b", 7, Claim{Needs: 6, Wants: 16}}}, []int{9, 6}},
		{"who waits longest", 1, []Grant{{"a", 1, Claim{Needs: 1}}, {"b", 0, Claim{Needs: 1, Waited: 2}}, {"c", 0, Claim{Needs: 1, Waited: 3}}}, []int{0, 0, 1}},
		{"no move between equals", 3, []Grant{{"a", 1, Claim{Needs: 5}}, {"b", 2, Claim{Needs: 5}}}, []int{1, 2}},
		{"much is missing", 16, []Grant{{"a", 5, Claim{Wants: 7}}, {"b", 9, Claim{Wants: 7}}}, []int{7, 7}},
		{"the cap was lowered", 4, []Grant{{"a", 8, Claim{Needs: 8}}, {"b", 8, Claim{Needs: 1}}}, []int{3, 1}},
		{"one gives the server up", 8, []Grant{{"a", 3, Claim{Cap: -1, Needs: 2, Wants: 9}}, {"b", 0, Claim{}}}, []int{3, 5}},
		{"clients wait where one gives the server up", 8, []Grant{{"a", 1, Claim{Cap: -1, Needs: 2}}, {"b", 7, Claim{Wants: 8}}}, []int{2, 6}},
	} {
		a := &Account{Grants: test.grants}
		for i := range a.Grants {
			if c := &a.Grants[i].Claim; c.Cap == 0 {
				c.Cap = test.cap
			}
		}
		if got := Fair(a); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, not %v", test.name, got, test.want)
		}
	}
}

// Places move for connections to keep warm only if a proxy lacks much of what would be fair.
func TestWanting(t *testing.T) {
	for lacks, want := range []bool{false, false, true, true} {
		a := &Account{Grants: []Grant{{"a", 7 - lacks, Claim{Cap: 16, Wants: 9}}, {"b", 7 + lacks, Claim{Cap: 16, Wants: 9}}}}
		if got := a.wanting(Fair(a), nil); got != want {
			t.Errorf("one lacks %d of 7: %v", lacks, got)
		}
	}
}

// Where many use a server, each gets a few places more than it needs, and the others stay free.
func TestFairOfMany(t *testing.T) {
	a := &Account{}
	for i := range smallFleet + 1 {
		a.Grants = append(a.Grants, Grant{ID(rune('a' + i)), 0, Claim{Cap: 200, Needs: 8, Wants: 9}})
	}
	a.Grants[0].Places = 100
	a.Grants[1].Claim.Wants = 50
	for i, n := range Fair(a) {
		if want := 11; i != 1 && n != want || i == 1 && n != 50 {
			t.Errorf("%d gets %d", i, n)
		}
	}
}

// Whatever the claims are, the sum is within the cap, nothing but the reserve is left over if a proxy can take it, and none gets more than
// another with the same share while it needs less.
func TestFairProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "cap")
		n := rapid.IntRange(1, 8).Draw(t, "proxies")
		a := &Account{}
		for i := range n {
			number := func(what string) int { return rapid.IntRange(0, 20).Draw(t, what) }
			a.Grants = append(a.Grants, Grant{ID(rune('a' + i)), number("places"), Claim{
				Cap: limit, Needs: number("needs"), Wants: number("wants"), Waited: number("waited"), Floor: number("floor") / 8,
				Share: rapid.SampledFrom([]float64{0, 1, 2, 0.3}).Draw(t, "share"),
			}})
		}
		unseen := map[ID]bool{}
		if n > 1 && rapid.Bool().Draw(t, "unseen") {
			unseen[a.Grants[0].Proxy] = true
		}
		got, sum := fair(a, unseen), 0
		for _, p := range got {
			sum += p
		}
		kept := 0
		if len(unseen) > 0 {
			kept = a.Grants[0].Places
			if got[0] != kept {
				t.Errorf("one that is not seen has %d, not %d", got[0], kept)
			}
		}
		needs := kept
		for i := range a.Grants {
			if g := &a.Grants[i]; !unseen[g.Proxy] {
				needs += max(g.Claim.Needs, g.Claim.Floor)
			}
		}
		if want := max(kept, min(limit, max(needs, limit-a.Reserve()))); sum != want {
			t.Errorf("%v is %d, not %d", got, sum, want)
		}
		for i := range a.Grants {
			for j := range a.Grants {
				g, h := &a.Grants[i], &a.Grants[j]
				if unseen[g.Proxy] || unseen[h.Proxy] || g.share() != h.share() || g.Claim.Floor > 0 || h.Claim.Floor > 0 {
					continue
				}
				if got[i] < g.Claim.Needs && got[j] > got[i]+1 {
					t.Errorf("%+v has %d, and %+v has %d", g, got[i], h, got[j])
				}
			}
		}
	})
}

// TestLargeFleet divides a server among many proxies that want all of it: each gets its part, the reserve stays free, and one that needs more
// gets it in one exchange, of which no other hears.
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
		t.Error("no proxy was told that the reserve was low")
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

// TestReserve grows from the reserve in one exchange, of which no other hears, and gives back when the reserve runs low.
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
		t.Fatal("the first report is not full")
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
