//go:build linux

package fleetproof

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Caps about which the ledger has shown nothing are not proven.
func TestWatcherSawNothing(t *testing.T) {
	server := netip.MustParseAddr("127.2.0.1")
	for _, c := range []struct {
		sums  map[string]int
		above bool
		want  string // what is found
	}{
		{nil, false, "the ledger was not seen"},
		{map[string]int{"127.2.0.1:80": 0}, false, "the ledger was not seen"},
		{map[string]int{"127.2.0.11:80": 9}, false, "the ledger was not seen"},
		{map[string]int{"ws://127.2.0.1:80": 9}, false, "the ledger was not seen"},
		{map[string]int{"127.2.0.1:80": 3}, false, ""},
		{map[string]int{"127.2.0.1:80": 4}, true, ""},
	} {
		w := newWatcher(nil, kit.NewJournal(nil))
		s := w.add(server, "server-1", 3)
		s.Highest = 3
		if above := w.compare(c.sums); (above[s] > 0) != c.above {
			t.Errorf("%v: above the cap: %v", c.sums, above)
		}
		w.prove()
		found := ""
		for _, v := range w.journal.Found() {
			found += v.Kind
		}
		if found != c.want {
			t.Errorf("%v: found %q; want %q", c.sums, found, c.want)
		}
	}
	w := newWatcher(nil, kit.NewJournal(nil))
	w.add(server, "server-1", 3).granted = 1
	if w.prove(); len(w.journal.Found()) != 1 {
		t.Errorf("without a connection: %v", w.journal.Found())
	}
}

// The watcher tells of the first connection above the cap, whose it is, and what went before.
func TestWatcher(t *testing.T) {
	server, one, two := netip.MustParseAddr("127.2.0.1"), netip.MustParseAddr("127.1.0.1"), netip.MustParseAddr("127.1.1.1")
	w := newWatcher(nil, kit.NewJournal(nil))
	s := w.add(server, "server-1", 3)
	w.began(one, "proxy-1")
	w.began(two, "proxy-2")
	now := w.journal.Begin
	look := func(after time.Duration, states ...byte) {
		now = now.Add(after)
		var all []kit.Socket
		for i, state := range states {
			source := one
			if i%2 == 1 {
				source = two
			}
			all = append(all, kit.Socket{Server: server, Source: netip.AddrPortFrom(source, uint16(1000+i)), State: state})
		}
		w.look(now, now, all)
	}
	violations := func() int { return len(w.journal.Found()) }
	look(0, kit.Established, kit.SynReceived, kit.FinWait2, kit.CloseWait)
	if violations() != 0 || s.count != 3 || s.lingering != 1 || w.notFull(now.Add(-1)) != "" {
		t.Errorf("at the cap: %+v, %v", s, w.notFull(now.Add(-1)))
	}
	w.alive(two, false)
	look(time.Millisecond, kit.Established, kit.Established, kit.Established)
	if missing := w.notFull(now.Add(-1)); missing != "server-1: 3 of 3: proxy-1 2, proxy-2 1" {
		t.Errorf("places of a proxy that is stopped are taken for used: %q", missing)
	}

	// After the cap was lowered, connections may only fall.
	w.lowered(s, 1)
	s.lowered = now
	look(settling+time.Millisecond, kit.Established, kit.Established)
	look(window, kit.Established, kit.Established)
	if violations() != 0 || s.limit != 2 {
		t.Errorf("falling: limit %d, %v", s.limit, w.journal.Found())
	}
	look(time.Millisecond, kit.Established, kit.Established, kit.Established)
	if found := w.journal.Found(); len(found) != 1 || !strings.HasPrefix(found[0].Text, "server-1: 3 connections; the limit is 2 (cap 1)") || len(found[0].History) == 0 {
		t.Errorf("rising again: %+v", found)
	}
	if s.Over != 1 {
		t.Errorf("over by %d", s.Over)
	}
	look(time.Millisecond, kit.Established)
	if took, ok := w.capReached(s); !ok || took < settling+window || s.limit > 3 {
		t.Errorf("reached after %v, %v", took, ok)
	}
}
