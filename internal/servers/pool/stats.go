package pool

// Totals counts since the pool was made.
type Totals struct {
	Dialed      uint64  // connections established
	DialFailed  uint64  // slots given up because a connection could not be established
	Refused     uint64  // slots given up because the server refused the values of the client that they were for
	Leased      uint64  // leases begun
	Returned    uint64  // leases that ended with the connection idle again
	Discarded   uint64  // leases that ended with the connection retired
	RetiredIdle uint64  // connections retired while idle
	Reasons     Reasons // of both kinds of retirement
}

// Stats is a pool at one instant.
type Stats struct {
	State     string // the desired state
	Usable    bool   // sessions may begin
	Held      bool   // none may for a moment, since the server has just refused one
	Cap       int
	Shared    bool // other proxies use the server, too
	Grant     int  // how many connections this one may have, if Shared
	Ceiling   int  // how many the server accepts at present: the cap, or less after it said that it is full, or as it publishes
	Limit     int  // how many the pool may have: the ceiling, or less if less is granted
	Warm      int
	Weight    float64
	Ramp      float64 // fraction of the weight that counts, while the backend is started slowly
	Dialing   int
	Idle      int
	Leased    int
	Resetting int
	Retiring  int
	// Moving is how many sessions, of all pools of the group, wait for a connection because their server cannot continue them, and no other
	// server can take them at present.
	Moving int
	Totals Totals
}

// Used returns how many connections count against the cap.
func (s *Stats) Used() int { return s.Dialing + s.Idle + s.Leased + s.Resetting + s.Retiring }

// Stats returns the pool's numbers.
func (p *Pool[C]) Stats() Stats {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	return Stats{
		State: p.mode.String(), Usable: p.usable, Held: p.held, Cap: p.capacity, Shared: p.shared, Grant: p.grant, Ceiling: p.size, Limit: p.limit, Warm: p.warm, Weight: p.weight, Ramp: p.ramp,
		Dialing: p.counts[Dialing], Idle: p.counts[Idle], Leased: p.counts[Leased],
		Resetting: p.counts[Resetting], Retiring: p.counts[Retiring], Moving: len(p.group.queue.ahead), Totals: p.totals,
	}
}

// Load is how busy one pool of a group is.
type Load[C any] struct {
	Pool   *Pool[C]
	Leased int // connections that serve a session
	Limit  int // most connections that there may be at present
	// Free is how many more sessions could begin there, as far as its connections are concerned.
	Free int
	// Grantable is how many connections the server accepts beyond those that this proxy was granted. It may get some if it asks for them.
	Grantable int
	// Weighted is the weight times how many connections the server accepts, however many of them are granted: what the pool's share of all
	// sessions is in proportion to.
	Weighted float64
	// Enabled: it is to get sessions. Serves: it also works, so that they may begin there when there is room, perhaps only few at first.
	// Takes: it gets them now, and is not being started slowly.
	Enabled, Serves, Takes bool
}

// LeasesEnded returns how many leases of the group's present pools have ended.
func (g *Group[C]) LeasesEnded() (n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pools {
		n += p.totals.Returned + p.totals.Discarded
	}
	return n
}

// Loads returns how busy the pools of the group are, in one step. Waiting is how many clients wait for a connection.
func (g *Group[C]) Loads() (all []Load[C], waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all = make([]Load[C], 0, len(g.pools))
	for _, p := range g.pools {
		l := Load[C]{
			Pool: p, Leased: p.counts[Leased], Limit: p.limit, Weighted: float64(p.size) * p.weight,
			Enabled: p.mode == Enabled, Serves: p.mode == Enabled && p.usable && p.weight > 0, Takes: p.leasable() && p.ramp >= 1,
		}
		if l.Serves && !g.paused {
			l.Grantable = p.size - p.limit
		}
		if p.leasable() {
			l.Free = p.counts[Idle]
			if p.dialable {
				l.Free = max(l.Free, p.limit-p.using()-p.counts[Retiring])
			}
		}
		all = append(all, l)
	}
	return all, g.queue.length
}
