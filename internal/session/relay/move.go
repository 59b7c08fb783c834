package relay

import (
	"errors"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A connection may turn out to be unable to serve the session that leased it: the backend is full after all, or earlier sessions left
// settings on the connection. The client has got no answer then, and what it has said is known, so that another connection can serve
// it: the session moves there, and its client does not notice.

// errClosed is why a session that begins to search when the server has closed finds nothing.
var errClosed = errors.New("shutting down")

// search is a session's search for another connection. All but waiter is owned by the session's loop.
type search struct {
	waiter  pool.Waiter[*backend.Conn] // the searching goroutine's while that runs
	until   time.Time                  // when it has taken long enough; static
	ended   chan struct{}              // closed when the session no longer needs a connection
	first   profile.Opening            // the client's first message; static
	conn    *backend.Conn              // what was found
	pending uint64                     // the number of the pending move that it began for, until the session moves there; 0 for none
	begun   bool                       // it runs, or has ended
	pause   time.Duration              // before it looks for a connection; static
	full    int                        // full servers that have refused the session in a row; static
}

// newSearch returns a search for a connection of the variant. It times out at until. first is what the connection's backend is sent
// first.
func (s *Session) newSearch(variant string, until time.Time, first profile.Opening) *search {
	search := &search{until: until, ended: make(chan struct{}), first: first}
	search.waiter.Key, search.waiter.Variant, search.waiter.Begun = s.key, variant, true
	search.waiter.Tenant = record.TenantOf(s.record.Identity)
	return search
}

// leaveBackend ends the lease of a connection that cannot serve the session.
func (s *Session) leaveBackend(e *event) {
	l := &s.leg
	s.stopKeepalives()
	s.account.affinity.endLeg(l.conn)
	l.sent.midMessage, l.sent.midFrame = false, false // nothing of it was sent
	variant := s.variant
	if e.why == profile.OtherSettings {
		variant = s.record.Service.Variants.WithSettings(variant, e.settings)
	}
	if f := s.failover; f != nil {
		s.leaveForFailover(e, variant)
		return
	}
	s.search = s.newSearch(variant, time.Now().Add(s.record.Service.QueueTimeout), l.opening())
	s.account.affinity.lead(&s.search.waiter, e.why)
	if e.full {
		s.backInQueue()
	}
	l.conn.End(backend.Ending{
		Traffic: l.traffic(l.sent), Code: frame.GoingAway, Text: "session moved to another connection", Full: l.full,
		Client: s.voter(),
	})
	s.leg = leg{}
}

// leaveForFailover is leaveBackend for a session that may outlive its server, which has perhaps failed.
func (s *Session) leaveForFailover(e *event, variant string) {
	f, l := s.failover, &s.leg
	ending := backend.Ending{
		Traffic: l.traffic(l.sent), MidFrame: l.sent.midFrame, Code: frame.GoingAway, Text: "session moved to another connection", Full: l.full,
		Fault: l.fault, Slow: l.slow, Spared: e.kind == interrupted && f.machine.Spares(), Client: s.voter(),
	}
	if e.kind == interrupted && e.closed { // the answer to its close frame
		ending.Code, ending.Text, ending.ClosedWith = e.code, "", e.code
	}
	first := profile.Opening{}
	if !f.machine.Recoverable() && !f.machine.Resumes() {
		first = l.opening()
	}
	if s.search != nil && (s.search.conn == nil || variant != s.variant || e.kind != interrupted) {
		s.stopSearch() // it is for a pending move, and may wait for longer or for other connections than the session can now
	}
	if s.search == nil {
		s.search = f.search(variant, first)
		s.account.affinity.lead(&s.search.waiter, e.why)
	}
	if e.full {
		s.backInQueue()
	}
	f.leave(e)
	l.conn.End(ending)
	s.leg = leg{}
}

// backInQueue has a session whose server is full wait at its client's place in the queue, for as long as clients may.
func (s *Session) backInQueue() {
	search, last := s.search, s.leg.found
	w := &search.waiter
	w.Back = true
	if last != nil && last.full > 0 {
		search.until, search.full, w.Place = last.until, last.full, last.waiter.Ticket()
	}
	if s.leg.conn.RefusesOnly(s.voter()) { // so others may be served there meanwhile
		search.pause = route.Pause(search.full)
	}
	search.full++
}

// wait pauses before a server that was full is asked again.
func (s *search) wait() {
	if s.pause == 0 {
		return
	}
	timer := time.NewTimer(s.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ended:
	}
}

// startSearch looks for a connection in a goroutine of its own, which brings the session there.
func (s *Session) startSearch() {
	sessions, service, client, search := s.sessions, s.record.Service, s.client, s.search
	switch {
	case search.conn != nil: // it was found before the session left
		conn := search.conn
		search.conn = nil
		if !client.Post(func() { s.searched(search, conn, nil) }) {
			conn.ReturnUnused()
		}
		return
	case search.begun:
		return
	}
	search.begun = true
	started := sessions.pending.Go(func() {
		defer sessions.shared.Guard.Recover("search", func() { client.Post(func() { s.searched(search, nil, panics.Err) }) })
		search.wait()
		conn, ok, err := service.Group.Acquire(&search.waiter)
		if !ok && err == nil {
			conn, err = service.Wait(sessions.closing, &search.waiter, search.until, search.ended, nil, nil)
		}
		ok = client.Post(func() { s.searched(search, conn, err) })
		if !ok && conn != nil {
			conn.ReturnUnused()
		}
	})
	if !started { // the server has closed
		client.Post(func() { s.searched(search, nil, errClosed) })
	}
}

// stopSearch tells the searching goroutine that the session no longer needs a connection.
func (s *Session) stopSearch() {
	if s.search != nil {
		close(s.search.ended)
		if conn := s.search.conn; conn != nil && s.search.pending != 0 {
			conn.ReturnUnused()
		}
		s.search = nil
	}
}

// searched continues with the connection that was found, or ends the session if there is none.
func (s *Session) searched(search *search, conn *backend.Conn, err error) {
	e := event{kind: notFound, by: byProxy, class: meter.BackendFull, code: frame.TryAgainLater}
	switch {
	case s.search != search: // the session has ended meanwhile
		if conn != nil {
			conn.ReturnUnused()
		}
		return
	case s.life.state != moving: // for a pending move
		if err == nil && search.waiter.Refused() == nil {
			s.failover.moveFound(search, conn)
			return
		}
		s.search = nil
		s.failover.happens(&failover.Event{
			Kind: failover.MoveUnplaced, Why: "no other connection for it: " + whyNotFound(errors.Join(err, search.waiter.Refused())),
		})
		return
	case err == nil && search.waiter.Refused() == nil:
		s.join(search, conn)
		return
	case search.pending != 0 && s.sessions.closing.Err() == nil:
		s.searchAnywhere()
		return
	case s.sessions.closing.Err() != nil && err != nil:
		e.class, e.code, e.reason = meter.Shutdown, frame.GoingAway, "shutting down"
	case search.waiter.Refused() != nil:
		e.by, e.class, e.code, e.reason = byBackend, meter.BackendRefused, frame.PolicyViolation, search.waiter.Refused().Error()
	case errors.Is(err, panics.Err):
		e.class, e.reason = meter.InternalError, err.Error()
	default:
		e.reason = whyNotFound(err)
	}
	s.failover.endAsLost(&e)
	s.handle(e)
}

// whyNotFound returns why a search found no connection, without the HTTP status of a refusal: the client has its 101 already.
func whyNotFound(err error) string {
	if refusal := (*handshake.Refusal)(nil); errors.As(err, &refusal) {
		return refusal.Reason
	}
	return err.Error()
}

// join takes the client to the connection's loop, and continues there.
func (s *Session) join(search *search, conn *backend.Conn) {
	to := conn.Stream().Home()
	s.deadline.Take()
	s.failover.takeTimers()
	s.account.silence.takeTimers()
	arrived := func() {
		s.enterShard(s.client.Loop())
		s.deadline.Put()
		s.failover.putTimers()
		s.account.silence.putTimers()
		conn.Use(func(alive bool) { s.resume(search, conn, alive) })
	}
	if !loop.Move(to, arrived, s.client) {
		arrived()
	}
}

// resume begins the new leg. It runs on the connection's loop, which is the client's too, unless the connection has been moved
// meanwhile.
func (s *Session) resume(search *search, conn *backend.Conn, alive bool) {
	here := conn.Stream().Home() == s.client.Home()
	switch {
	case here && s.search == search && alive:
		search.conn, search.pending = conn, 0
		s.client.Loop().Handling(s.client) // so that a panic ends the session
		s.handle(event{kind: found})
		return
	case alive:
		conn.EndUnused()
	}
	s.client.Post(func() { s.searchAgain(search) }) // it has been lost since it was found
}

// searchAgain begins the search anew, unless the session has ended meanwhile.
func (s *Session) searchAgain(search *search) {
	switch {
	case s.search != search:
	case search.pending != 0:
		s.searchAnywhere()
	default:
		s.search = s.newSearch(search.waiter.Variant, search.until, search.first)
		w := &s.search.waiter
		last := &search.waiter
		w.Ahead, w.Avoid, w.Only, w.Prefer = last.Ahead, last.Avoid, last.Only, last.Prefer
		w.Back, w.Place = search.waiter.Back, search.waiter.Ticket()
		s.search.full = search.full
		s.startSearch()
	}
}

// searchAnywhere replaces the search for a pending move, of a session that has left its server: any other will do now.
func (s *Session) searchAnywhere() {
	s.search = s.failover.search(s.variant, profile.Opening{})
	s.startSearch()
}

// presentFirst presents the client's first message to the connection that is to serve the session now.
func (s *Session) presentFirst() {
	first := s.leg.first
	s.leg.first = nil
	b := s.leg.conn.Boundary()
	op := first.Opcode
	if b.Inspect(profile.FromClient)&(1<<op) == 0 {
		s.sendUp(op, first.Payload, true)
		return
	}
	step := b.Frame(profile.FromClient, op, int64(len(first.Payload)), true)
	if step.Feed {
		s.leg.conn.ApplyToServer(step)
		step = b.Feed(profile.FromClient, first.Payload, 0, true)
	}
	switch step.Pass {
	case profile.Relay, profile.Release:
		s.sendUp(op, first.Payload, true)
	case profile.Keep:
		s.leg.first = first
	}
	s.act(step)
}
