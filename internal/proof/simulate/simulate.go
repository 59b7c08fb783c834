// Package simulate lets hundreds of proxies share the places of many servers in virtual time, with the real ledger and the real holders,
// and measures how fast places move to where clients wait, how fairly they are shared, and how much the database has to do. It is called by
// a test and by internal/proof/explore/cmd.
package simulate

import (
	"container/heap"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/storage"
)

// Options are what is simulated.
type Options struct {
	Proxies, Servers int
	Cap              int // places of each server
	Seed             uint64
	Time             time.Duration // virtual
	// Load is which part of all places the sessions use on average.
	Load float64
	// Session is how long a session lasts on average.
	Session time.Duration
	// Shift is how long the clients of one server prefer the same proxies.
	Shift time.Duration
	Warm  int // connections that each proxy keeps idle at each server
}

// Result is what came out.
type Result struct {
	Sessions int
	// Waited are how long clients waited for a place that another proxy had idle, sorted. Clients that came when all places of the server
	// were in use are not among them.
	Waited []time.Duration
	// Heartbeats are exchanges a second in which nothing changed, Reads those that only heard of others' changes, and Writes the rest.
	Heartbeats, Reads, Writes float64
	// Unfair is by how many places of a hundred grants differ from fair ones after everybody has wanted more than there is for a minute.
	Unfair float64
	// Above is how often there were more connections than places.
	Above int
}

// Percentile returns how long the given part of the clients waited at most.
func (r *Result) Percentile(p float64) time.Duration {
	if len(r.Waited) == 0 {
		return 0
	}
	return r.Waited[min(len(r.Waited)-1, int(p*float64(len(r.Waited))))]
}

const (
	dialing = 20 * time.Millisecond // how long it takes to open a connection, or to close one
	latency = 2 * time.Millisecond  // of a message to the database or from it
	soonest = 100 * time.Millisecond
)

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// pool is one proxy's connections to one server.
type pool struct {
	server                       int
	limit                        int
	opening, idle, busy, closing int
	waiting                      []time.Duration // since when clients wait
	demand                       int             // clients that come and never stop coming
}

func (p *pool) used() int { return p.opening + p.idle + p.busy + p.closing }

type proxy struct {
	id        fleet.ID
	holder    *fleet.Holder
	pools     []pool
	under     bool // an exchange is under way
	again     bool // another is wanted as soon as it may be
	exchanges int  // counts exchanges, so that an early exchange puts the next one off
}

type simulation struct {
	o          Options
	rng        *rand.Rand
	now        time.Duration
	queue      events
	order      int
	ledger     *fleet.Ledger
	proxies    []*proxy
	used       []int           // connections of each server
	taken      []int           // sessions and waiting clients of each server
	full       []time.Duration // when all places of each server were last needed
	weights    [][]float64     // by server and proxy
	result     Result
	heartbeats int
	reads      int
	writes     int
}

// Run simulates.
func Run(o Options) *Result {
	s := &simulation{
		o: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), ledger: storage.NewLedger(), used: make([]int, o.Servers), taken: make([]int, o.Servers),
		full: make([]time.Duration, o.Servers), weights: make([][]float64, o.Servers),
	}
	for server := range o.Servers {
		s.full[server] = -time.Hour
		s.weights[server] = make([]float64, o.Proxies)
		for p := range o.Proxies {
			s.weights[server][p] = s.rng.ExpFloat64()
		}
		s.arrive(server)
		s.shift(server)
	}
	for i := range o.Proxies {
		id := fleet.ID(fmt.Sprintf("%016x", s.rng.Uint64()))
		p := &proxy{id: id, holder: fleet.NewHolder(fleet.HolderOptions{ID: id}), pools: make([]pool, o.Servers)}
		for server := range p.pools {
			p.pools[server].server = server
		}
		s.proxies = append(s.proxies, p)
		s.after(time.Duration(s.rng.Int64N(int64(time.Second)))+time.Duration(i)*time.Millisecond, func() { s.exchange(p) })
	}
	s.until(10 * time.Second) // all have joined
	s.heartbeats, s.reads, s.writes, s.result.Waited = 0, 0, 0, nil
	s.until(10*time.Second + o.Time)
	seconds := o.Time.Seconds()
	s.result.Heartbeats, s.result.Reads, s.result.Writes = float64(s.heartbeats)/seconds, float64(s.reads)/seconds, float64(s.writes)/seconds
	waited := slices.Clone(s.result.Waited)
	slices.Sort(waited)

	for _, p := range s.proxies {
		for i := range p.pools {
			p.pools[i].demand = 1 + s.rng.IntN(2*o.Cap/o.Proxies+2)
		}
	}
	s.until(10*time.Second + o.Time + max(o.Time, 3*o.Session))
	off, all := 0, 0
	for _, a := range s.ledger.Accounts {
		for i, n := range fleet.Fair(a) {
			off += max(n-a.Grants[i].Places, a.Grants[i].Places-n)
			all += a.Grants[i].Places
		}
	}
	s.result.Waited = waited
	s.result.Unfair = 100 * float64(off) / float64(max(all, 1))
	return &s.result
}

func (s *simulation) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.queue, event{s.now + d, s.order, do})
}

func (s *simulation) until(end time.Duration) {
	for len(s.queue) > 0 && s.queue[0].at <= end {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

// shift lets the clients of a server prefer other proxies.
func (s *simulation) shift(server int) {
	s.after(time.Duration(s.rng.ExpFloat64()*float64(s.o.Shift)/float64(s.o.Proxies)), func() {
		s.weights[server][s.rng.IntN(s.o.Proxies)] = s.rng.ExpFloat64()
		s.shift(server)
	})
}

// arrive lets a client come to a server through one of the proxies, and then the next.
func (s *simulation) arrive(server int) {
	rate := s.o.Load * float64(s.o.Cap) / s.o.Session.Seconds()
	s.after(time.Duration(s.rng.ExpFloat64()/rate*float64(time.Second)), func() {
		total := 0.0
		for _, w := range s.weights[server] {
			total += w
		}
		at, chosen := s.rng.Float64()*total, 0
		for i, w := range s.weights[server] {
			if at -= w; at <= 0 {
				chosen = i
				break
			}
		}
		p := s.proxies[chosen]
		q := &p.pools[server]
		s.result.Sessions++
		if s.taken[server]++; s.taken[server] > s.o.Cap {
			s.full[server] = s.now
		}
		q.waiting = append(q.waiting, s.now)
		s.work(p, q)
		s.poke(p)
		s.arrive(server)
	})
}

// work serves waiting clients, keeps connections warm, and closes what is above the limit.
func (s *simulation) work(p *proxy, q *pool) {
	for q.idle > 0 && q.used() > q.limit {
		s.close(p, q)
	}
	for q.idle > 0 && (len(q.waiting) > 0 || q.demand > q.busy) {
		q.idle--
		q.busy++
		if len(q.waiting) > 0 {
			since := q.waiting[0]
			q.waiting = q.waiting[1:]
			if waited := s.now - since - dialing; s.full[q.server] < since && waited > 0 {
				s.result.Waited = append(s.result.Waited, waited)
			}
		}
		s.after(time.Duration(s.rng.ExpFloat64()*float64(s.o.Session)), func() {
			q.busy--
			q.idle++
			s.taken[q.server]--
			s.work(p, q)
			s.poke(p)
		})
	}
	for q.used() < q.limit && q.opening+q.idle < len(q.waiting)+max(0, q.demand-q.busy)+s.o.Warm {
		q.opening++
		if s.used[q.server]++; s.used[q.server] > s.o.Cap {
			s.result.Above++
		}
		s.after(dialing, func() {
			q.opening--
			q.idle++
			s.work(p, q)
		})
	}
}

func (s *simulation) close(p *proxy, q *pool) {
	q.idle--
	q.closing++
	s.after(dialing, func() {
		q.closing--
		s.used[q.server]--
		s.work(p, q)
		s.poke(p)
	})
}

// use gives a proxy's holder how its pools use the servers.
func (s *simulation) use(p *proxy) {
	for i := range p.pools {
		q := &p.pools[i]
		needs := q.busy + len(q.waiting) + max(0, q.demand-q.busy)
		waited := 0
		if len(q.waiting) > 0 {
			waited = int((s.now - q.waiting[0]).Seconds())
		}
		p.holder.Use(name(i), fleet.Usage{
			Cap: s.o.Cap, Used: q.used(), Needs: needs, Waiting: len(q.waiting), Wants: needs + s.o.Warm, Waited: waited,
		})
	}
}

func name(server int) string { return fmt.Sprintf("server-%02d", server) }

// poke makes an exchange if one is due.
func (s *simulation) poke(p *proxy) {
	if p.under || p.again {
		return
	}
	s.use(p)
	if p.holder.Due(fleet.Instant(s.now + soonest)) {
		p.again = true
		wait := time.Duration(0)
		if !p.holder.Due(fleet.Instant(s.now)) {
			wait = soonest
		}
		s.after(wait, func() {
			if p.again {
				s.exchange(p)
			}
		})
	}
}

// exchange lets a proxy make an exchange, and then the next one a heartbeat interval later.
func (s *simulation) exchange(p *proxy) {
	p.again = false
	if p.under {
		return
	}
	p.under = true
	s.use(p)
	asked := s.now
	r := p.holder.Report(fleet.Instant(asked))
	s.limits(p)
	s.after(latency, func() {
		version := s.ledger.Version
		a := s.ledger.Exchange(r, "database", "epoch")
		switch {
		case !r.Quiet() || s.ledger.Version != version:
			s.writes++
		case r.Version != version:
			s.reads++
		default:
			s.heartbeats++
		}
		var woken []fleet.ID // as a store does it
		for _, server := range slices.Sorted(maps.Keys(s.ledger.Accounts)) {
			if account := s.ledger.Accounts[server]; account.Version == s.ledger.Version && s.ledger.Version != version {
				woken = append(woken, account.Wakes(p.id)...)
			}
		}
		slices.Sort(woken)
		for _, id := range slices.Compact(woken) {
			i := slices.IndexFunc(s.proxies, func(o *proxy) bool { return o.id == id })
			other := s.proxies[i]
			s.after(latency, func() {
				if !other.again && !other.under {
					other.again = true
					s.after(0, func() {
						if other.again {
							s.exchange(other)
						}
					})
				}
			})
		}
		s.after(latency, func() {
			p.under = false
			p.holder.Answered(r, a, fleet.Instant(asked), fleet.Instant(s.now))
			s.limits(p)
			p.exchanges++
			made := p.exchanges
			s.after(time.Duration(float64(p.holder.HeartbeatInterval(true))*(0.9+0.2*s.rng.Float64())), func() {
				if p.exchanges == made {
					s.exchange(p)
				}
			})
			s.poke(p)
		})
	})
}

// limits gives a proxy's pools their limits.
func (s *simulation) limits(p *proxy) {
	for i := range p.pools {
		q := &p.pools[i]
		if limit := p.holder.Limit(name(i)); limit != q.limit {
			q.limit = limit
			s.work(p, q)
		}
	}
}

// String tells the result in one line.
func (r *Result) String() string {
	ms := func(d time.Duration) string {
		return fmt.Sprintf("%.0f ms", math.Ceil(float64(d)/float64(time.Millisecond)))
	}
	return fmt.Sprintf("%d sessions; %d waited for a place to move: median %s, p99 %s, longest %s; a second: %.0f heartbeats, %.0f reads, %.0f writes; %.1f %% unfair; %d times above the cap",
		r.Sessions, len(r.Waited), ms(r.Percentile(0.5)), ms(r.Percentile(0.99)), ms(r.Percentile(1)), r.Heartbeats, r.Reads, r.Writes, r.Unfair, r.Above)
}
