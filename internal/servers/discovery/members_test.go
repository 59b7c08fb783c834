package discovery

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// at returns servers at these last bytes of their addresses.
func at(last ...int) []Server {
	list := []Server{}
	for _, n := range last {
		list = append(list, Server{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 2700), 1})
	}
	return list
}

// told gives members some answers, and returns the servers after each.
func told(m *members, answers ...[]Server) (after [][]Server) {
	for _, a := range answers {
		m.answer(a)
		after = append(after, m.list())
	}
	return after
}

func equalLists(a, b [][]Server) bool { return slices.EqualFunc(a, b, slices.Equal) }

// A new server is there at once; one that is missing goes with the third answer in a row.
func TestComeAndGo(t *testing.T) {
	got := told(new(members), at(1, 2), at(1, 2, 3), at(1, 3), at(1, 3), at(1, 3), at(1, 2, 3))
	want := [][]Server{at(1, 2), at(1, 2, 3), at(1, 2, 3), at(1, 2, 3), at(1, 3), at(1, 2, 3)}
	if !equalLists(got, want) {
		t.Errorf("servers are\n%v; want\n%v", got, want)
	}
}

// A server that is in one of three answers never goes.
func TestMissingNowAndThen(t *testing.T) {
	m := new(members)
	told(m, at(1, 2))
	for i := range 100 {
		if i%3 == 0 {
			told(m, at(1, 2))
		} else if got := told(m, at(1)); !equalLists(got, [][]Server{at(1, 2)}) {
			t.Fatalf("after %d answers, servers are %v", i, got)
		}
	}
}

// A list that is answered in turn, one address at a time, loses servers only in its first turns; then the length of the turn is known.
func TestInTurn(t *testing.T) {
	const servers = 8
	m, lost := new(members), 0
	for i := range 50 * servers {
		m.answer(at(i % servers))
		if i >= 3*servers && len(m.list()) < servers {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of the answers after the third turn lost servers", lost)
	}
	// That the answers are irregular is forgotten once they are regular for a while.
	told(m, slices.Repeat([][]Server{at(1, 2, 3)}, maxMissing+1)...)
	if got := m.list(); !slices.Equal(got, at(1, 2, 3)) {
		t.Fatalf("servers are %v", got)
	}
	told(m, at(1, 2), at(1, 2), at(1, 2))
	if got := m.list(); !slices.Equal(got, at(1, 2)) {
		t.Errorf("a server that is missing for three answers stays: %v", got)
	}
}

// Of too many servers, those in force stay; then the lowest addresses follow.
func TestTooMany(t *testing.T) {
	m := new(members)
	var many []int
	for n := range maxServers + 50 {
		many = append(many, n+1)
	}
	_, surplus := m.answer(at(many[50:]...))
	if len(surplus) != 0 || len(m.list()) != maxServers {
		t.Fatalf("%d servers, and %d too many", len(m.list()), len(surplus))
	}
	for range 10 {
		if changed, surplus := m.answer(at(many...)); changed || !slices.Equal(surplus, at(many[:50]...)) {
			t.Fatalf("changed: %v; too many are %v", changed, surplus)
		}
	}
	m.answer(at(many[:maxServers+48]...))
	m.answer(at(many[:maxServers+48]...))
	if changed, surplus := m.answer(at(many[:maxServers+48]...)); !changed || len(surplus) != 48 {
		t.Errorf("changed: %v, %d too many", changed, len(surplus))
	}
	if list := m.list(); !slices.Equal(list[:2], at(1, 2)) || len(list) != maxServers {
		t.Errorf("%d servers, the first are %v", len(list), list[:3])
	}
}

func TestShareChanges(t *testing.T) {
	m := new(members)
	told(m, at(1, 2))
	heavy := at(1, 2)
	heavy[1].Share = 0.5
	if changed, _ := m.answer(heavy); !changed || !slices.Equal(m.list(), heavy) {
		t.Errorf("changed: %v; servers are %v", changed, m.list())
	}
	if changed, _ := m.answer(heavy); changed {
		t.Error("the same answer is a change")
	}
}

// TestAnyAnswers holds the rules against random answers: the list is in order and not too long, each server of it was in one of the
// last answers, each of an answer is in the list if there is room, and what is kept in memory is bounded.
func TestAnyAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := new(members)
		last := make(map[netip.AddrPort]int)
		for i := range rapid.IntRange(1, 60).Draw(t, "answers") {
			from := rapid.IntRange(0, 400).Draw(t, "from")
			var list []int
			for n := range rapid.IntRange(1, 300).Draw(t, "servers") {
				list = append(list, from+n)
			}
			before := m.list()
			changed, surplus := m.answer(at(list...))
			now := m.list()
			if changed == slices.Equal(before, now) {
				t.Fatalf("changed is %v from %v to %v", changed, before, now)
			}
			for _, s := range at(list...) {
				last[s.Address] = i
				_, in := slices.BinarySearchFunc(now, s, func(a, b Server) int { return a.Address.Compare(b.Address) })
				if in == slices.Contains(surplus, s) {
					t.Fatalf("%v: in the list: %v, and too much: the opposite", s, in)
				}
			}
			if len(now) > maxServers || len(surplus) > 0 && len(now) < maxServers {
				t.Fatalf("%d servers, %d too many", len(now), len(surplus))
			}
			for _, s := range now {
				if i-last[s.Address] >= maxMissing {
					t.Fatalf("%v was last told %d answers ago", s, i-last[s.Address])
				}
			}
			if len(m.known) > maxServers*(maxMissing/minMissing+2) {
				t.Fatalf("%d servers are remembered", len(m.known))
			}
		}
	})
}
