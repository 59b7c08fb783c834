package session

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// crowd is the clients of one network whose handshakes are unfinished. The mutex of the set guards it.
type crowd struct {
	network  netip.Addr // invalid for clients of trusted load balancers that have not said yet where they come from
	openings list.List  // of *opening: those with a place, oldest first; empty if the network is not known
	line     list.List  // of *opening: those that wait for a place, oldest first
	ranks    [rankings]int
}

// dropped says why one of its handshakes is dropped, if there are too many of them.
func (c *crowd) dropped() dropReason {
	if c.network.IsValid() {
		return droppedCrowd
	}
	return droppedOldest
}

// mayHave reports whether a network that has so many places may have one more of those that are free: no more than are left for others. So many
// of the last ones are kept for networks that have none.
func mayHave(places, free, kept int) bool {
	return places == 0 && free > 0 || places < free-kept
}

// The rankings of crowds.
const (
	byPlaces = iota // those with places: the most first
	byTurn          // those in line: whoever has the fewest places first, and then whoever has waited longest
	byLine          // those in line: the longest line first
	rankings
)

// comesFirst has the order of each ranking.
var comesFirst = [rankings]func(a, b *crowd) bool{
	byPlaces: func(a, b *crowd) bool { return a.openings.Len() > b.openings.Len() },
	byTurn: func(a, b *crowd) bool {
		if more := a.openings.Len() - b.openings.Len(); more != 0 {
			return more < 0
		}
		return firstOf(&a.line).lined.Before(firstOf(&b.line).lined)
	},
	byLine: func(a, b *crowd) bool { return a.line.Len() > b.line.Len() },
}

// ranking is crowds in an order, of which only the first is known. It is a heap.
type ranking struct {
	which  int
	crowds []*crowd
}

// set notes that the place of a crowd may have changed, or that it is in the ranking no longer.
func (r *ranking) set(c *crowd, in bool) {
	switch rank := c.ranks[r.which]; {
	case in && rank == 0:
		heap.Push(r, c)
	case in:
		heap.Fix(r, rank-1)
	case rank > 0:
		heap.Remove(r, rank-1)
	}
}

// first returns the first crowd; nil for none.
func (r *ranking) first() *crowd {
	if len(r.crowds) == 0 {
		return nil
	}
	return r.crowds[0]
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (r *ranking) Len() int           { return len(r.crowds) }
func (r *ranking) Less(i, j int) bool { return comesFirst[r.which](r.crowds[i], r.crowds[j]) }

func (r *ranking) Swap(i, j int) {
	r.crowds[i], r.crowds[j] = r.crowds[j], r.crowds[i]
	r.crowds[i].ranks[r.which], r.crowds[j].ranks[r.which] = i+1, j+1
}

func (r *ranking) Push(c any) {
	r.crowds = append(r.crowds, c.(*crowd))
	c.(*crowd).ranks[r.which] = len(r.crowds)
}

func (r *ranking) Pop() any {
	last := len(r.crowds) - 1
	c := r.crowds[last]
	c.ranks[r.which] = 0
	r.crowds[last] = nil
	r.crowds = r.crowds[:last]
	return c
}
