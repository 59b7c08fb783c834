package replay

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// party is a window whose owner counts how often it is asked for its memory, and gives it back when the test says so.
type party struct {
	Window
	asked int
}

func join(a *Arena, tenant, network string) *party {
	p := &party{}
	p.SetArena(a, Owner{Tenant: tenant, Network: network, GiveUp: func() { p.asked++ }})
	return p
}

// fill keeps this many chunks more.
func (p *party) fill(chunks int) bool {
	for range chunks {
		if !p.Append(frame.AppendMessage(nil, frame.Binary, true, make([]byte, chunkSize-linkSize-entrySize-8), true)) {
			return false
		}
		p.End(profile.Entry{Kind: profile.EntryAudio})
	}
	return true
}

// When the memory is used up, one of the largest network of the largest tenant loses what it keeps, not the next that asks.
func TestLargestPays(t *testing.T) {
	a := NewArena(320 * chunkSize)
	large, small := join(a, "hog", "192.0.2.1"), join(a, "hog", "192.0.2.1")
	beside := join(a, "hog", "192.0.2.2")
	honest := join(a, "honest", "192.0.2.3")
	large.fill(200)
	small.fill(40)
	beside.fill(60)
	honest.fill(10)
	if large.fill(30) {
		t.Error("the largest window grows although the memory is used up")
	}
	if large.asked != 0 {
		t.Error("it is asked as well as refused")
	}
	a.SetLimit(a.Used())
	if !honest.fill(10) || large.asked != 1 || small.asked+beside.asked+honest.asked != 0 {
		t.Fatalf("asked: largest %d, others %d %d %d", large.asked, small.asked, beside.asked, honest.asked)
	}
	if !large.Asked() || large.fill(1) {
		t.Error("a window that was asked grows")
	}
	large.Free()
	if large.Asked() || !large.fill(1) || !honest.fill(50) {
		t.Error("there is no room after the largest window was freed")
	}
}

// With two windows, the smaller one continues while the larger one has not yet given up its memory.
func TestSmallerGoesOn(t *testing.T) {
	a := NewArena(100 * chunkSize)
	large, small := join(a, "", ""), join(a, "", "")
	large.fill(90)
	if !small.fill(14) || large.asked != 1 || small.asked != 0 {
		t.Errorf("the larger one was asked %d times, the smaller one %d times", large.asked, small.asked)
	}
}

// Many small windows of one network pay before one larger window of another network does, and those who have as much as they take nothing of
// what others give back.
func TestManySmallWindowsPay(t *testing.T) {
	a := NewArena(640 * chunkSize)
	var crowd []*party
	for range 60 {
		p := join(a, "", "2001:db8::/64")
		p.fill(10)
		crowd = append(crowd, p)
	}
	honest := join(a, "", "192.0.2.1")
	honest.fill(40)
	if crowd[7].fill(1) {
		t.Error("one of the crowd grows although the memory is used up")
	}
	if !honest.fill(30) {
		t.Error("the honest one does not get more")
	}
	asked := 0
	for _, p := range crowd {
		asked += p.asked
	}
	if asked != 3 || honest.asked != 0 {
		t.Errorf("asked %d of the crowd and the honest one %d times", asked, honest.asked)
	}
	if honest.fill(11) {
		t.Error("more is in use than the limit and what is lent until others give up theirs")
	}
}

// Whatever is taken and given back, by whichever window: the shares are the sums of what windows have, with the largest on top, and nothing stays behind.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := NewArena(rapid.Int64Range(0, 200).Draw(t, "limit") * chunkSize)
		var all []*party
		for i := range 12 {
			all = append(all, join(a, fmt.Sprint(i%2), fmt.Sprint(i%3)))
		}
		one := func(t *rapid.T) *party { return all[rapid.IntRange(0, len(all)-1).Draw(t, "window")] }
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) { one(t).fill(rapid.IntRange(1, 100).Draw(t, "chunks")) },
			"drop": func(t *rapid.T) { p := one(t); p.Drop(p.Next() - int64(rapid.IntRange(0, 20).Draw(t, "left"))) },
			"free": func(t *rapid.T) { one(t).Free() },
			"": func(t *rapid.T) {
				a.mu.Lock()
				defer a.mu.Unlock()
				used, returning, counted := int64(0), int64(0), 0
				for _, p := range all {
					of := p.share
					if of.has != p.chunks || of.asked && of.of != nil || (of.of != nil) != (of.has > 0 && !of.asked) {
						t.Fatalf("a window has %d chunks: %+v", p.chunks, of)
					}
					if wrong := of.has - of.chunks; !of.asked && 4*max(wrong, -wrong) > of.chunks {
						t.Fatalf("%d chunks are counted as %d", of.has, of.chunks)
					}
					used += p.Memory()
					counted += of.chunks
					if of.asked {
						returning += p.Memory()
					}
				}
				if used != a.used.Load() || returning != a.returning || checkShare(t, &a.all) != counted {
					t.Fatalf("%d bytes in use, of which %d were asked for; the arena says %d and %d", used, returning, a.used.Load(), a.returning)
				}
			},
		})
	})
}

// checkShare checks a share and its parts, and returns its chunks.
func checkShare(t *rapid.T, s *share) int {
	sum := 0
	for i, p := range s.parts {
		if p.of != s || p.place != i || p.chunks <= 0 || i > 0 && s.parts[(i-1)/2].chunks < p.chunks || s.named != nil && s.named[p.name] != p {
			t.Fatalf("part %d of %q: %+v", i, s.name, p)
		}
		sum += checkShare(t, p)
	}
	if s.named != nil && len(s.named) != len(s.parts) {
		t.Fatalf("%d names of %d parts", len(s.named), len(s.parts))
	}
	if len(s.parts) > 0 && sum != s.chunks || s.chunks < 0 {
		t.Fatalf("%q has %d chunks, its parts %d", s.name, s.chunks, sum)
	}
	return s.chunks
}
