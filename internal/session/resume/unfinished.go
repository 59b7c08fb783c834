package resume

import (
	"sync"
	"sync/atomic"
)

const (
	// maxGathered is how much of all messages together, in bytes beyond uncounted of each, waits for their ends.
	maxGathered = 64 << 20
	uncounted   = 4 << 10
)

// Unfinished bounds what of clients' messages waits for their ends, so that clients who end none cannot use up the memory. It is shared by tenant
// and, within a tenant, by network. Any goroutine may use it. The zero value is empty.
type Unfinished struct {
	gathered atomic.Int64 // bytes, see maxGathered

	mu     sync.Mutex
	shares map[crowd]*share // guarded by mu: of gathered, by crowd, and by tenant alone
}

// share is what a crowd, or a tenant, has of gathered.
type share struct {
	gathered atomic.Int64
	of       int // guarded by Unfinished.mu: who has a part of it
}

// Gathering is what one client has of it. It is owned by the client's loop. The zero value joins nothing, and counts nothing.
type Gathering struct {
	all     *Unfinished
	crowd   crowd
	shares  [2]*share // of the crowd, and of its tenant
	counted int       // bytes
}

// Join begins what a client of a tenant's network has. Leave ends it.
func (g *Gathering) Join(all *Unfinished, tenant, network string) {
	g.all, g.crowd = all, crowd{tenant, network}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.shares == nil {
		all.shares = make(map[crowd]*share)
	}
	for i, c := range g.crowd.shares() {
		if all.shares[c] == nil {
			all.shares[c] = new(share)
		}
		g.shares[i] = all.shares[c]
		g.shares[i].of++
	}
}

// Leave gives everything back.
func (g *Gathering) Leave() {
	if g.all == nil {
		return
	}
	g.add(-g.counted)
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	for i, c := range g.crowd.shares() {
		if g.shares[i].of--; g.shares[i].of == 0 {
			delete(g.all.shares, c)
		}
	}
	*g = Gathering{}
}

// Count counts n bytes, those before included. It returns false, and counts what it did before, if there is no room for them, or too little for all
// crowds.
func (g *Gathering) Count(n int) bool {
	more := max(0, n-uncounted) - g.counted
	if more == 0 || g.all == nil {
		return true
	}
	if all, tenant, network := g.add(more); more > 0 && !mayHave(maxGathered, all, tenant, network) {
		g.add(-more)
		return false
	}
	return true
}

func (g *Gathering) add(n int) (all, tenant, network int64) {
	g.counted += n
	return g.all.gathered.Add(int64(n)), g.shares[1].gathered.Add(int64(n)), g.shares[0].gathered.Add(int64(n))
}
