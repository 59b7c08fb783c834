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
	// Taken is how many of them the server still holds for somebody else, such as the pool that was the server's before, and
	// that is being emptied.
	Taken int
	// Warm is how many connections are kept ready beside those in use, within the cap.
	Warm int
	// Variants is how many variants of connections are kept warm, those used last, which share the warm connections; 0 for a
	// service without variants, whose connections are all alike.
	Variants int
	// Weight is the backend's part of the clients in relation to the weights of the others; 0 for none. Where the load
	// counts ([LeastLoaded], [RandomTwo]) a backend of weight 2 is filled to twice the share of its cap.
	Weight float64
}

// A service whose clients need connections that were dialed with their own parameters has variants: a client says which one
// it needs ([Waiter.Variant]), and gets a connection of that variant only.

// Pool is the book of one backend's connections. Its methods may be called from any goroutine.
type Pool[C any] struct {
	group *Group[C]
	// changed is called, outside the lock, when there may be something to dial or to retire. Static.
	changed func()
	// seed tells the pool from the others of its group for [Hash]. Static.
	seed uint64

	// Guarded by the group's mutex.
	capacity      int // the cap as it is configured
	taken         int // how many of it somebody else has
	ceiling       int // what the server takes at present, see SetCeiling; 0 for the cap
	limit         int // the lesser of the two, without those taken
	warm          int
	maxVariants   int // variants that are kept warm; 0 for a pool without variants
	weight        float64
	ramp          float64
	weightedLimit float64 // limit, weight and ramp in one: what a load is a part of
	credit        float64 // for [RoundRobin]
	mode          Mode
	usable        bool
	dialable      bool
	predial       bool // connections are dialed ahead, see SetPredial
	counts        [states]int
	probes        int           // of those dialing, the ones that never become connections of the pool
	base          variant[C]    // the one without a name
	variants      []*variant[C] // all that are known, base first

	generation uint16 // of the connections that are reserved from now on, see Renew
	outdated   int    // idle connections of older ones
	idleCount  uint64 // how often a connection has become idle
	totals     Totals
}

// Set changes the settings. Connections that are too many now are for [Pool.RetireSurplus].
func (p *Pool[C]) Set(s Settings) {
	p.update(func() {
		if s.Weight != p.weight { // what was gained and paid by the old weights counts no more
			for _, other := range p.group.pools {
				other.credit = 0
			}
		}
		p.set(s)
	})
}

func (p *Pool[C]) set(s Settings) {
	was := p.maxVariants
	p.capacity, p.taken, p.warm, p.maxVariants, p.weight = s.Cap, s.Taken, s.Warm, s.Variants, s.Weight
	p.updateLimit()
	if s.Variants == 0 {
		p.base.keptWarm = true
		p.limitKeptWarm(&p.base)
	} else if was == 0 { // only from now on is it one of many
		p.base.keptWarm = false
	} else {
		p.limitKeptWarm(nil)
	}
}

// SetCeiling notes that the server takes no more than so many connections for now, at least 1, although the cap is higher; 0
// for as many as the cap. Those that are too many are for [Pool.RetireSurplus]; sessions go on.
func (p *Pool[C]) SetCeiling(n int) {
	p.update(func() {
		p.ceiling = n
		p.updateLimit()
	})
}

// updateLimit sets the limit to the lesser of the cap and the ceiling, without those taken, and the size by it.
func (p *Pool[C]) updateLimit() {
	p.limit = p.capacity
	if p.ceiling > 0 {
		p.limit = min(p.limit, p.ceiling)
	}
	p.limit = max(p.limit-p.taken, 0)
	p.weightedLimit = float64(p.limit) * p.weight * p.ramp
}

// SetMode notes what the operator wants of the backend. Connections of a disabled one are for [Pool.RetireSurplus].
func (p *Pool[C]) SetMode(m Mode) { p.update(func() { p.mode = m }) }

// SetUsable notes whether the backend is well. Nothing is leased while it is not.
func (p *Pool[C]) SetUsable(usable bool) { p.update(func() { p.usable = usable }) }

// SetDialable notes whether connections can be dialed for clients that wait. It is for a time in which none will be, so
// that the other backends of the group take over.
func (p *Pool[C]) SetDialable(dialable bool) { p.update(func() { p.dialable = dialable }) }

// SetPredial notes whether connections are dialed ahead, to be warm for clients to come. It is for a server that wants to know from
// the start whose connection it is: those for clients that wait are dialed all the same.
func (p *Pool[C]) SetPredial(ahead bool) { p.update(func() { p.predial = ahead }) }

// SetRamp sets the part of the weight that counts, above 0 and at most 1, for a backend that has recovered and is to get
// its clients little by little.
func (p *Pool[C]) SetRamp(ramp float64) {
	p.update(func() {
		p.ramp = ramp
		p.updateLimit()
	})
}

// update changes what the choice of a backend depends on.
func (p *Pool[C]) update(change func()) {
	g := p.group
	g.mu.Lock()
	change()
	g.unlock(p, whenDue)
}
