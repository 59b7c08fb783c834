package fleet

import (
	"maps"
	"slices"
)

// Clone returns a copy of a holder that shares nothing with it that either changes.
func (h *Holder) Clone() *Holder {
	c := *h
	c.lostMembers = slices.Clone(h.lostMembers)
	c.dead = maps.Clone(h.dead)
	c.scratch = nil
	c.servers, c.members = copies(h.servers), copies(h.members)
	return &c
}

// HolderState is what a holder remembers from one exchange to the next, as long as no time passes. Usage is not part of it: each exchange
// begins with [Holder.Use].
type HolderState struct {
	Sequence uint64
	Epoch    Epoch
	Version  int64
	// NeedsFull: the next report has to be full. Lost are those that it names.
	NeedsFull, Frozen, Settled bool
	Lost, Dead                 []ID
	Members                    []Known // the others, as the last answer had them
	Servers                    map[string]ServerState
}

// Known is another proxy that a holder knows.
type Known struct {
	ID         ID
	Heartbeats uint64
}

// ServerState is what a holder knows of one server.
type ServerState struct {
	Granted, Limit int
	Reported       Claim
	Dirty, Short   bool
	Account        *Account // read only; nil for none
}

// State returns what the holder remembers, for explorations of the protocol.
func (h *Holder) State() HolderState {
	c := HolderState{
		Sequence: h.sequence, Epoch: h.epoch, Version: h.version, NeedsFull: h.needsFull, Frozen: h.frozen, Settled: h.settled,
		Servers: make(map[string]ServerState, len(h.servers)),
	}
	for id := range h.dead {
		c.Dead = append(c.Dead, id)
	}
	for i := range h.lostMembers {
		c.Lost = append(c.Lost, h.lostMembers[i].ID)
	}
	for id, m := range h.members {
		c.Members = append(c.Members, Known{id, m.Heartbeats})
	}
	for server, s := range h.servers {
		c.Servers[server] = ServerState{s.granted, s.limit, s.reported, s.dirty, s.short, s.account}
	}
	return c
}

// RestoreHolder returns a holder that remembers what another did, for explorations of the protocol. Its clock begins at 0.
func RestoreHolder(o HolderOptions, c *HolderState) *Holder {
	h := NewHolder(o)
	h.sequence, h.epoch, h.version, h.needsFull, h.frozen, h.settled = c.Sequence, c.Epoch, c.Version, c.NeedsFull, c.Frozen, c.Settled
	for _, id := range c.Dead {
		h.dead[id] = true
	}
	for _, id := range c.Lost {
		h.lostMembers = append(h.lostMembers, Member{ID: id})
	}
	for _, k := range c.Members {
		h.members[k.ID] = &observed{Member: Member{ID: k.ID, Heartbeats: k.Heartbeats}}
	}
	for server, s := range c.Servers {
		h.servers[server] = &holding{granted: s.Granted, limit: s.Limit, reported: s.Reported, dirty: s.Dirty, short: s.Short, account: s.Account}
	}
	return h
}
