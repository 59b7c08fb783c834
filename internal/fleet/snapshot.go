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

// HolderState is what a holder remembers from one exchange to the next, as long as no time passes. Usage is not part of it: each exchange
// begins with [Holder.Use].
type HolderState struct {
	Sequence uint64
	Epoch    Epoch
	Version  int64
	// Whole: the next report has to be whole. Lost are those that it names.
	Whole, Frozen, Settled bool
	Lost, Dead             []ID
	Members                []Known // the others, as the last answer had them
	Servers                map[string]ServerState
}

// Known is another proxy that a holder knows.
type Known struct {
	ID    ID
	Beats uint64
}

// ServerState is what a holder knows of one server.
type ServerState struct {
	Granted, Limit int
	Told           Claim
	Dirty, Short   bool
	Account        *Account // read only; nil for none
}

// State returns what the holder remembers, for explorations of the protocol.
func (h *Holder) State() HolderState {
	c := HolderState{
		Sequence: h.sequence, Epoch: h.epoch, Version: h.version, Whole: h.whole, Frozen: h.frozen, Settled: h.settled,
		Servers: make(map[string]ServerState, len(h.servers)),
	}
	for id := range h.dead {
		c.Dead = append(c.Dead, id)
	}
	for i := range h.lost {
		c.Lost = append(c.Lost, h.lost[i].ID)
	}
	for id, m := range h.members {
		c.Members = append(c.Members, Known{id, m.Beats})
	}
	for server, s := range h.servers {
		c.Servers[server] = ServerState{s.granted, s.limit, s.told, s.dirty, s.short, s.account}
	}
	return c
}

// RestoreHolder returns a holder that remembers what another did, for explorations of the protocol. Its clock begins at 0.
func RestoreHolder(o HolderOptions, c *HolderState) *Holder {
	h := NewHolder(o)
	h.sequence, h.epoch, h.version, h.whole, h.frozen, h.settled = c.Sequence, c.Epoch, c.Version, c.Whole, c.Frozen, c.Settled
	for _, id := range c.Dead {
		h.dead[id] = true
	}
	for _, id := range c.Lost {
		h.lost = append(h.lost, Member{ID: id})
	}
	for _, k := range c.Members {
		h.members[k.ID] = &observed{Member: Member{ID: k.ID, Beats: k.Beats}}
	}
	for server, s := range c.Servers {
		h.servers[server] = &holding{granted: s.Granted, limit: s.Limit, told: s.Told, dirty: s.Dirty, short: s.Short, account: s.Account}
	}
	return h
}
