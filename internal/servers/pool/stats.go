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
	Ceiling   int  // how many the server accepts at present: the cap, or less after it said that it is full
	Limit     int  // how many the pool may have: the ceiling, or less if less is granted
	Warm      int
	Weight    float64
	Ramp      float64 // part of the weight that counts, while the backend is started slowly
	Dialing   int
	Idle      int
	Leased    int
	Resetting int
	Retiring  int
	// Moving is how many sessions, of all pools of the group, wait for a connection because their server cannot go on with them, and no other
	// server can take them at present.
	Moving int
	Totals Totals
}

// Used returns how many connections count against the cap.
func (s *Stats) Used() int { return s.Dialing + s.Idle + s.Leased + s.Resetting + s.Retiring }

// Allowed returns how many of the server's connections are this proxy's: the cap, or as many as are granted.
func (s *Stats) Allowed() int {
	if s.Shared {
		return min(s.Cap, s.Grant)
	}
	return s.Cap
}

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
