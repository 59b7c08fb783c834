package fleet

import (
	"maps"
	"slices"
	"time"
)

// Suspect is a proxy that has made no exchange for some time, as this one has observed it.
type Suspect struct {
	Member Member
	Unseen time.Duration
}

// Suspects returns the proxies that have not been seen for longer than [Unseen], by ID. Time in which this proxy got no answers does not
// count: it cannot have seen anybody.
func (h *Holder) Suspects(Instant) []Suspect {
	var all []Suspect
	for _, id := range slices.Sorted(maps.Keys(h.members)) {
		if m := h.members[id]; m.suspect() {
			all = append(all, Suspect{m.Member, max(m.unseen, m.hint)})
		}
	}
	return all
}

// suspect reports whether the proxy is suspected. The store's clock tells it sooner of one that was dead before it was observed, but may have
// jumped: one that lives makes an exchange within a beat, in a crowd within two. There, one is suspected for a moment if the clock jumps, which
// harms nobody.
func (o *observed) suspect() bool { return o.unseen >= Unseen || o.hint >= Unseen && o.unseen >= Beat }

// Died says that a proxy is proven dead. The next report says so to the ledger.
func (h *Holder) Died(id ID) { h.dead[id] = true }

// observe notes which other proxies have made an exchange since the last answer. asked is when this one was asked for.
func (h *Holder) observe(members []Member, asked Instant) {
	defer h.suspect()
	if members == nil { // all have been seen lately
		for _, m := range h.members {
			m.unseen, m.hint = 0, 0
		}
		return
	}
	// A pause without answers, in which nobody was observed, counts as two beats at most.
	passed := min(time.Duration(asked-h.asked), 2*Beat)
	var seen time.Time
	there := make(map[ID]bool, len(members))
	for i := range members {
		there[members[i].ID] = true
		if members[i].ID == h.o.ID {
			seen = members[i].Seen
		}
	}
	maps.DeleteFunc(h.members, func(id ID, _ *observed) bool { return !there[id] })
	for i := range members {
		m := &members[i]
		if m.ID == h.o.ID {
			continue
		}
		o := h.members[m.ID]
		if o == nil {
			h.members[m.ID] = &observed{Member: *m}
			continue
		}
		o.hint = 0
		if o.Beats != m.Beats {
			o.unseen = 0
		} else {
			o.unseen += passed
			if !seen.IsZero() && !m.Seen.IsZero() {
				o.hint = max(seen.Sub(m.Seen), 0)
			}
		}
		o.Member = *m
	}
}

// suspect works out which proxies are suspected.
func (h *Holder) suspect() {
	before := h.suspects
	h.suspects = nil
	for id, m := range h.members {
		if m.suspect() {
			if h.suspects == nil {
				h.suspects = make(map[ID]bool)
			}
			h.suspects[id] = true
		}
	}
	if !maps.Equal(before, h.suspects) {
		h.suspected++
	}
}
