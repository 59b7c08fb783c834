package pool

// Totals counts since the pool was made.
type Totals struct {
	Dialed      uint64  `json:"dialed"`       // connections established
	DialFailed  uint64  `json:"dial_failed"`  // slots given up because a connection could not be established
	Refused     uint64  `json:"refused"`      // slots given up because the server refused the values of the client that they were for
	Leased      uint64  `json:"leased"`       // leases begun
	Returned    uint64  `json:"returned"`     // leases that ended with the connection idle again
	Discarded   uint64  `json:"discarded"`    // leases that ended with the connection retired
	RetiredIdle uint64  `json:"retired_idle"` // connections retired while idle
	Reasons     Reasons `json:"reasons"`      // of both kinds of retirement
}

// Stats is a pool at one instant.
type Stats struct {
	State     string  `json:"state"`  // the desired state
	Usable    bool    `json:"usable"` // sessions may begin
	Cap       int     `json:"cap"`
	Ceiling   int     `json:"ceiling"` // the limit at present: the cap, or less after the server said that it is full
	Warm      int     `json:"warm"`
	Weight    float64 `json:"weight"`
	Ramp      float64 `json:"ramp"` // part of the weight that counts, while the backend is started slowly
	Dialing   int     `json:"dialing"`
	Idle      int     `json:"idle"`
	Leased    int     `json:"leased"`
	Resetting int     `json:"resetting"`
	Retiring  int     `json:"retiring"`
	Totals    Totals  `json:"totals"`
}

// Used returns how many connections count against the cap.
func (s *Stats) Used() int { return s.Dialing + s.Idle + s.Leased + s.Resetting + s.Retiring }

// Stats returns the pool's numbers.
func (p *Pool[C]) Stats() Stats {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	return Stats{
		State: p.mode.String(), Usable: p.usable, Cap: p.capacity, Ceiling: p.limit, Warm: p.warm, Weight: p.weight, Ramp: p.ramp,
		Dialing: p.counts[Dialing], Idle: p.counts[Idle], Leased: p.counts[Leased],
		Resetting: p.counts[Resetting], Retiring: p.counts[Retiring], Totals: p.totals,
	}
}
