package session

import (
	"errors"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// A session may turn out not to be for the connection that it got: the server is full after all, or the connection has
// settings of other sessions. Nothing has been said to the client then, and what it has said is known, so that another
// connection can serve it: the session goes elsewhere, and its client does not notice.

// errClosed is why a session that begins to search when the server has closed finds nothing.
var errClosed = errors.New("shutting down")

// maxMoves is how many connections are tried for a session.
const maxMoves = 16

// search is a session's search for another connection.
type search struct {
	waiter pool.Waiter[*backend.Conn]
	until  time.Time     // when it has taken long enough
	ended  chan struct{} // closed when the session does not need one any more
}

// moveOrEnd acts on a server that cannot serve the session. A client that has closed is not revived for that: its session ends
// as it was about to end.
func (s *Session) moveOrEnd(step profile.Step) {
	switch {
	case s.phase == relaying:
		s.elsewhere(step)
	case s.concluding:
		s.unfit(step)
	default:
		s.refused = step.Reason == profile.Busy
		s.answerClient()
	}
}

// elsewhere ends the lease of a connection that cannot serve the session, and looks for another.
func (s *Session) elsewhere(step profile.Step) {
	why := step.Reason
	b := s.backend.Boundary()
	s.first = b.Opening()
	s.sent = s.sentNow()
	s.sent.midMessage, s.sent.midFrame = false, false // nothing of it was sent
	traffic := s.traffic(s.sent)
	s.timer.Stop()
	s.backend.End(backend.Ending{
		Traffic: traffic, Code: frame.GoingAway, Text: "session goes elsewhere", Full: why == profile.Busy,
		Client: s.record.Client.Addr(),
	})
	s.phase, s.heldBack = seeking, true
	s.down.scanner = new(frame.Scanner) // nothing is on its way to the client
	s.client.Pause()
	if s.moves++; s.moves > maxMoves {
		s.stopSeeking(byProxy, frame.TryAgainLater, why.String())
		return
	}
	variant := s.variant
	if why == profile.OtherSettings {
		variant = s.service.Variants.WithSettings(variant, step.Settings)
	}
	s.search(variant, time.Now().Add(s.service.QueueTimeout))
}

// search looks for another connection.
func (s *Session) search(variant string, until time.Time) {
	s.seek = &search{until: until, ended: make(chan struct{})}
	s.seek.waiter.Key, s.seek.waiter.Variant = s.key, variant
	s.server.find(s, s.seek)
}

// find looks for a connection in a goroutine of its own, and brings the session there.
func (s *Server) find(session *Session, search *search) {
	client, service := session.client, session.service
	started := s.pending.Go(func() {
		defer s.options.Guard.Recover("search", func() { client.Post(func() { session.found(search, nil, mistake.Err) }) })
		conn, ok, err := service.Group.Acquire(&search.waiter)
		if !ok && err == nil {
			conn, err = s.queued(service, &search.waiter, search.until, search.ended)
		}
		ok = client.Post(func() { session.found(search, conn, err) })
		if !ok && conn != nil {
			conn.ReturnUnused()
		}
	})
	if !started { // the server has closed
		client.Post(func() { session.found(search, nil, errClosed) })
	}
}

// found goes on with the connection that was found, or ends the session if there is none.
func (s *Session) found(search *search, conn *backend.Conn, err error) {
	switch {
	case s.seek != search: // the session has ended meanwhile
		if conn != nil {
			conn.ReturnUnused()
		}
	case s.server.drained.Err() != nil && err != nil:
		s.end(byProxy, frame.GoingAway, "shutting down")
	case search.waiter.Refused() != nil:
		s.end(byBackend, frame.PolicyViolation, search.waiter.Refused().Error())
	case err != nil:
		s.end(byProxy, frame.TryAgainLater, err.Error())
	default:
		s.join(search, conn)
	}
}

// join takes the client to the connection's loop, and goes on there.
func (s *Session) join(search *search, conn *backend.Conn) {
	to := conn.Stream().Home()
	s.deadline.Take()
	delete(s.shard.sessions, s)
	arrived := func() {
		s.shard = &s.server.shards[s.client.Loop().ID()]
		s.shard.sessions[s] = struct{}{}
		s.deadline.Put()
		conn.Use(func(alive bool) { s.resume(search, conn, alive) })
	}
	if !loop.Move(to, arrived, s.client) {
		arrived()
	}
}

// resume begins the session again. It runs on the connection's loop, which is the client's too, unless the connection has been
// moved meanwhile.
func (s *Session) resume(search *search, conn *backend.Conn, alive bool) {
	here := conn.Stream().Home() == s.client.Home()
	switch {
	case here && s.seek == search && alive:
		s.seek = nil
		s.backend = conn
		s.messagesBefore = s.scanner.Messages
		if s.first.Opcode != 0 {
			s.messagesBefore--
		}
		s.heldBack = false
		s.sent, s.fault = sent{}, ""
		s.serve()
		if s.serves(conn) {
			s.watchIdle()
		}
		if !s.heldBack && s.serves(conn) {
			s.letThrough()
		}
		return
	case alive:
		conn.EndUnused()
	}
	s.client.Post(func() { // it has been lost since it was found
		if s.seek == search {
			s.search(search.waiter.Variant, search.until)
		}
	})
}

// presentFirst presents the client's first message to the connection that is to serve the session now.
func (s *Session) presentFirst() {
	first := s.first
	s.first = profile.Opening{}
	b := s.backend.Boundary()
	op := first.Opcode
	if b.Inspect(profile.FromClient)&(1<<op) == 0 {
		s.sendUp(op, first.Payload, true)
		return
	}
	step := b.Frame(profile.FromClient, op, int64(len(first.Payload)), true)
	if step.Feed {
		s.backend.ApplyToServer(step)
		step = b.Feed(profile.FromClient, first.Payload, 0, true)
	}
	if step.Pass == profile.Relay || step.Pass == profile.Release {
		s.sendUp(op, first.Payload, true)
	}
	s.act(step)
}

// stopSeeking ends a session that has no connection.
func (s *Session) stopSeeking(who party, code frame.CloseCode, reason string) {
	if s.seek != nil {
		close(s.seek.ended)
		s.seek = nil
	}
	s.record.end(who, code, reason)
	s.record.Relayed = Relayed{FramesFromClients: s.scanner.Frames, BytesFromClients: s.scanner.Bytes}
	s.deadline.Stop()
	s.timer.Stop()
	s.up.closed = true
	s.phase = finishing // for the close frame
	if !s.client.Ended() {
		s.down.sendClose(code, reason)
	}
	s.linger()
	s.client.Resume() // to see its close frame
}
