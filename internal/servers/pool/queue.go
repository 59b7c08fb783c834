package pool

import "time"

// Waiter is a client that is to get a connection. It is used once.
type Waiter[C any] struct {
	// Set by the caller before Acquire.
	Key     uint64 // what [Hash] chooses the backend by
	Variant string // the variant of the connection that the client needs
	Tenant  string // whose client it is; empty for a client without a tenant
	// Begun tells that a session needs another connection: its place in the queue is not given to a client of another tenant.
	Begun bool
	// Back tells that a full server has refused the client after it had been served: it comes before all of its tenant that came later, and
	// the queue's limit does not apply. Place is its number in the queue from the last time ([Waiter.Ticket]); 0 for the first time.
	Back  bool
	Place uint64
	// Ahead tells that the client is in the middle of a session whose server must not or cannot continue it: it is served before all others, and
	// the queue's limit does not apply. Only then do Avoid and Only count.
	Ahead bool
	// Avoid is a pool whose connections the client gets only while no other pool has room for it, or can make some; nil for none.
	Avoid *Pool[C]
	// Only is the pool whose connection the client needs; nil for any.
	Only *Pool[C]

	// Prefer is a pool whose connection the client gets if one is idle, and that dials for the client if it has room; nil for none. Otherwise any
	// other pool will do. A client waits no longer for that, unless it is Ahead and the pool can dial.
	Prefer *Pool[C]

	// Set with the group's mutex held. The caller reads lease and refused after it has received from ready.
	ready   chan C // of size one; set when the client is queued
	lease   uint64
	refused error // see Refused

	// Guarded by the group's mutex.
	tenant    *tenant[C]
	in        [2]neighbours[C] // the lists of waiters
	queue     *tenantQueue[C]  // the clients of its tenant that need the same variant; nil when it does not wait
	ticket    uint64           // its number among all clients that ever had to wait
	overtaken int              // how often a client that came later was served while no backend could dial for this one
	since     Instant
	position  int
}

// Ready returns the channel that a client which Acquire has queued gets its connection from. The channel is closed without a connection
// when the client was refused: see [Waiter.Refused].
func (w *Waiter[C]) Ready() <-chan C { return w.ready }

// Refused returns why the server refused a connection with what this client says, or [ErrEvicted]; nil if neither happened. It may be
// called after a receive from Ready, or after [Group.Leave] has returned no lease.
func (w *Waiter[C]) Refused() error { return w.refused }

// Lease returns the number of the client's lease, once it has one: 1 for the first of its connection. The methods of [Slot] that end the
// lease take it.
func (w *Waiter[C]) Lease() uint64 { return w.lease }

// Position returns how many clients were waiting when this one was queued, itself included: 1 for the first; 0 when it did
// not have to wait.
func (w *Waiter[C]) Position() int { return w.position }

// Ticket returns the client's number among all clients of the group that ever had to wait: of two that wait, the one with the lower
// number came first. It may be called after Acquire has queued the client.
func (w *Waiter[C]) Ticket() uint64 { return w.ticket }

// take leases a connection of the pool, which must have an idle one, to the client.
func (w *Waiter[C]) take(p *Pool[C]) C {
	s := p.takeNewest(p.find(w.Variant))
	g, t := p.group, w.tenant
	s.tenant = t
	t.totals.Leased++
	g.use(t, 1)
	if w.queue == nil && !w.Ahead { // it did not have to wait, and has used up its tenant's turn if others come
		t.served = g.queue.virtual + t.turn
	}
	w.lease = uint64(s.sessions)
	return s.conn
}

// Departure is why a client leaves the queue without a connection.
type Departure uint8

// The reasons for leaving.
const (
	// TimedOut: the client has waited as long as clients may.
	TimedOut Departure = iota
	// LeftEarly: the client closed its connection.
	LeftEarly
	// TurnedAway: the proxy shuts down, the service was removed, or an operator ended the wait.
	TurnedAway
)

// QueueTotals counts since the group was made.
type QueueTotals struct {
	Queued     uint64 // clients that had to wait
	Served     uint64 // of those, clients that got a connection
	TimedOut   uint64 // clients that waited without success
	Left       uint64 // clients that left before
	TurnedAway uint64 // clients whose wait the proxy ended
	Refused    uint64 // clients whose server refused what they say in their handshake
	Full       uint64 // clients that could not be queued
	Evicted    uint64 // clients whose place in the full queue a client of another tenant got
	// WaitedSeconds is how long the clients that got a connection have waited for it, in total.
	WaitedSeconds float64
}

func (t *QueueTotals) count(d Departure) {
	switch d {
	case TimedOut:
		t.TimedOut++
	case LeftEarly:
		t.Left++
	case TurnedAway:
		t.TurnedAway++
	}
}

// QueueStats is a queue at one instant.
type QueueStats struct {
	Limit         int
	Waiting       int
	Paused        bool    // clients wait until the group is resumed
	OldestSeconds float64 // how long the first has waited
	Totals        QueueTotals
}

// queue is the clients that wait, by tenant. Those of one tenant are served in the order in which they came; fair.go says which tenant is
// served next. All of it is guarded by the group's mutex.
type queue[C any] struct {
	limit    int
	length   int                         // with those ahead
	ahead    []*Waiter[C]                // see ahead.go
	base     variantQueue[C]             // for the variant without a name
	variants map[string]*variantQueue[C] // for the others that clients wait for
	counts   uint64                      // see beginCount
	totals   QueueTotals
	waited   time.Duration
	now      func() Instant // static
	group    *Group[C]      // static

	// Of the tenants whose clients wait.
	order     heap[*tenant[C]] // the one to be served next is first
	fullest   heap[*tenant[C]] // the one with the most waiting clients for its share is first
	deadlines heap[*tenant[C]] // those without sessions that are not overdue, the one with the earliest deadline first
	shares    float64          // the sum of their shares
	virtual   float64          // see advance
	steps     heap[step[C]]    // for walk, whose memory is kept for the next one
}

func (q *queue[C]) push(w *Waiter[C], now Instant) error {
	t := w.tenant
	if q.length >= q.limit && !(q.limit > 0 && (w.Back || q.length < q.limit+q.group.vacant(t))) && !q.makeRoom(t) {
		q.totals.Full++
		t.totals.Full++
		if q.limit == 0 {
			return ErrNoQueue
		}
		return ErrQueueFull
	}
	w.ready = make(chan C, 1)
	w.since = now
	w.ticket = q.totals.Queued + 1
	if w.Back {
		w.ticket = w.Place
		if w.ticket == 0 {
			w.ticket = q.totals.Queued + 1
			if t.first != nil {
				w.ticket = t.first.ticket
			}
		}
	}
	t.insert(w, ofTenant)
	t.waiting++
	t.totals.Queued++
	q.length++
	w.position = q.length
	q.totals.Queued++
	if t.waiting == 1 {
		q.enter(t)
	} else {
		q.fullest.fix(t)
	}
	q.join(w)
	if w.Back && t.first == w && t.waiting > 1 {
		q.order.fix(t)
	}
	return nil
}

// served takes out a client that gets a connection.
func (q *queue[C]) served(w *Waiter[C]) {
	if !w.Ahead {
		q.advance(w.tenant)
	}
	q.remove(w)
	q.totals.Served++
	q.waited += time.Duration(q.now() - w.since)
}

// refuse takes out the clients who wait for connections of a variant, because the server has refused one.
func (q *queue[C]) refuse(variant string, why error) {
	for i := len(q.ahead) - 1; i >= 0; i-- {
		if w := q.ahead[i]; w.Variant == variant {
			q.removeAhead(w)
			q.totals.Refused++
			q.group.forgetTenant(w.tenant)
			w.refuse(why)
		}
	}
	l := q.ofVariant(variant)
	for l != nil {
		best, ok := l.tenants.best()
		if !ok {
			break
		}
		w := best.first
		q.remove(w)
		q.totals.Refused++
		q.group.forgetTenant(w.tenant)
		w.refuse(why)
	}
}

// refuse tells a client that has been taken out that it gets no connection. From then on, the caller of Acquire alone uses w.
func (w *Waiter[C]) refuse(why error) {
	w.refused = why
	close(w.ready)
}

// makeRoom takes a place of the full queue from the tenant that has most waiting clients for its share, unless t would then have more: its
// last client is refused. A tenant whose guaranteed places are free gets one in any case.
func (q *queue[C]) makeRoom(t *tenant[C]) bool {
	most, ok := q.fullest.best()
	if !ok || most == t {
		return false
	}
	if t.inUse+t.waiting >= t.guaranteed && float64(t.waiting+1)/t.share >= float64(most.waiting)/most.share {
		return false
	}
	w := most.last
	for w != nil && w.Begun {
		w = w.in[ofTenant].ahead
	}
	if w == nil {
		return false
	}
	q.remove(w)
	q.totals.Evicted++
	most.totals.Evicted++
	w.refuse(ErrEvicted)
	q.group.forgetTenant(most)
	return true
}

// remove takes a client out, and returns false when it is not queued.
func (q *queue[C]) remove(w *Waiter[C]) bool {
	if w.Ahead {
		return q.removeAhead(w)
	}
	if w.queue == nil {
		return false
	}
	t := w.tenant
	wasFirst := t.first == w
	t.remove(w, ofTenant)
	q.length--
	t.waiting--
	q.quit(w)
	if t.waiting == 0 {
		q.exit(t)
		return true
	}
	q.fullest.fix(t)
	if wasFirst {
		q.order.fix(t)
	}
	return true
}

func (q *queue[C]) stats(now Instant) QueueStats {
	s := QueueStats{Limit: q.limit, Waiting: q.length, Totals: q.totals}
	s.Totals.WaitedSeconds = q.waited.Seconds()
	if len(q.ahead) > 0 {
		s.OldestSeconds = time.Duration(now - q.ahead[0].since).Seconds()
	}
	for _, t := range q.order.items {
		s.OldestSeconds = max(s.OldestSeconds, time.Duration(now-t.first.since).Seconds())
	}
	return s
}
