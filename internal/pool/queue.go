package pool

import "time"

// Waiter is a client that is to get a connection. It is used once.
type Waiter[C any] struct {
	// Set by the caller before Acquire.
	Key     uint64 // what [Hash] chooses the backend by
	Variant string // the variant of the connection that the client needs

	// Set with the group's mutex held. The caller reads lease and refused after it has received from ready.
	ready   chan C // of size one; set when the client is queued
	lease   uint64
	refused error // see Refused

	// Guarded by the group's mutex.
	ahead, behind *Waiter[C] // neighbours in the queue
	line          *line[C]   // the queue of its variant; nil when it does not wait
	before, after *Waiter[C] // neighbours there
	ticket        uint64     // its number among all clients that ever had to wait
	overtaken     int        // how often a client that came later was served while nobody could dial for this one
	since         Instant
	position      int
}

// Ready returns the channel that a client which Acquire has queued gets its connection from. The channel is closed without a connection
// when the server has refused the client: see [Waiter.Refused].
func (w *Waiter[C]) Ready() <-chan C { return w.ready }

// Refused returns why the server refused a connection with what this client says; nil if it did not. It may be called after a
// receive from Ready, or after [Group.Leave] has returned no lease.
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
	TimedOut   uint64 // clients that waited in vain
	Left       uint64 // clients that left before
	TurnedAway uint64 // clients whose wait the proxy ended
	Refused    uint64 // clients whose server refused what they say in their handshake
	Full       uint64 // clients that could not be queued
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

// queue is the clients that wait, in the order in which they came. All of it is guarded by the group's mutex.
type queue[C any] struct {
	limit       int
	length      int
	first, last *Waiter[C]
	base        line[C]             // for the variant without a name
	lines       map[string]*line[C] // for the others that clients wait for
	counts      uint64              // see beginCount
	totals      QueueTotals
	waited      time.Duration
	now         func() Instant
}

func (q *queue[C]) push(w *Waiter[C], now Instant) error {
	if q.length >= q.limit {
		q.totals.Full++
		if q.limit == 0 {
			return ErrNoQueue
		}
		return ErrQueueFull
	}
	w.ready = make(chan C, 1)
	w.ahead, w.since = q.last, now
	if q.last != nil {
		q.last.behind = w
	} else {
		q.first = w
	}
	q.last = w
	q.length++
	w.position = q.length
	q.totals.Queued++
	w.ticket = q.totals.Queued
	q.join(w)
	return nil
}

// served takes out a client that gets a connection.
func (q *queue[C]) served(w *Waiter[C]) {
	q.remove(w)
	q.totals.Served++
	q.waited += time.Duration(q.now() - w.since)
}

// refuse takes out the clients who wait for connections of a variant, because the server has refused one.
func (q *queue[C]) refuse(variant string, why error) {
	for l := q.line(variant); l != nil && l.first != nil; {
		w := l.first
		q.remove(w)
		q.totals.Refused++
		w.refused = why
		close(w.ready)
	}
}

// remove takes a client out, and returns false when it is not queued.
func (q *queue[C]) remove(w *Waiter[C]) bool {
	if w.line == nil {
		return false
	}
	if w.ahead != nil {
		w.ahead.behind = w.behind
	} else {
		q.first = w.behind
	}
	if w.behind != nil {
		w.behind.ahead = w.ahead
	} else {
		q.last = w.ahead
	}
	w.ahead, w.behind = nil, nil
	q.length--
	q.quit(w)
	return true
}

func (q *queue[C]) stats(now Instant) QueueStats {
	s := QueueStats{Limit: q.limit, Waiting: q.length, Totals: q.totals}
	s.Totals.WaitedSeconds = q.waited.Seconds()
	if q.first != nil {
		s.OldestSeconds = time.Duration(now - q.first.since).Seconds()
	}
	return s
}
