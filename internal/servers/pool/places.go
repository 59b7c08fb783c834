package pool

import (
	"cmp"
	"slices"
)

// Standings are what decides about the order of a group's queue, at one instant: a copy, with which places are worked out without the
// group's lock.
type Standings struct {
	tenants map[string]standing
}

// standing is what decides when a tenant is served.
type standing struct {
	share      float64
	guaranteed int // the places that only it may use: as many as it was promised, as far as the group has room
	inUse      int // connections that its sessions use, resets included
	// While it waits and uses no connection, see queue.setDeadline.
	deadline float64
	overdue  bool
}

// Client is a client that waits.
type Client struct {
	Tenant string
	Ticket uint64 // see [Waiter.Ticket]
}

// Standings returns the standings of the tenants whose clients wait.
func (g *Group[C]) Standings() *Standings {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &Standings{tenants: make(map[string]standing, len(g.queue.order.items))}
	for _, t := range g.queue.order.items {
		s.tenants[t.name] = t.standing
	}
	return s
}

// contender is a tenant whose clients get places.
type contender struct {
	standing
	clients []int // those without a place, as indices, the first first
	first   uint64
	ranked  rank
	index   int
}

// Places returns the place of each client in the queue: 1 is served next if no client comes or leaves, no session ends that began before, and
// all need the same variant.
func (s *Standings) Places(clients []Client) []int {
	inOrder := make([]int, len(clients))
	for i := range inOrder {
		inOrder[i] = i
	}
	slices.SortFunc(inOrder, func(a, b int) int { return cmp.Compare(clients[a].Ticket, clients[b].Ticket) })
	byName := make(map[string]*contender)
	for _, i := range inOrder {
		name := clients[i].Tenant
		c := byName[name]
		if c == nil {
			c = &contender{standing: s.tenants[name], first: clients[i].Ticket}
			if c.share <= 0 { // it has come since
				c.share = 1
			}
			byName[name] = c
		}
		c.clients = append(c.clients, i)
	}
	order := heap[*contender]{
		before: func(a, b *contender) bool { return a.ranked.before(&b.ranked, a.first, b.first) },
		index:  func(c *contender) *int { return &c.index },
	}
	for _, c := range byName {
		c.ranked = c.rank(c.inUse)
		order.push(c)
	}
	places, place := make([]int, len(clients)), 0
	for c, ok := order.best(); ok; c, ok = order.best() {
		place++
		places[c.clients[0]] = place
		c.clients = c.clients[1:]
		if len(c.clients) == 0 {
			order.remove(c)
			continue
		}
		c.first = clients[c.clients[0]].Ticket
		c.inUse++
		c.ranked = c.rank(c.inUse)
		order.fix(c)
	}
	return places
}
