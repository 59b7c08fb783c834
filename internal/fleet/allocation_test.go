package fleet

import (
	"slices"
	"testing"

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

// Places move for connections to keep warm only if somebody lacks much of what would be fair.
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

// Whatever the claims are, the sum is within the cap, nothing but the reserve is left over if somebody can take it, and nobody gets more than
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
