// Package pool counts each backend's connections by state, decides which of them is leased next and which are to be dialed or
// retired, and never lets a backend have more than its cap. It also queues the clients that wait for a connection. It does no I/O and
// never blocks.
//
// A [Slot] is a connection's place in its [Pool]. It is reserved before the connection is dialed, so that the cap holds at
// every instant, and given up when the connection's socket has been closed:
//
//	         Filled         Acquire            Reset                Return
//	dialing -------> idle ----------> leased --------> resetting --------> idle ...
//	   |              |                 |                 |
//	   | Failed, ...  | Withdraw, ...   | Discard         | Discard
//	   v              v                 v                 v
//	  gone         retiring -------------------- Gone ---------> gone
//
// The pools of the backends that serve the same clients belong to a [Group], with one queue and one lock. The lock is held
// for a few dozen instructions and never while other packages' code runs. So choosing a backend, leasing its connection and
// handing a connection to a waiting client are single steps, and the numbers are exact.
package pool

// Settings are what can be changed of a pool while it is in use.
type Settings struct {
	// Cap is the largest number of connections; at least 1.
	Cap int
	// Ceiling is how many of them there may be at present, at least 1, as the server publishes it; 0 for the cap.
	Ceiling int
	// Shared tells that other proxies use the server, too, and that this one may have at most Grant of the connections, which may be 0. When
	// the grant is lowered, idle connections beyond it are retired at once, and those of sessions when their sessions have ended.
	Shared bool
	Grant  int
	// Taken is how many of them another pool still uses, such as one for the same server that is being emptied.
	Taken int
	// Warm is how many idle connections are kept ready for clients to come, within the cap.
	Warm int
	// Variants is how many variants of connections are kept warm: those requested last share the warm connections. 0 is for a
	// service whose connections are all alike.
	Variants int
	// Weight is the backend's share of the clients in relation to the weights of the others; 0 for none. Where the load
	// counts ([LeastLoaded], [RandomTwo]) a backend of weight 2 is filled to twice the share of its cap.
	Weight float64
}

// A service whose clients need connections that were dialed with their own parameters has variants: a client says which one
// it needs ([Waiter.Variant]), and gets a connection of that variant only.

// Pool is one backend's connections. Its methods may be called from any goroutine. Those that change something may call changed.
type Pool[C any] struct {
	// Static.
	group   *Group[C]
	changed func() // is called, outside the lock, when there may be something to dial or to retire
	seed    uint64 // tells the pool from the others of its group for [Hash]

	// Guarded by the group's mutex.
	capacity     int // the configured cap
	taken        int // how many of it another pool uses
	shared       bool
	grant        int // if shared
	published    int // how many connections the server accepts at present, as it publishes; 0 for the cap
	ceiling      int // the same, as refusals have shown, see SetCeiling; 0 for the cap
	size         int // the least of cap and ceilings, without those taken
	limit        int // the lesser of that and the grant, without those taken
	warm         int
	maxVariants  int // most variants that are kept warm; 0 for a pool without variants
	weight       float64
	ramp         float64
	weightedSize float64 // size x weight x ramp: what a load is a share of
	credit       float64 // for [RoundRobin]: how much it is owed
	mode         Mode
	usable       bool
	held         bool  // see SetHeld
	trial        trial // see SetTrial
	dialable     bool
	predial      bool // warm connections are dialed, see SetPredial
	counts       [states]int
	probes       int           // of those dialing, the probes, which never become connections of the pool
	spare        *Spare[C]     // the place of a canary; nil for none
	unclaimed    int           // places that are becoming free, less those that clients ahead wait for; only within [Group.undialed]
	base         variant[C]    // the variant without a name
	variants     []*variant[C] // all known ones, base first

	generation uint16 // of the connections that are reserved from now on, see Renew
	outdated   int    // idle connections of older ones
	idleCount  uint64 // how often a connection has become idle
	totals     Totals
}

// Set changes the settings. Connections beyond a lower cap are retired by [Pool.RetireSurplus].
func (p *Pool[C]) Set(s Settings) {
	p.update(func() {
		if s.Weight != p.weight { // credit that was earned with the old weights is void
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
	p.shared, p.grant, p.published = s.Shared, s.Grant, s.Ceiling
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

// SetCeiling limits the connections to as many as the server accepts at present, at least 1; 0 is for as many as the cap.
// Connections beyond it are retired by [Pool.RetireSurplus]; sessions continue.
func (p *Pool[C]) SetCeiling(n int) {
	p.update(func() {
		p.ceiling = n
		p.updateLimit()
	})
}

// updateLimit works out size, limit and weightedSize, and fills the spare place if there is room now. It is called with the mutex held.
//
// Loads are shares of the size, not of the limit: a grant follows what is used, so that shares of it would say nothing, and all proxies
// fill a server alike only if they compare by the same numbers.
func (p *Pool[C]) updateLimit() {
	most := p.capacity
	if p.published > 0 {
		most = min(most, p.published)
	}
	p.size = max(most-p.taken, 0)
	if p.ceiling > 0 { // it is about this pool's connections only
		p.size = min(p.size, p.ceiling)
	}
	p.limit = p.size
	if p.shared {
		p.limit = min(p.size, max(p.grant-p.taken, 0))
	}
	p.weightedSize = float64(p.size) * p.weight * p.ramp
	p.fillSpare()
}

// SetMode sets the desired state of the backend. Idle connections of a disabled one are retired by [Pool.RetireSurplus].
func (p *Pool[C]) SetMode(m Mode) { p.update(func() { p.mode = m }) }

// SetUsable sets whether sessions may begin. While they may not, nothing is leased.
func (p *Pool[C]) SetUsable(usable bool) { p.update(func() { p.usable = usable }) }

// SetHeld sets whether no session may begin for a moment, since the server has just refused one.
func (p *Pool[C]) SetHeld(held bool) { p.update(func() { p.held = held }) }

// SetDialable sets whether the caller dials for clients that wait. While it does not, the other backends of the group do.
func (p *Pool[C]) SetDialable(dialable bool) { p.update(func() { p.dialable = dialable }) }

// SetPredial sets whether connections are dialed before clients arrive. Those for clients that wait are dialed in any case.
func (p *Pool[C]) SetPredial(ahead bool) { p.update(func() { p.predial = ahead }) }

// SetRamp sets the fraction of the weight that counts, above 0 and at most 1: a backend that has recovered gets its clients step by
// step.
func (p *Pool[C]) SetRamp(ramp float64) {
	p.update(func() {
		p.ramp = ramp
		p.updateLimit()
	})
}

// update makes a change with the mutex held, and then serves and signals whom it concerns.
func (p *Pool[C]) update(change func()) {
	g := p.group
	g.mu.Lock()
	change()
	g.rescale()
	g.unlock(p, whenDue)
}

// trial is whether a server gets one session only, to see whether it works again.
type trial uint8

const (
	noTrial    trial = iota
	trialOpen        // the next session is the one
	trialTaken       // it has begun, and no other may
)

// SetTrial lets one more session begin, and after that none, until it is called again. With one being false, sessions begin as usual.
// Besides, the pool must be usable.
func (p *Pool[C]) SetTrial(one bool) {
	p.update(func() {
		p.trial = noTrial
		if one {
			p.trial = trialOpen
		}
	})
}

// isOver reports whether the pool had more connections than its limit before the last one was gone. It is called with the mutex held.
func (p *Pool[C]) isOver() bool { return p.shared && p.present()+p.counts[Retiring] >= p.limit }
