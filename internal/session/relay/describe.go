package relay

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// The states of clients that wait for their first connection, and of sessions that wait for their clients, beside those that sessions have.
const (
	StateWaiting = "waiting"
	StateParked  = "parked"
)

// Description is a session, or a client that waits for one, at one instant.
type Description struct {
	record.Record            // what is known of it so far; Relayed is up to date, Leased is zero while it waits
	Usage         meter.Used // so far
	State         string     // relaying and so on, or one of those above
	Place         int        // in its service's queue: 1 is served next; 0 if it does not wait for its first connection
	Moves         int        // connections that could not serve it
	Decided       bool       // its end is decided: By, Code and Reason say how
	Taps          int        // that watch it
	Timing        Timing     // at this instant

	// Recoverable: another server could continue it. Unrecoverable says why none could, if its service has Failover.
	Recoverable   bool
	Unrecoverable string
	Kept          int64 // bytes that are kept for the next server
}

// Detail is what only one session at a time is asked for.
type Detail struct {
	Description
	Host, Profile, Variant string
	Paused, BackendPaused  bool                 // the side is not read at present
	HeldBack               string               // the limit that keeps the client from being read; empty for none
	HeldBackSince          time.Time            // zero for not
	ToClient, ToBackend    int                  // bytes that the side's socket has not taken yet
	Server                 *backend.Description // the connection that it holds; nil for none
	Waiting                int                  // clients in its service's queue, if it waits
	Until                  time.Time            // when its wait times out, if it waits for its first connection or is moving
	Before                 []record.Record      // earlier sessions of its connection, newest first
	Recoverability         *Recoverability      // nil if no other server can continue it
}

// List returns all sessions and waiting clients, in no order. It must not be called on a loop, and takes as long as [Sessions.Describe].
func (s *Sessions) List() (all []Description) {
	s.Describe(func(some []Description) { all = append(all, some...) })
	return all
}

// describeOver is how long Describe may take for thousands of sessions, whose rates are shown.
const describeOver = 100 * time.Millisecond

// Describe calls f with all sessions and waiting clients in no order, at most atOnce at a time, so that no caller needs memory for all
// of them. f must not keep the slice. Describe must not be called on a loop, holds none for longer than some 25 microseconds, and takes up to
// describeOver if there are many.
func (s *Sessions) Describe(f func(some []Description)) {
	sessions, clients := s.registry.all()
	some := make([]Description, 0, min(atOnce, max(perTurn, len(sessions))))
	flush := func() {
		f(some)
		some = some[:0]
	}
	s.eachOver(describeOver, sessions, func(session *Session) { some = append(some, session.describe()) }, flush)
	places := record.PlacesOf(clients)
	for turn := range slices.Chunk(clients, perTurn) {
		for _, w := range turn {
			some = append(some, describeWaiting(w, places[w]))
		}
		flush()
	}
}

func describeWaiting(w *record.Waiting, place int) Description {
	d := Description{State: StateWaiting, Place: place}
	d.Begin(w.Service, &w.Client)
	d.Leased = time.Time{}
	return d
}

// describe is called on the session's loop.
func (s *Session) describe() Description {
	d := Description{Record: s.record, State: s.life.state.String(), Moves: int(s.life.turnedAway), Decided: !s.record.Ended.IsZero()}
	d.Relayed, d.Usage, d.Taps, d.Timing = s.relayed(), s.used(), s.tap.Count(), s.timing(s.client.Loop().Now())
	if resume.Of(s.client).Parked() {
		d.State = StateParked
	}
	s.failover.describe(&d)
	return d
}

// Detail returns one session or waiting client in detail. ok is false if there is none of that id; then the record tells whether it is
// remembered as one that has ended. It must not be called on a loop.
func (s *Sessions) Detail(id record.ID) (d Detail, ok bool) {
	if id.Process != s.shared.Process {
		return d, false
	}
	session, waits := s.registry.find(id.Number)
	if waits != nil {
		_, clients := s.registry.all()
		clients = slices.DeleteFunc(clients, func(w *record.Waiting) bool { return w.Service.Name != waits.Service.Name })
		d.Description = describeWaiting(waits, record.PlacesOf(clients)[waits])
		d.ofService(waits.Service)
		d.Variant, d.Waiting, d.Until = waits.Client.Variant, len(clients), waits.Client.Until
		return d, true
	}
	if session != nil {
		s.Each([]*Session{session}, func(session *Session) { d, ok = session.detail(), true })
	}
	if ok {
		records, _ := s.history.Since(0)
		for _, r := range slices.Backward(records) {
			if d.Backend != nil && r.Backend == d.Backend && r.Connection == d.Connection {
				d.Before = append(d.Before, r)
			}
		}
	}
	return d, ok
}

func (d *Detail) ofService(s *route.Service) { d.Host, d.Profile = s.Host, s.Profile.Name }

// detail is called on the session's loop.
func (s *Session) detail() Detail {
	d := Detail{
		Description: s.describe(), Variant: s.variant, Paused: s.client.Stopped(), ToClient: s.client.Pending(),
	}
	d.ofService(s.record.Service)
	d.Recoverability = s.failover.recoverability()
	if by, since := s.limited.throttle().HeldBack(); since != 0 {
		d.HeldBack, d.HeldBackSince = limits.DescribeCause(by, s.record.Service.Name), time.Now().Add(since.Until())
	}
	if s.life.state == moving && s.search != nil {
		d.Until = s.search.until
	}
	if conn := s.leg.conn; conn != nil {
		d.BackendPaused, d.ToBackend = conn.Stream().Paused(), conn.Stream().Pending()
		server := conn.Describe()
		d.Server = &server
	}
	return d
}

// ID returns the id of the session of that number.
func (s *Sessions) ID(number uint64) record.ID {
	return record.ID{Process: s.shared.Process, Number: number}
}

// Ended returns the records of the sessions that have ended after the first n, oldest first, as far as they are remembered (the last
// 1,024), and how many sessions have ended: the n for the next call.
func (s *Sessions) Ended(n uint64) (records []record.Record, count uint64) { return s.history.Since(n) }

// EndedSession returns the record of a session that has ended, if it is remembered.
func (s *Sessions) EndedSession(id record.ID) (record.Record, bool) { return s.history.Find(id) }

// IDs returns the ids of all sessions and waiting clients, in no order.
func (s *Sessions) IDs() []record.ID {
	numbers := s.registry.numbers()
	ids := make([]record.ID, len(numbers))
	for i, number := range numbers {
		ids[i] = s.ID(number)
	}
	return ids
}
