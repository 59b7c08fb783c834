package pool

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// Instant is a time on the clock of a group, in nanoseconds since whenever that clock began.
type Instant int64

// Options are the settings of a group.
type Options struct {
	// Balance is how a backend is chosen for a client.
	Balance Balance
	// Queue is the largest number of clients that wait while all connections are in use; 0 for none. Beside them wait those for whom places are
	// vacant.
	Queue int
	// Demand is called, outside the lock, when more clients wait than the limits of the pools leave room for, and when a connection of
	// a shared pool that has more than its limit is gone. It must not block. Nil if it is not needed.
	Demand func()
	// Now tells the time; default a monotonic clock. It is called with the group's lock held, so it must be quick and must
	// not use the group.
	Now func() Instant
}

// Group is the pools of the backends that serve the same clients, and the queue of those clients. Its methods may be
// called from any goroutine.
type Group[C any] struct {
	// Static.
	now          func() Instant
	demanded     func() // nil for none, see Options.Demand
	maxOvertaken int    // how often a client that waits for a place is overtaken, see holdsBack

	mu      sync.Mutex
	balance Balance    // guarded by mu
	paused  bool       // guarded by mu: nothing is leased, see Pause
	pools   []*Pool[C] // guarded by mu; the slice is replaced, never changed, so that it can be read without mu
	queue   queue[C]   // guarded by mu

	settings *TenantSettings       // guarded by mu
	tenants  map[string]*tenant[C] // guarded by mu: by name
	noTenant tenant[C]             // guarded by mu: clients without a tenant
	promised int                   // guarded by mu: the sum over tenants
	reserved int                   // guarded by mu: the guaranteed places that their tenants do not use
	departed departed              // guarded by mu: the counters of tenants that are no longer known
}

// NewGroup returns a group without pools.
func NewGroup[C any](o Options) *Group[C] {
	if o.Now == nil {
		begun := time.Now()
		o.Now = func() Instant { return Instant(time.Since(begun)) }
	}
	g := &Group[C]{balance: o.Balance, now: o.Now, demanded: o.Demand, maxOvertaken: maxOvertaken, settings: new(TenantSettings)}
	g.queue.limit, g.queue.now, g.queue.group = o.Queue, o.Now, g
	initQueue(&g.queue)
	g.configure(&g.noTenant)
	return g
}

// Add adds a pool to the group, empty and usable. The name tells it from the others for [Hash], and must be the same after a restart
// and in other proxies. changed is called when there may be something to dial or to retire, unless only time has passed, and when a
// slot was given up. It must not block.
func (g *Group[C]) Add(name string, s Settings, changed func()) *Pool[C] {
	p := &Pool[C]{group: g, changed: changed, seed: HashKey(name), ramp: 1, usable: true, dialable: true, predial: true}
	p.variants = []*variant[C]{&p.base}
	p.set(s)
	g.mu.Lock()
	g.pools = append(slices.Clip(g.pools), p)
	g.rescale()
	g.unlock(nil, never) // its worker reviews it when it starts
	return p
}

// SetBalance changes how a backend is chosen for a client.
func (g *Group[C]) SetBalance(b Balance) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.balance = b
}

// SetQueue changes Options.Queue. Clients that wait already stay.
func (g *Group[C]) SetQueue(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.limit = limit
}

// Pause stops leasing connections: clients join the queue although connections are idle, and none is dialed for them. Running sessions
// continue, and warm connections are kept. It returns false if the group is paused already.
func (g *Group[C]) Pause() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused {
		return false
	}
	g.paused = true
	return true
}

// Resume ends a pause: the clients that wait get the idle connections at once, and more are dialed. It returns false if the group is
// not paused.
func (g *Group[C]) Resume() bool {
	g.mu.Lock()
	if !g.paused {
		g.mu.Unlock()
		return false
	}
	g.paused = false
	g.unlockAll()
	return true
}

// unlockAll serves clients that wait, releases the mutex, and signals the workers that have to dial for those that still wait, or to
// replace the warm connections that were leased.
func (g *Group[C]) unlockAll() {
	g.serve(nil)
	var due []*Pool[C]
	for _, p := range g.pools {
		if p.due() {
			due = append(due, p)
		}
	}
	g.mu.Unlock()
	for _, p := range due {
		p.changed()
	}
}

// Restore adds a pool again that Remove has taken out. It is disabled.
func (g *Group[C]) Restore(p *Pool[C]) {
	g.mu.Lock()
	if !slices.Contains(g.pools, p) {
		g.pools = append(slices.Clip(g.pools), p)
		g.rescale()
	}
	g.unlock(p, whenDue)
}

// Remove disables a pool and takes it out of the group: nothing of it is leased from then on.
func (g *Group[C]) Remove(p *Pool[C]) {
	p.SetMode(Disabled)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools = slices.DeleteFunc(slices.Clone(g.pools), func(other *Pool[C]) bool { return other == p })
	g.rescale()
}

// Now returns the time on the group's clock.
func (g *Group[C]) Now() Instant { return g.now() }

// Errors of [Group.Acquire].
var (
	// ErrNoQueue: no connection is idle, and clients may not wait.
	ErrNoQueue = errors.New("all connections are in use")
	// ErrQueueFull: no connection is idle, and the queue is full.
	ErrQueueFull = errors.New("all connections are in use and the queue is full")
	// ErrGuaranteed: the places that are left are guaranteed to other tenants, and no more clients may wait.
	ErrGuaranteed = errors.New("the places that are left are guaranteed to other tenants")
	// ErrPaused: the group is paused, and no more clients may wait.
	ErrPaused = errors.New("the service is paused and no more clients may wait")
)

// ErrEvicted is what [Waiter.Refused] returns for a client whose place in the full queue was given to a client of another tenant: its own
// had more clients waiting for its share.
var ErrEvicted = errors.New("the queue is full, and other tenants have fewer clients in it")

// Acquire leases an idle connection to the client, if there is one that no other client waits for, the client's tenant may use another, and the
// group is not paused. Otherwise it puts the client in the queue and returns false: the connection comes through w.Ready, unless the
// client leaves before. Acquire is called once for each Waiter. It never blocks.
func (g *Group[C]) Acquire(w *Waiter[C]) (conn C, ok bool, err error) {
	g.mu.Lock()
	if w.ready != nil {
		g.mu.Unlock()
		panic(Misuse("a client that was queued before asks for another connection with the same waiter"))
	}
	if w.tenant = &g.noTenant; w.Tenant != "" {
		w.tenant = g.tenant(w.Tenant)
	}
	if w.Ahead {
		if p := g.chooseFor(w); p != nil && g.entitles(w.tenant) {
			conn = w.take(p)
			g.unlock(p, whenDue)
			return conn, true, nil
		}
		g.queue.pushAhead(w, g.now())
		g.unlockQueued()
		return conn, false, nil
	}
	if g.queue.length+g.promised == 0 || !g.mustWait(w) {
		if p := g.chooseFor(w); p != nil && (g.queue.length == 0 || !g.holdsBack(p, nil)) {
			conn = w.take(p)
			g.unlock(p, whenDue)
			return conn, true, nil
		}
	}
	if err = g.queue.push(w, g.now()); err != nil {
		switch {
		case g.paused:
			err = ErrPaused
		case g.promised > 0 && !g.entitles(w.tenant) && g.open()+g.reserved > 0: // there are free places
			err = ErrGuaranteed
		}
		g.forgetTenant(w.tenant)
		g.mu.Unlock()
		return conn, false, err
	}
	g.unlockQueued()
	return conn, false, nil
}

// mustWait reports whether a client that has just come gets no connection at once, whatever is idle: its tenant may use no more places, or
// others wait for the same variant, so that nothing is idle that could be leased. If something is idle then, their tenants may not
// use it, which does not keep a tenant from what it is guaranteed.
func (g *Group[C]) mustWait(w *Waiter[C]) bool {
	if l := g.queue.ofVariant(w.Variant); l != nil && len(l.tenants.items) > 0 {
		if w.tenant.inUse >= w.tenant.guaranteed || w.tenant.queueOf(w.Variant) != nil {
			return true
		}
	}
	return !g.entitles(w.tenant)
}

// Leave takes a client that waits out of the queue, and counts the reason. If a connection was handed to the client at the same
// moment, Leave returns it: the caller has the lease. A client that was refused at that moment has left already.
func (g *Group[C]) Leave(w *Waiter[C], why Departure) (conn C, leased bool) {
	g.mu.Lock()
	if g.queue.remove(w) {
		g.queue.totals.count(why)
		if why == TimedOut {
			w.tenant.totals.TimedOut++
		}
		g.forgetTenant(w.tenant)
		g.unlock(nil, never) // for one that was held back for it
		return conn, false
	}
	defer g.mu.Unlock()
	if w.refused != nil {
		return conn, false
	}
	select {
	case conn = <-w.ready: // handed over under the lock, so it is there
		return conn, true
	default:
		panic(Misuse("a client that does not wait left the queue"))
	}
}

// Queue returns the state of the queue.
func (g *Group[C]) Queue() QueueStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.queue.stats(g.now())
	s.Paused = g.paused
	return s
}

// occasion is whether a pool's worker is signalled when the mutex is released.
type occasion uint8

const (
	never   occasion = iota // the worker itself is the caller
	whenDue                 // if there is something to do
	always
)

// unlock serves clients that wait, and releases the mutex after a change of p; nil is for no change. Then it signals the worker of p, and
// those of the other pools that are to dial, or to make room, for clients that wait.
func (g *Group[C]) unlock(p *Pool[C], signal occasion) {
	if g.queue.length > 0 {
		g.unlockServing(p, signal)
		return
	}
	// As nearly always: no other pool is concerned.
	own := signal == always || signal == whenDue && p.due()
	g.mu.Unlock()
	if own {
		p.changed()
	}
}

func (g *Group[C]) unlockServing(p *Pool[C], signal occasion) {
	others := g.serve(p)
	var few [8]*Pool[C]
	due := few[:0]
	if signal == always || signal == whenDue && p.due() {
		due = append(due, p)
	}
	w, load := g.demand()
	for _, other := range g.pools {
		if other != p && (w != nil && other.dialsForClients() && other.loadAfterDial() <= load && g.allows(w, other) || other.displaces() || others && other.due()) {
			due = append(due, other)
		}
	}
	g.mu.Unlock()
	for _, p := range due {
		p.changed()
	}
}

// serve leases idle connections to clients that wait, after a change of p; nil is for no change of one pool. It reports whether
// other pools have lost a warm connection: idle connections wait beside clients while these may not use them, because of others'
// guarantees, until anything changes. It is called with the mutex held.
func (g *Group[C]) serve(changed *Pool[C]) (others bool) {
	for g.queue.length > 0 {
		w := g.servable()
		if w == nil {
			return others
		}
		p := g.chooseFor(w)
		if g.holdsBack(p, w) {
			return others
		}
		others = others || p != changed
		conn := w.take(p) // before the client leaves the queue, so that its tenant is never without both
		g.queue.served(w)
		w.ready <- conn // it has room for the only one
	}
	return others
}
