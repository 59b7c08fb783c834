//go:build linux

package fleetproof

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The watcher tells of the first connection above the cap, whose it is, and what went before.
func TestWatcher(t *testing.T) {
	server, one, two := netip.MustParseAddr("127.2.0.1"), netip.MustParseAddr("127.1.0.1"), netip.MustParseAddr("127.1.1.1")
	w := newWatcher(nil, newJournal(nil))
	s := w.add(server, "server-1", 3)
	w.began(one, "proxy-1")
	w.began(two, "proxy-2")
	now := w.journal.begin
	look := func(after time.Duration, states ...byte) {
		now = now.Add(after)
		var all []socket
		for i, state := range states {
			source := one
			if i%2 == 1 {
				source = two
			}
			all = append(all, socket{server: server, source: netip.AddrPortFrom(source, uint16(1000+i)), state: state})
		}
		w.look(now, now, all)
	}
	violations := func() int { return len(w.journal.found()) }
	look(0, established, synReceived, finWait2, closeWait)
	if violations() != 0 || s.count != 3 || s.lingering != 1 || w.notFull(now.Add(-1)) != "" {
		t.Errorf("at the cap: %+v, %v", s, w.notFull(now.Add(-1)))
	}
	w.alive(two, false)
	look(time.Millisecond, established, established, established)
	if missing := w.notFull(now.Add(-1)); missing != "server-1: 3 of 3: proxy-1 2, proxy-2 1" {
		t.Errorf("places of a proxy that is stopped are taken for used: %q", missing)
	}

	// After the cap was lowered, connections may only fall.
	w.lowered(s, 1)
	s.lowered = now
	look(settling+time.Millisecond, established, established)
	look(window, established, established)
	if violations() != 0 || s.limit != 2 {
		t.Errorf("falling: limit %d, %v", s.limit, w.journal.found())
	}
	look(time.Millisecond, established, established, established)
	if found := w.journal.found(); len(found) != 1 || !strings.HasPrefix(found[0].Text, "server-1: 3 connections; the limit is 2 (cap 1)") || len(found[0].History) == 0 {
		t.Errorf("rising again: %+v", found)
	}
	if s.Over != 1 {
		t.Errorf("over by %d", s.Over)
	}
	look(time.Millisecond, established)
	if took, ok := w.capReached(s); !ok || took < settling+window || s.limit > 3 {
		t.Errorf("reached after %v, %v", took, ok)
	}
}
