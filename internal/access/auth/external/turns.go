package external

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// fewer is how many of the turns one network may have at once: those that are left are for others, however many of its clients wait.
const fewer = maxParallel * 3 / 4

// remembered is how many networks' last turns are remembered at least.
const remembered = 4096

// turns are the questions that are asked at once. Of the networks whose clients wait, that with the fewest turns gets the next one, and among those
// the one whose last turn is the longest ago. So networks that send many clients hold up their own. Any goroutine may use it.
type turns struct {
	mu      sync.Mutex
	free    int                            // guarded by mu
	inUse   map[netip.Addr]int             // guarded by mu; by network
	waiting map[netip.Addr][]chan struct{} // guarded by mu; by network, the first first
	order   []netip.Addr                   // guarded by mu; networks with clients that wait, the first to come first
	given   uint64                         // guarded by mu; turns so far
	last    map[netip.Addr]uint64          // guarded by mu; by network, which of them was its last one; without those of long ago
}

func newTurns() *turns {
	return &turns{free: maxParallel, inUse: make(map[netip.Addr]int), waiting: make(map[netip.Addr][]chan struct{}), last: make(map[netip.Addr]uint64)}
}

// begin gives a network a turn. The caller holds mu.
func (t *turns) begin(network netip.Addr) {
	t.free--
	t.inUse[network]++
	t.given++
	t.last[network] = t.given
	if len(t.last) > 2*remembered {
		maps.DeleteFunc(t.last, func(_ netip.Addr, turn uint64) bool { return turn+remembered < t.given })
	}
}

// take waits for a turn of a network until ctx ends. If it returns true, give must be called.
func (t *turns) take(ctx context.Context, network netip.Addr) bool {
	t.mu.Lock()
	if t.free > 0 && t.inUse[network] < fewer {
		t.begin(network)
		t.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	if len(t.waiting[network]) == 0 {
		t.order = append(t.order, network)
	}
	t.waiting[network] = append(t.waiting[network], ready)
	t.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-ready: // at the last moment
		return true
	default:
	}
	t.setQueue(network, slices.DeleteFunc(t.waiting[network], func(other chan struct{}) bool { return other == ready }))
	return false
}

// give gives a turn back, and to the next network that waits.
func (t *turns) give(network netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	if t.inUse[network]--; t.inUse[network] == 0 {
		delete(t.inUse, network)
	}
	least := -1
	for i, next := range t.order {
		if t.inUse[next] >= fewer {
			continue
		}
		if least < 0 || cmp.Or(cmp.Compare(t.inUse[next], t.inUse[t.order[least]]), cmp.Compare(t.last[next], t.last[t.order[least]])) < 0 {
			least = i
		}
	}
	if least < 0 {
		return
	}
	next := t.order[least]
	queue := t.waiting[next]
	close(queue[0])
	t.begin(next)
	t.setQueue(next, queue[1:])
}

// setQueue sets the clients of a network that wait. The caller holds mu.
func (t *turns) setQueue(network netip.Addr, queue []chan struct{}) {
	if len(queue) > 0 {
		t.waiting[network] = queue
		return
	}
	delete(t.waiting, network)
	t.order = slices.DeleteFunc(t.order, func(other netip.Addr) bool { return other == network })
}
