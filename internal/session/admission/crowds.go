package admission

import (
	"container/heap"
	"container/list"
	"net/netip"
	"slices"
	"time"
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

// mayHave reports whether a network with that number of places may have one more of the free ones: no more than are left for others. The last
// ones, as many as kept, are reserved for networks that have none.
func mayHave(places, free, kept int) bool {
	return places == 0 && free > 0 || places < free-kept
}

// The rankings of crowds.
const (
	byPlaces = iota // those with places: the most first
	byTurn          // those in line: the fewest places first, and then the longest wait
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

// While there is room for no other client, a handshake is dropped once it has waited for its client slowFactor times as long as others do of
// late, or, while most handshakes come to their end, for calmPatience, but not before minPatience: a crowd of honest clients, which on a
// busy machine are slower than usual, loses none. A flood of handshakes that never end makes the proxy impatient within a moment.
const (
	slowFactor   = 4
	minPatience  = 250 * time.Millisecond
	calmPatience = 2 * time.Second
	// usualAtStart is how long handshakes are taken to wait for their clients before any has finished.
	usualAtStart = 50 * time.Millisecond
	// longestSample bounds what one handshake says about others: however slow it was, patience stays below calmPatience.
	longestSample = 250 * time.Millisecond
)

const (
	// votes is the number of networks from which the proxy learns at a time: those with the latest new ones.
	votes = 16
	// What a network's handshake weighs among those of its network, in shares: of how long it took, whether it came to its end, and the same
	// of the first one of a network. Thus a flood from ever new networks weighs as much as one from a single network that is alone.
	waitWeight, endWeight, firstWeight = 16, 64, 4
)

// experience is what unfinished handshakes were like of late. Each network has one vote, so that one says nothing about the others, however
// many clients it has. The zero value has seen none.
type experience struct {
	networks []lesson // at most votes, in the order in which they came
}

// lesson is what the handshakes of a network were like.
type lesson struct {
	network netip.Addr
	waited  time.Duration // moving average of how long they waited for their clients
	ending  float64       // moving average of the part that comes to its end, 0 to 1; the others are dropped
}

// learn notes that a handshake came to its end after it had waited for its client, or that it was dropped.
func (e *experience) learn(network netip.Addr, ended bool, waited time.Duration) {
	weight := float64(endWeight)
	i := slices.IndexFunc(e.networks, func(l lesson) bool { return l.network == network })
	if i < 0 {
		l := e.overall()
		l.network, weight = network, firstWeight
		if len(e.networks) == votes {
			e.networks = slices.Delete(e.networks, 0, 1)
		}
		e.networks = append(e.networks, l)
		i = len(e.networks) - 1
	}
	l := &e.networks[i]
	if !ended {
		l.ending -= l.ending / weight
		return
	}
	l.ending += (1 - l.ending) / weight
	l.waited += (min(waited, longestSample) - l.waited) / waitWeight
}

// of returns what the handshakes of a network were like, or those of all if it is not known.
func (e *experience) of(network netip.Addr) lesson {
	for _, l := range e.networks {
		if l.network == network {
			return l
		}
	}
	return e.overall()
}

// overall returns what handshakes were like: the median of the networks' waits, and the mean of the parts that come to their end.
func (e *experience) overall() lesson {
	if len(e.networks) == 0 {
		return lesson{waited: usualAtStart, ending: 1}
	}
	waits, ending := make([]time.Duration, 0, votes), 0.0
	for _, l := range e.networks {
		waits = append(waits, l.waited)
		ending += l.ending
	}
	slices.Sort(waits)
	return lesson{waited: waits[len(waits)/2], ending: ending / float64(len(waits))}
}

// patience returns how long a handshake may wait for its client before it is dropped.
func (l lesson) patience() time.Duration {
	return max(slowFactor*l.waited, time.Duration(l.ending*float64(calmPatience)), minPatience)
}
