// Package pool keeps the books: of each backend's connections, how many there are in which state, which of them is leased
// next, and that there are never more than the backend's cap; and of the clients that wait for one. It does no I/O and
// never waits.
//
// A connection's entry in the book of its [Pool] is its [Slot]. It is reserved before dialing, so that the cap holds at
// every instant, and given up when the connection's socket has been closed:
//
//	Reserve -> dialing -> Filled -> idle -> Acquire -> leased -> Reset -> resetting -> Return -> idle ...
//	                                  any of them -> Discard, Withdraw -> retiring -> Gone
//
// The pools of the backends that serve the same clients belong to a [Group], with one queue. A group has one lock, held
// for a few dozen instructions and never across a call of anybody else's code, so that choosing a backend, leasing its
// connection and handing one over to a waiting client are single steps, and the numbers are exact.
package pool

// Settings are what can be changed of a pool while it is in use.
type Settings struct {
	// Cap is the largest number of connections; at least 1.
	Cap int
	// Warm is how many connections are kept ready beside those in use, within the cap.
	Warm int
	// Weight is the backend's part of the clients in relation to the weights of the others; 0 for none. Where the load
	// counts ([LeastLoaded], [RandomTwo]) a backend of weight 2 is filled to twice the share of its cap.
	Weight float64
}

// Pool is the book of one backend's connections. Its methods may be called from any goroutine.
type Pool[C any] struct {
	group *Group[C]
	// changed is called, outside the lock, when there may be something to dial or to retire. Static.
	changed func()
	// seed tells the pool from the others of its group for [Hash]. Static.
	seed uint64

	// Guarded by the group's mutex.
	limit, warm int
	weight      float64
	ramp        float64
	current     float64 // for [RoundRobin]
	mode        Mode
	usable      bool
	dialable    bool
	counts      [states]int
	probes      int      // of those dialing, the ones that never become connections of the pool
	oldest      *Slot[C] // the idle slot that was used longest ago
	newest      *Slot[C] // the idle slot that was used last, and is leased next
	totals      Totals
}

// Set changes the settings. Connections that are too many now are for [Pool.RetireSurplus].
func (p *Pool[C]) Set(s Settings) {
	p.update(func() {
		if s.Weight != p.weight { // what was gained and paid by the old weights counts no more
			for _, other := range p.group.pools {
				other.current = 0
			}
		}
		p.limit, p.warm, p.weight = s.Cap, s.Warm, s.Weight
	})
}

// SetMode notes what the operator wants of the backend. Connections of a disabled one are for [Pool.RetireSurplus].
func (p *Pool[C]) SetMode(m Mode) { p.update(func() { p.mode = m }) }

// SetUsable notes whether the backend is well. Nothing is leased while it is not.
func (p *Pool[C]) SetUsable(usable bool) { p.update(func() { p.usable = usable }) }

// SetDialable notes whether connections can be dialed for clients that wait. It is for a time in which none will be, so
// that the other backends of the group take over.
func (p *Pool[C]) SetDialable(dialable bool) { p.update(func() { p.dialable = dialable }) }

// SetRamp sets the part of the weight that counts, above 0 and at most 1, for a backend that has recovered and is to get
// its clients little by little.
func (p *Pool[C]) SetRamp(ramp float64) { p.update(func() { p.ramp = ramp }) }

// update changes what the choice of a backend depends on.
func (p *Pool[C]) update(change func()) {
	g := p.group
	g.mu.Lock()
	change()
	g.serve()
	g.unlock(p, p.due())
}
