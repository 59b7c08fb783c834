package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Recent is what has happened lately, which the statistics of one instant do not know. The zero value is that nothing has.
type Recent struct {
	// Of the last minute; 0 if it did not happen within the last seconds.
	Began    uint64         // sessions
	Failed   uint64         // sessions that ended by a fault of a backend or of the proxy
	Refused  map[int]uint64 // clients without a session, by HTTP status
	LeftOut  uint64         // lines of the access log
	Internal uint64         // internal errors
	// TLSRefused is how many TLS handshakes clients have broken off because they do not accept the proxy's certificate.
	TLSRefused uint64

	// Held are the kinds of problems that have held within the same minute: they explain what clients got.
	Held []Kind

	// Full is how many clients found the queue of a service full, by service.
	Full map[string]uint64
	// Limits are those that have been reached repeatedly within the last seconds.
	Limits []api.LimitReached
	// Replies are the first replies of backends that had some.
	Replies map[BackendName]Reply
	// Flaps are the backends that went in and out of health several times within some minutes, and have not been quiet for long enough since.
	Flaps map[BackendName]Flap
	// Hangs are the backends that hang.
	Hangs map[BackendName]Hang
	// StoreReason and LedgerReason are the first reasons why the store of the configuration and the ledger fail; empty while they do not. The
	// driver has another one with each try.
	StoreReason, LedgerReason string
	// Jump is how far the wall clock was set, forward or back, and when; zero for not lately.
	Jump   time.Duration
	Jumped time.Time
}

// BackendName names a backend of a service.
type BackendName struct{ Service, Backend string }

const (
	window = time.Minute     // of what Recent counts
	grain  = 5 * time.Second // how exactly it begins
	// leap is by how much the wall clock must differ from the other clock within a second to have been set. Time servers correct less.
	leap = 2 * time.Second
)

// recent makes a Recent of a proxy's successive statistics. The zero value has seen none.
type recent struct {
	seen    bool
	now     time.Time
	elapsed time.Duration

	began, failed, leftOut, internal, tlsRefused risen
	refused                                      map[int]*risen
	full                                         map[string]*risen
	limits                                       map[api.LimitReached]*reached // by all but the count and time
	replies                                      map[BackendName]*replies
	flaps                                        map[BackendName]*flaps
	hangs                                        map[BackendName]Hang
	storeReason, ledgerReason                    string
	jump                                         time.Duration
	jumped                                       time.Time
	jumpedAt                                     time.Duration
}

// observe takes the next statistics.
func (r *recent) observe(o *Observation) Recent {
	if !r.seen {
		r.refused, r.full = make(map[int]*risen), make(map[string]*risen)
		r.now, r.elapsed = o.Now, o.Elapsed
	}
	all, at := Recent{Refused: make(map[int]uint64)}, o.Elapsed
	s := o.Stats
	all.Began = r.began.next(s.Sessions.Total, at, r.seen)
	all.Failed = r.failed.next(o.Meters.Total.Failed(), at, r.seen)
	all.LeftOut = r.leftOut.next(s.AccessLog.LeftOut, at, r.seen)
	all.Internal = r.internal.next(s.InternalErrors, at, false)
	all.Failed, all.LeftOut = r.failed.unlessQuiet(all.Failed, at), r.leftOut.unlessQuiet(all.LeftOut, at)
	all.TLSRefused = r.tlsRefused.next(tlsRefused(s), at, r.seen)
	for status, n := range s.Sessions.Refused {
		counter := r.refused[status]
		if counter == nil {
			counter = new(risen)
			r.refused[status] = counter
			if r.seen {
				counter.next(0, at, true)
			}
		}
		if n = counter.unlessQuiet(counter.next(n, at, r.seen), at); n > 0 {
			all.Refused[status] = n
		}
	}
	all.Full = make(map[string]uint64)
	for i := range s.Services {
		v := &s.Services[i]
		counter := r.full[v.Name]
		if counter == nil {
			counter = new(risen)
			r.full[v.Name] = counter
		}
		if n := counter.unlessQuiet(counter.next(v.Queue.Totals.Full+v.Queue.Totals.Evicted, at, false), at); n > 0 {
			all.Full[v.Name] = n
		}
	}
	all.Limits = r.limitsOf(s.Limits.Lately, at)
	all.Replies = r.repliesOf(o.Meters.Backends, at)
	all.Flaps, all.Hangs = r.flapsOf(o), r.hangsOf(o)
	store, ledger := "", ""
	if c := &s.Configuration; c.State != "current" {
		store = c.Reason
	}
	if s.Fleet != nil {
		ledger = s.Fleet.Problem
	}
	r.storeReason, r.ledgerReason = firstReason(r.storeReason, store), firstReason(r.ledgerReason, ledger)
	all.StoreReason, all.LedgerReason = r.storeReason, r.ledgerReason
	if jump := o.Now.Round(0).Sub(r.now.Round(0)) - (o.Elapsed - r.elapsed); jump.Abs() >= leap {
		r.jump, r.jumped, r.jumpedAt = jump, o.Now, at
	}
	if r.jump != 0 && at-r.jumpedAt < quiet {
		all.Jump, all.Jumped = r.jump, r.jumped
	}
	r.seen, r.now, r.elapsed = true, o.Now, o.Elapsed
	return all
}

// tlsRefused returns how many TLS handshakes clients have broken off with an alert.
func tlsRefused(s *api.Stats) (n uint64) {
	if s.TLS == nil {
		return 0
	}
	for _, h := range s.TLS.Handshakes {
		if h.Result == "refused-by-client" {
			n += h.Count
		}
	}
	return n
}

// firstReason returns the first reason of a failure that lasts; empty once there is none.
func firstReason(first, now string) string {
	if now == "" {
		return ""
	}
	return cmp.Or(first, now)
}

// risen knows by how much a counter has risen within the window.
type risen struct {
	last    uint64
	rose    time.Duration // when it rose last
	ever    bool          // it has risen
	samples []sample      // one for each grain, oldest first
}

type sample struct {
	at    time.Duration
	value uint64 // before
}

// next takes the counter's next value, and returns by how much it has risen within the window. The first value is no rise, unless known is true:
// then the value before was 0.
func (c *risen) next(value uint64, at time.Duration, known bool) uint64 {
	if len(c.samples) == 0 && !known {
		c.last = value
	}
	if value < c.last { // it began anew
		c.last, c.samples = 0, nil
	}
	if value > c.last {
		c.rose, c.ever = at, true
	}
	if n := len(c.samples); n == 0 || at-c.samples[n-1].at >= grain {
		c.samples = append(c.samples, sample{at, c.last})
	}
	for len(c.samples) > 1 && at-c.samples[0].at >= window {
		c.samples = slices.Delete(c.samples, 0, 1)
	}
	c.last = value
	return value - c.samples[0].value
}

// unlessQuiet returns n, or 0 if the counter has not risen within the last seconds.
func (c *risen) unlessQuiet(n uint64, at time.Duration) uint64 {
	if !c.ever || at-c.rose >= quiet {
		return 0
	}
	return n
}

// reached is how often a limit was reached.
type reached struct {
	count  uint64
	before time.Duration // when it was reached last but one
	last   time.Duration
	times  int // that the count was seen to rise
}

// limitsOf returns which limits are being reached: once is none, since any client may try.
func (r *recent) limitsOf(lately []api.LimitReached, at time.Duration) (all []api.LimitReached) {
	present := make(map[api.LimitReached]*reached, len(lately))
	for _, l := range lately {
		key := api.LimitReached{LimitTotal: api.LimitTotal{Limit: l.Limit, Scope: l.Scope}, Name: l.Name}
		known := r.limits[key]
		if known == nil {
			known = new(reached)
		}
		present[key] = known
		if l.Count > known.count {
			known.before, known.last, known.times = known.last, at, known.times+1
		}
		known.count = l.Count
		if known.times > 1 && at-known.last < quiet && known.last-known.before < 2*quiet {
			all = append(all, l)
		}
	}
	r.limits = present
	return all
}

const (
	// forgotten is for how long a backend without a first reply keeps what is known of them.
	forgotten = 5 * time.Minute
	// weighty is of how many sessions the latest half counts as much as all before, about.
	weighty = 15
	// least is the part that what was known keeps, however many sessions come: a second is not the whole truth.
	least = 0.8
)

// replies is a moving distribution of the first replies of a backend.
type replies struct {
	before meter.Distribution
	counts [len(meter.Distribution{}.Counts)]float64
	sums   [len(meter.Distribution{}.Sums)]float64 // in seconds
	count  int                                     // within the time after which they are forgotten
	latest time.Duration
}

// repliesOf takes what was counted of all backends.
func (r *recent) repliesOf(backends []meter.BackendTotals, at time.Duration) map[BackendName]Reply {
	all, present := make(map[BackendName]Reply), make(map[BackendName]*replies, len(backends))
	for i := range backends {
		b := &backends[i]
		name := BackendName{b.Service, b.Backend}
		known := r.replies[name]
		if known == nil {
			known = new(replies)
			if !r.seen {
				known.before = b.FirstReply
			}
		}
		present[name] = known
		known.take(&b.FirstReply, at)
		if reply := known.reply(); reply.Sessions > 0 {
			all[name] = reply
		}
	}
	r.replies = present
	return all
}

// take adds what was counted since the last time.
func (r *replies) take(now *meter.Distribution, at time.Duration) {
	fresh := now.Since(r.before)
	n := fresh.Count()
	r.before = *now
	if n == 0 {
		if at-r.latest >= forgotten {
			r.counts, r.sums, r.count = [len(r.counts)]float64{}, [len(r.sums)]float64{}, 0
		}
		return
	}
	keep := max(least, 1-float64(n)/weighty)
	for i := range r.counts {
		r.counts[i] = keep*r.counts[i] + float64(fresh.Counts[i])
		r.sums[i] = keep*r.sums[i] + fresh.Sums[i]
	}
	r.count, r.latest = r.count+int(n), at
}

// reply returns what a typical session has: the mean of the bucket in which the median is, so that a few slow ones do not matter.
func (r *replies) reply() Reply {
	total := 0.0
	for _, n := range r.counts {
		total += n
	}
	left := total / 2
	for i, n := range r.counts {
		if n > 0 && left <= n {
			return Reply{Seconds: r.sums[i] / n, Sessions: r.count}
		}
		left -= n
	}
	return Reply{}
}
