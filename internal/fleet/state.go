package fleet

import (
	"maps"
	"slices"
)

// Clone returns a copy of a ledger that shares nothing with it.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.Past, c.Departed = slices.Clone(l.Past), slices.Clone(l.Departed)
	c.Members = make(map[ID]*Member, len(l.Members))
	for id, m := range l.Members {
		copied := *m
		c.Members[id] = &copied
	}
	c.Accounts = make(map[string]*Account, len(l.Accounts))
	for server, a := range l.Accounts {
		copied := a.clone()
		c.Accounts[server] = &copied
	}
	return &c
}

// Clone returns a copy of a holder that shares nothing with it that either changes.
func (h *Holder) Clone() *Holder {
	c := *h
	c.lost = slices.Clone(h.lost)
	c.dead = maps.Clone(h.dead)
	c.scratch = nil
	c.servers = make(map[string]*holding, len(h.servers))
	for server, s := range h.servers {
		copied := *s
		c.servers[server] = &copied
	}
	c.members = make(map[ID]*observed, len(h.members))
	for id, m := range h.members {
		copied := *m
		c.members[id] = &copied
	}
	return &c
}

// HolderState is what a holder knows between two exchanges.
type HolderState struct {
	Sequence uint64
	Epoch    Epoch
	Version  int64
	// Whole: the next report has to be whole. Lost are those that it names.
	Whole, Frozen, Settled bool
	Lost, Dead             []ID
	Members                []Known // the others, as the last answer had them, by ID
}

// Known is another proxy that a holder knows.
type Known struct {
	ID    ID
	Beats uint64
}

// Find returns what a holder knows of another proxy.
func (s *HolderState) Find(id ID) (beats uint64, known bool) {
	if i, found := slices.BinarySearchFunc(s.Members, id, func(k Known, id ID) int { return compareText(string(k.ID), string(id)) }); found {
		return s.Members[i].Beats, true
	}
	return 0, false
}

// ServerState is what a holder knows of one server.
type ServerState struct {
	Granted, Limit int
	Told           Claim
	Dirty, Short   bool
	Account        *Account // read only; nil for none
}

// State returns what the holder knows, for explorations of the protocol and for people.
func (h *Holder) State() HolderState {
	c := HolderState{
		Sequence: h.sequence, Epoch: h.epoch, Version: h.version, Whole: h.whole, Frozen: h.frozen, Settled: h.settled,
	}
	if len(h.dead) > 0 {
		c.Dead = slices.Sorted(maps.Keys(h.dead))
	}
	for i := range h.lost {
		c.Lost = append(c.Lost, h.lost[i].ID)
	}
	c.Members = make([]Known, 0, len(h.members))
	for id, m := range h.members {
		c.Members = append(c.Members, Known{id, m.Beats})
	}
	slices.SortFunc(c.Members, func(a, b Known) int { return compareText(string(a.ID), string(b.ID)) })
	return c
}

// Server returns what the holder knows of a server.
func (h *Holder) Server(server string) ServerState {
	if s := h.servers[server]; s != nil {
		return ServerState{s.granted, s.limit, s.told, s.dirty, s.short, s.account}
	}
	return ServerState{}
}
