package relay

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Session is one client's time with the proxy. All of it is owned by the loop that both connections live on. It keeps no closure.
type Session struct {
	// Static.
	sessions *Sessions
	key      uint64 // what its backend is chosen by
	variant  string // of the connections that can serve it

	// What every frame needs.
	shard  *shard         // of the present loop
	passed *meter.Relayed // of the present loop, and the backend that serves it, or served it last
	life   life
	reply  reply // what is known of the first reply
	// fromClient presents to the boundary what is inspected of what the client sends. It is here since it fits between the others.
	fromClient backend.Inspector
	learns     bool // what the client gets is searched for an id, see affinity
	client     *loop.Conn
	leg        leg
	scanner    frame.Scanner // of what the client sends; the backend's is its connection's own

	timer    loop.Timer // bounds the present state, or looks for idleness
	deadline loop.Timer // ends a session that lasts too long
	progress progress   // what the timer has seen while frames pass
	search   *search    // for another connection; nil for none
	record   record.Record
	limited  *limited    // nil while nothing limits the session but its service's limits on each session, and its client is not checked again
	tap      *tap.Tapped // nil while no operator taps the session
	failover *recovery   // nil unless the session may outlive its server, or results are rewritten

	meter    *meter.Backend // of the backend that serves it, or served it last; held
	account  *account       // what the client has used
	activity activity       // when each side has sent something
}

// Begin begins the session of a client for whom conn was leased. It runs on the connection's loop.
func (s *Sessions) Begin(service *route.Service, conn *backend.Conn, socket loop.Socket, req *handshake.Request, c *record.Client) {
	s.newSession(service, c).begin(conn, socket, req, c)
}

func (s *Sessions) newSession(service *route.Service, c *record.Client) *Session {
	maxMessage, _ := c.Hold.MaxMessage(service.MaxMessage)
	session := &Session{sessions: s, key: c.Key, variant: c.Variant, scanner: frame.NewClientScanner(maxMessage)}
	session.record.Begin(service, c)
	session.account = new(account)
	session.account.affinity = newAffinity(session, c)
	if !c.Hold.Empty() || c.Question != "" {
		session.limited = newLimited(session, c.Hold, c.Hold)
		if c.Question != "" {
			session.limited.question = s.newQuestion(c.Question)
		}
	}
	return session
}

// begin accepts the client's upgrade and starts relaying over conn. The client is granted the server's subprotocol if it offers that, and
// otherwise c.Grant, which is empty for none.
func (s *Session) begin(conn *backend.Conn, socket loop.Socket, req *handshake.Request, c *record.Client) {
	l := conn.Stream().Loop()
	s.countBegin(conn)
	s.enterShard(l)
	s.sessions.active.Add(1)
	s.sessions.begun.Add(1)
	carrier := s.addClient(l, socket, req.Early, c)
	waited := s.sessions.registry.add(s)
	l.Handling(s.client)
	protocol := ""
	if !c.Accepted { // while it waited
		if protocol = conn.Protocol(); !req.Offers(protocol) {
			protocol = c.Grant
		}
		if protocol == "" && c.Messages {
			protocol = resume.Subprotocol
		}
		carrier.Write(req.AppendAccept(make([]byte, 0, 256), protocol, c.AcceptFields()...))
	}
	resume.Of(s.client).Carry(carrier, c.Messages, protocol)
	s.tap = s.sessions.taps.Began((*tappedSession)(s), conn.Backend().Name())
	s.compose()
	greeting := conn.TakeGreeting()
	s.tap.Greeted(greeting)
	s.account.formats = profile.NewFormats(s.record.Service.Profile, req.URL.RawQuery)
	if s.failover = newRecovery(s, req.URL.RawQuery); s.failover == nil {
		s.client.Write(greeting)
	}
	s.limitDuration()
	s.awaitAudio()
	s.startLeg(conn, profile.Opening{}, greeting, nil)
	if waited != nil {
		s.killIfWaitEnded(waited)
	}
	if c.LimitsAt != s.sessions.shared.Scopes.Generation() { // LimitsChanged may have missed it
		s.limitsChanged()
	}
	s.checkCredential() // it may have been revoked since it was checked
}

// addClient makes the client's socket a connection of the loop, and returns it. It is the session's client, unless that may come back over another.
func (s *Session) addClient(l *loop.Loop, socket loop.Socket, early []byte, c *record.Client) *loop.Conn {
	if c.Resume == "" {
		s.client = l.Add(socket, (*clientSide)(s), early)
		return s.client
	}
	service := s.record.Service
	line := s.sessions.lines.Begin(l, (*clientSide)(s), resume.Begin{Client: c, Service: service.Name, Wait: service.Reconnect, Told: int64(c.Told)})
	s.client = line.Conn()
	return l.Add(socket, line, early)
}

// startLeg begins the lease of conn: frames pass both ways from now on. greeting is what the server has said to the client before its session,
// if the client has not got that yet. found is the search that has found conn; nil if the client came for it.
func (s *Session) startLeg(conn *backend.Conn, first profile.Opening, greeting []byte, found *search) {
	s.leg = s.newLeg(conn, first)
	s.leg.found = found
	s.account.before = servedBy(&conn.Scanner) // also of a leg that ends before it begins
	s.activity.begin(conn.Stream().Loop().Now())
	s.countFor(conn.Backend())
	s.record.Connection = conn.Number()
	if s.life.turnedAway == 0 && (s.failover == nil || s.failover.machine.Legs() == 0) {
		s.record.LogStart(s.sessions.shared.Log)
	}
	s.compose()
	if found != nil {
		s.tap.Moved(conn.Backend().Name())
	}
	if f := s.failover; f != nil {
		f.begin(conn, first)
		f.fromServer(greeting)
		if !s.holds(conn) {
			return
		}
	}
	if end := conn.EarlyEnd(); end != nil {
		s.refusedAtOnce(end)
		return
	}
	s.startKeepalives(conn)
	step := conn.Begin(s.voter())
	s.beginAccount(conn)
	s.account.affinity.beginLeg(conn, greeting)
	s.act(step)
	if s.holds(conn) && s.life.state == relaying {
		s.checkIdle()
	}
	if s.holds(conn) && !s.leg.hold {
		s.letThrough()
	}
}

// voter returns whose session it is, for the health of servers.
func (s *Session) voter() backend.Client { return record.Voter(s.record.Client, s.record.Identity) }

// Record returns what is known of the session so far. It belongs to the session's loop, and is not to be changed.
func (s *Session) Record() *record.Record { return &s.record }

// Relaying reports whether frames pass both ways. It is called on the session's loop.
func (s *Session) Relaying() bool { return s.life.state == relaying }

// Moving reports whether the session has left a backend and waits for another one. It is called on the session's loop.
func (s *Session) Moving() bool { return s.life.state == moving }

// holds reports whether the session holds the lease of conn.
func (s *Session) holds(conn *backend.Conn) bool { return s.leg.conn == conn }

// End ends the session on behalf of the proxy. It is called on the session's loop.
func (s *Session) End(class meter.Class, code frame.CloseCode, reason string) {
	s.handle(event{kind: stopped, by: byProxy, class: class, code: code, reason: reason})
}

// handle acts on an event. Everything that changes a session's state comes this way.
func (s *Session) handle(e event) {
	if e.kind != unsolicited || s.failover != nil { // otherwise the scanner has gone past a frame that was not passed on
		e.midFrame = s.leg.down.midFrame()
	}
	e.clientEnded = s.client.Ended()
	before := s.life.state
	sent := s.sentNow()
	var space [6]action
	do := s.life.handle(&e, space[:0])
	if s.leg.conn != nil {
		if e.fault {
			s.leg.fault = e.reason
		}
		s.leg.full, s.leg.slow = s.leg.full || e.full, s.leg.slow || e.slow
	}
	if s.life.state != before {
		s.leg.sent = sent
		if s.failover != nil && s.life.state != relaying && s.life.state != moving {
			s.failover.happens(&failover.Event{Kind: failover.EndDecided})
		}
		s.enforce(rulesOf[s.life.state])
	}
	for _, a := range do {
		s.perform(a, &e)
	}
	if s.life.state != before {
		s.showState(&e)
	}
}

// enforce applies the rules of the state that the session has entered.
func (s *Session) enforce(r rules) {
	s.timer.Stop()
	if r.bounded || s.life.state == completing && s.failover != nil && s.failover.closing != nil { // the close frame has come before the end
		s.perform(bound, nil)
	}
	if !r.limited {
		s.deadline.Stop()
	}
	if !r.toBackend {
		s.leg.up.insertNow() // the answer to a ping that came right before
		s.leg.up.closed = true
	}
	if s.life.state != relaying {
		s.limited.throttle().Stop(s.client)
	}
	if s.life.state >= lingering {
		s.leaveLimits()
	}
	switch r.client {
	case always:
		s.client.Resume()
	case whileKept:
		s.client.ReportKept() // it may have closed while the boundary held its messages
		if s.failover != nil {
			s.failover.regulate()
		} else {
			s.holdClient()
		}
	}
}

// LastCloseTimeout is how long each side of a session has to close it when the process ends, unless its service gives it less.
const LastCloseTimeout = 5 * time.Second

// closeTimeout bounds a state in which the session waits for one side to close it.
func (s *Session) closeTimeout() time.Duration {
	if s.life.hurried {
		return min(s.record.Service.CloseTimeout, LastCloseTimeout)
	}
	return s.record.Service.CloseTimeout
}

// perform carries out an action.
func (s *Session) perform(a action, e *event) {
	switch a {
	case recordEnd:
		s.recordEnd(e)
	case undoEnd:
		s.record.GoOn()
		s.limitDuration() // which the end had stopped
	case relayClose:
		s.relayClose(e)
	case bound:
		s.timer.Set(s.client, s.closeTimeout(), timeState)
	case sendReset:
		step := s.leg.conn.ReplaceEnd(s.leg.traffic(s.leg.sent))
		s.tap.Reset()
		s.act(step)
	case queueClose:
		s.leg.down.queueClose(s.record.Code, s.record.Reason)
	case sendClose:
		if s.leg.conn == nil { // a client that closes gets its own reason back, and not why its session was not moved
			s.sendClose(e.code, e.reason)
		} else {
			s.sendClose(s.record.Code, s.record.Reason)
		}
	case leaveBackend:
		s.leaveBackend(e)
	case startSearch:
		s.startSearch()
	case stopSearch:
		s.stopSearch()
	case startLeg:
		found := s.search
		s.search = nil
		s.startLeg(found.conn, found.first, nil, found)
	case endLease:
		s.tap.Ended()
		s.endLease()
	case endStream:
		if !s.life.told {
			resume.Of(s.client).Cut(closePayload(s.record.Code, s.record.Reason))
		}
		s.client.CloseWrite()
	case forget:
		s.forget()
	}
}

// enterShard makes the session count for its present loop.
func (s *Session) enterShard(l *loop.Loop) {
	s.shard = &s.sessions.shards[l.ID()]
	s.passed = s.meter.Relayed(l.ID())
}

// MoveTo takes both connections to another loop. It is called on the session's loop, but not while an event of a connection is handled.
func (s *Session) MoveTo(to *loop.Loop) {
	conn := s.leg.conn
	if conn == nil {
		return // it looks for a connection, or waits for the client's close frame only
	}
	s.timer.Take()
	s.deadline.Take()
	s.failover.takeTimers()
	s.account.silence.takeTimers()
	s.limited.throttle().TakeTimer()
	conn.TakeTimers()
	arrived := func() {
		s.enterShard(s.client.Loop())
		s.timer.Put()
		s.deadline.Put()
		s.failover.putTimers()
		s.account.silence.putTimers()
		s.limited.throttle().PutTimer()
		conn.PutTimers()
	}
	if !loop.Move(to, arrived, s.client, conn.Stream()) {
		arrived()
	}
}

// killIfWaitEnded ends a session whose client's wait an operator has ended at the moment when it was over.
func (s *Session) killIfWaitEnded(waited *record.Waiting) {
	select {
	case reason := <-waited.Killed:
		s.End(meter.Killed, frame.ServiceRestart, reason)
	default:
	}
}

// letThrough reads the client again, and first presents its first message if an earlier leg has kept that.
func (s *Session) letThrough() {
	if t := s.record.Trace; s.leg.hold && t.Sampled() {
		t.Ready = time.Now()
	}
	s.leg.hold = false
	conn := s.leg.conn
	if s.leg.first != nil {
		s.presentFirst()
	}
	if s.failover != nil {
		if s.holds(conn) {
			s.failover.pump()
		}
		return
	}
	if s.holds(conn) && !s.leg.hold && s.leg.up.to.Pending() == 0 {
		s.client.Resume()
	}
}
