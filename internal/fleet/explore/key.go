package explore

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// key identifies worlds that behave alike: numbers that only grow, and random names, count only by their order.
type key [2]uint64

// writer writes what a world is.
type writer struct {
	seeds     [2]maphash.Seed
	bytes     []byte
	flying    map[fleet.ID]bool // whose reports are under way
	sequences map[fleet.ID][]uint64
	epochs    map[fleet.Epoch]byte
	ids       map[fleet.ID]byte
	named     map[fleet.Epoch]bool // epochs that a report can still name
}

func newWriter(seeds [2]maphash.Seed) *writer {
	return &writer{
		seeds: seeds, flying: map[fleet.ID]bool{}, sequences: map[fleet.ID][]uint64{}, epochs: map[fleet.Epoch]byte{},
		ids: map[fleet.ID]byte{}, named: map[fleet.Epoch]bool{},
	}
}

func (k *writer) key(w *world) key {
	k.bytes = k.bytes[:0]
	clear(k.flying)
	clear(k.sequences)
	clear(k.epochs)
	clear(k.ids)
	clear(k.named)
	k.epochs[""] = 0
	for _, p := range w.procs {
		k.id(p.id)
		if !p.dead {
			k.named[p.known().Epoch] = true
		}
	}
	for _, d := range w.flight {
		k.named[d.report.Epoch] = true
		k.flying[d.report.ID] = true
	}
	for _, p := range w.procs {
		k.process(w, p)
	}
	k.ledger(w, w.ledger)
	k.flags(w.old != nil)
	if w.old != nil {
		k.ledger(w, w.old)
		k.flags(w.old.Identity == fmt.Sprint(w.oldIdentity))
	}
	k.number(len(w.commits))
	for _, l := range w.commits {
		k.ledger(w, l)
	}
	k.number(len(w.flight))
	for _, d := range w.flight {
		r := d.report
		k.id(r.ID)
		k.epoch(r.Epoch)
		k.compare(w, r.Epoch, r.Version)
		k.sequence(r.ID, r.Sequence)
		k.flags(r.Whole, r.Settle)
		k.claim(r.Claims[server], true)
		_, named := r.Claims[server]
		k.flags(named)
		k.flags(d.answer != nil)
		if d.answer != nil {
			k.answer(d.answer)
		}
		for i := range r.Others {
			k.id(r.Others[i].ID)
		}
		for _, d := range r.Dead {
			k.id(d.ID)
			k.beats(w, d.ID, d.Beats)
		}
	}
	f := w.left
	for _, n := range []int{f.Total, f.Losses, f.Delays, f.Crashes, f.Restarts, f.Cuts, f.Timeouts, f.Forgets, f.Databases, f.Lost, w.excess} {
		k.number(n)
	}
	k.ranks()
	return key{maphash.Bytes(k.seeds[0], k.bytes), maphash.Bytes(k.seeds[1], k.bytes)}
}

func (k *writer) process(w *world, p *process) {
	k.id(p.id)
	k.flags(p.dead)
	if p.dead {
		return
	}
	k.flags(p.cut, p.expired, p.declared)
	k.bytes = append(k.bytes, byte(p.limit), byte(p.used))
	if w.left.Databases > 0 || !w.ledger.Settled || w.ledger.Identity != fmt.Sprint(w.identity) {
		for _, q := range w.procs {
			k.flags(p.knows&q.birth != 0)
		}
	}
	s := p.known()
	k.epoch(s.Epoch)
	k.flags(s.Whole, s.Frozen, s.Settled)
	k.sequence(p.id, s.Sequence)
	for _, id := range s.Lost {
		k.id(id)
	}
	k.number(len(s.Dead))
	for _, id := range s.Dead {
		k.id(id)
	}
	k.number(len(s.Members))
	for _, q := range w.procs {
		beats, known := s.Find(q.id)
		k.flags(known)
		if known && (w.left.Timeouts > 0 || q.expired) {
			k.beats(w, q.id, beats)
		}
	}
	v := p.holder.Server(server)
	k.bytes = append(k.bytes, byte(v.Granted))
	k.compare(w, s.Epoch, s.Version)
	if s.Whole {
		return // a whole report replaces the rest
	}
	k.claim(v.Told, false)
	k.flags(v.Dirty, v.Short)
	k.account(v.Account, p.id)
}

func (k *writer) ledger(w *world, l *fleet.Ledger) {
	k.flags(l.Identity == fmt.Sprint(w.identity), l.Settled)
	k.epoch(l.Epoch)
	for _, p := range l.Past {
		if k.named[p.Epoch] {
			k.epoch(p.Epoch)
		}
	}
	k.number(len(l.Members))
	ids := make([]fleet.ID, 0, len(l.Members))
	for id := range l.Members {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		m := l.Members[id]
		k.id(id)
		k.epoch(m.Epoch)
		k.sequence(id, m.Sequence)
	}
	for _, d := range l.Departed {
		if k.alive(w, d.ID) {
			k.id(d.ID)
			k.sequence(d.ID, d.Sequence)
		}
	}
	a := l.Accounts[server]
	k.account(a, "")
}

// beats writes which of the ledgers that there are have seen a process no later than this.
func (k *writer) beats(w *world, id fleet.ID, beats uint64) {
	for l := range w.ledgers() {
		m := l.Members[id]
		k.flags(m != nil && m.Beats == beats)
	}
}

// compare writes how a version that a proxy knows of an epoch compares with those of the ledgers that there are.
func (k *writer) compare(w *world, e fleet.Epoch, v int64) {
	for l := range w.ledgers() {
		k.order(l, e, v)
	}
}

func (k *writer) order(l *fleet.Ledger, e fleet.Epoch, v int64) {
	switch i := slices.IndexFunc(l.Past, func(p fleet.PastEpoch) bool { return p.Epoch == e }); {
	case e == l.Epoch:
		a := l.Accounts[server]
		k.flags(a != nil && a.Version > v, v > l.Version)
	case i >= 0:
		k.flags(v > l.Past[i].Version)
	default:
		k.flags(true, true, true)
	}
}

// answer writes an answer that arrives later. Holders ignore it, so a part is enough.
func (k *writer) answer(a *fleet.Answer) {
	k.epoch(a.Epoch)
	k.flags(a.Again, a.Frozen, a.Stale, a.Forgotten, a.Settled)
	for i := range a.Accounts {
		k.account(&a.Accounts[i], "")
	}
}

// alive reports whether a process can still say something.
func (k *writer) alive(w *world, id fleet.ID) bool {
	return slices.ContainsFunc(w.procs, func(p *process) bool { return p.id == id && !p.dead }) ||
		slices.ContainsFunc(w.flight, func(d delayed) bool { return d.report.ID == id })
}

func (k *writer) account(a *fleet.Account, without fleet.ID) {
	if a == nil {
		k.number(255)
		return
	}
	k.number(len(a.Grants))
	for i := range a.Grants {
		if g := &a.Grants[i]; g.Proxy != without {
			k.id(g.Proxy)
			k.bytes = append(k.bytes, byte(g.Places))
			k.claim(g.Claim, false)
		}
	}
}

func (k *writer) claim(c fleet.Claim, holds bool) {
	k.bytes = append(k.bytes, byte(c.Cap), byte(c.Needs), byte(c.Wants))
	if holds {
		k.bytes = append(k.bytes, byte(c.Holds))
	}
}

func (k *writer) flags(all ...bool) {
	n := byte(0)
	for _, b := range all {
		n <<= 1
		if b {
			n |= 1
		}
	}
	k.bytes = append(k.bytes, n)
}

func (k *writer) number(n int) { k.bytes = append(k.bytes, byte(n)) }

func (k *writer) id(id fleet.ID) {
	n, ok := k.ids[id]
	if !ok {
		// The slot counts, since equals are told apart by their IDs' order, and which process of the slot it is.
		n = byte(len(k.ids))
		k.ids[id] = n
		k.bytes = append(k.bytes, id[0])
	}
	k.bytes = append(k.bytes, n)
}

func (k *writer) epoch(e fleet.Epoch) {
	n, ok := k.epochs[e]
	if !ok {
		n = byte(len(k.epochs))
		k.epochs[e] = n
	}
	k.bytes = append(k.bytes, n)
}

// sequence notes a sequence number, which matters only while a report of the process is under way.
func (k *writer) sequence(id fleet.ID, n uint64) {
	if k.flying[id] {
		k.sequences[id] = append(k.sequences[id], n)
	}
}

// ranks writes the order of sequence numbers.
func (k *writer) ranks() {
	ids := make([]fleet.ID, 0, len(k.sequences))
	for id := range k.sequences {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b fleet.ID) int { return int(k.ids[a]) - int(k.ids[b]) })
	for _, id := range ids {
		all := k.sequences[id]
		sorted := slices.Clone(all)
		slices.Sort(sorted)
		sorted = slices.Compact(sorted)
		for _, v := range all {
			n, _ := slices.BinarySearch(sorted, v)
			k.bytes = binary.AppendUvarint(k.bytes, uint64(n))
		}
	}
}
