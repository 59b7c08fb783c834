package relay

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file turns what a side does (it closes, fails or leaves) into an event. The session's life decides what follows.

// handleClientClose acts on the client's close frame. Over a connection that serves one session, the backend gets it too, and answers
// it when it has sent everything. Otherwise what the backend still owes is dropped.
func (s *Session) handleClientClose(payload []byte) {
	s.handleClientCloseWith(payload, s.leg.conn != nil && s.leg.conn.Profile().Reuse == profile.OneShot && !s.leavesInMiddle())
}

// handleClientCloseWith is handleClientClose for a client that the backend owes something, or not.
func (s *Session) handleClientCloseWith(payload []byte, owed bool) {
	code, reason, err := frame.ParseClose(payload)
	if err != nil {
		s.handleClientError(err)
		return
	}
	s.handle(event{
		kind: clientClosed, by: byClient, class: meter.ClosedByClient(uint16(code)), code: code, reason: string(reason),
		owed: owed, payload: payload,
	})
}

// leavesInMiddle reports whether a client that closes now does so before it has said, in the profile's words, that it is done. The backend
// is told so in its place, and what it answers reaches no client.
func (s *Session) leavesInMiddle() bool {
	b := s.leg.conn.Boundary()
	return !b.Ended() && b.Leaves(s.leg.traffic(s.sentNow()))
}

// handleClientError ends the session because the client broke RFC 6455. What it sent before that is still answered.
func (s *Session) handleClientError(err error) {
	e := event{kind: clientBroke, by: byClient, class: meter.ClientError, code: frame.ProtocolError, reason: err.Error()}
	if broken := (*frame.Error)(nil); errors.As(err, &broken) {
		e.code = broken.Code
	}
	if errors.Is(err, frame.ErrMessageSize) {
		_, by := s.maxMessage()
		s.limitEnds(by)
	}
	if s.life.state == relaying && s.scanner.AtMessageBoundary() && s.owed() && !s.leavesInMiddle() {
		e.owed, e.payload = true, frame.AppendClosePayload(nil, frame.GoingAway, "client broke the protocol")
	}
	s.handle(e)
}

// clientLeft acts on the end of the client's stream, which came without a close frame.
func (s *Session) clientLeft(reason string) {
	s.handle(event{kind: clientLost, by: byClient, class: meter.ClientLeft, code: frame.AbnormalClosure, reason: reason})
}

// leftWithoutClose is why a session ends whose client's stream just ends.
const leftWithoutClose = "client left without a close frame"

// unresponsive is why a session ends whose client has neither accepted nor acknowledged anything for ClientTimeout.
const unresponsive = "client does not answer, or reads nothing"

// notBack is why a session ends whose client's connection broke.
const notBack = "client left without a close frame and did not come back"

// clientEnding acts on the end of the client's stream, while what the client sent before cannot be passed on yet.
func (s *Session) clientEnding() {
	switch s.life.state {
	case moving:
		if !resume.Of(s.client).DropRest() {
			s.clientLeft(leftWithoutClose)
		}
	case relaying:
		s.awaitLeaving()
	case lingering: // see readNoMore
		s.clientLeft(leftWithoutClose)
	}
}

// leaveServer acts on a server that cannot continue the session, or must not: another one continues it, if it may. Otherwise e ends the session.
func (s *Session) leaveServer(cause meter.Cause, e event) {
	if s.failover != nil {
		s.failover.leaveServer(cause, &e)
	}
	s.handle(e)
}

// handleBackendClose acts on the backend's close frame.
func (s *Session) handleBackendClose(payload []byte) {
	conn := s.leg.conn
	code, reason, err := frame.ParseClose(payload)
	if err != nil {
		conn.RecordProtocolError(err)
	}
	step := conn.Boundary().Closed(code)
	switch {
	case step.Then == profile.Elsewhere:
		s.act(step)
	case errors.Is(err, frame.ErrCloseCode):
		s.backendFailed(brokeProtocol + err.Error() + ": " + code.String())
	case err != nil:
		s.backendFailed(brokeProtocol + err.Error())
	default:
		e := event{kind: backendClosed, by: byBackend, class: meter.ClosedByServer(uint16(code)), code: code, reason: string(reason)}
		if s.failover == nil || s.failover.tracker.LastWord(code) {
			s.handle(e)
		} else {
			s.leaveServer(meter.Closed, e)
		}
	}
}

// Ended implements [loop.Handler]. A TCP time-out while the backend is not read, because the client is slow, is not the backend's
// fault: it may accept nothing because what it sends is not read.
func (h *backendSide) Ended(c *loop.Conn, err error) {
	reason := "backend connection lost: " + err.Error()
	if machine.Local(err) || errors.Is(err, syscall.ETIMEDOUT) && c.Paused() {
		(*Session)(h).connectionLost(reason)
	} else {
		(*Session)(h).backendFailed(reason)
	}
}

// brokeProtocol begins the reason why a session ends whose backend broke RFC 6455.
const brokeProtocol = "backend broke the protocol: "

// backendFailed acts on the failure of the backend's connection, or on what the backend may not send.
func (s *Session) backendFailed(reason string) {
	cause := meter.Lost
	if strings.HasPrefix(reason, brokeProtocol) {
		cause = meter.Protocol
	}
	s.leaveServer(cause, event{kind: backendLost, by: byBackend, class: meter.BackendFailed, code: frame.InternalError, reason: reason, fault: true})
}

// connectionLost acts on the loss of the backend's connection for which the backend is not to blame.
func (s *Session) connectionLost(reason string) {
	s.leaveServer(meter.Lost, event{kind: backendLost, by: byBackend, class: meter.ConnectionLost, code: frame.InternalError, reason: reason})
}

// refusedAtOnce ends a session whose backend accepted the upgrade and ended the connection right after it. The connection was dialed
// for this client, who gets the backend's end as it would directly, and no other connection.
func (s *Session) refusedAtOnce(end *backend.EarlyEnd) {
	switch {
	case end.Close != nil:
		s.handleBackendClose(end.Close)
	case end.Full:
		s.handle(event{kind: backendClosed, by: byBackend, class: meter.BackendFull, code: frame.TryAgainLater, reason: end.Reason})
	default:
		s.backendFailed(end.Reason)
	}
}

// unsolicitedAnswer ends the session because the backend sent what the session did not ask for, none of which has been passed on.
// between tells that it began with a new frame, so that the client can still be sent a close frame.
func (s *Session) unsolicitedAnswer(between bool) {
	s.leaveServer(meter.Protocol, event{
		kind: unsolicited, by: byBackend, class: meter.BackendFailed, code: frame.InternalError, reason: "backend sent an unsolicited answer",
		fault: true, midFrame: !between,
	})
}

// cannotServe acts on a boundary that says that the connection cannot serve the session to its end (unfit), or at all (notServed).
func (s *Session) cannotServe(kind eventKind, step profile.Step) {
	e := event{
		kind: kind, by: byBackend, class: meter.BackendFailed, code: frame.InternalError, reason: step.Reason.String(),
		full: step.Reason == profile.Busy, why: step.Reason, settings: step.Settings,
	}
	e.slow = step.Reason == profile.ResultTimeout
	if step.Reason == profile.OtherSettings { // the connection is not for this session, and it is too late to move it
		e.by, e.class = byProxy, meter.BackendFull
	}
	e.fault = kind == unfit && !e.full && !e.slow && step.Reason != profile.OtherSettings
	if e.full {
		e.late = s.leg.found != nil && time.Now().After(s.leg.found.until)
		e.class = meter.BackendFull
	}
	if step.Close != 0 {
		e.code = step.Close
	}
	if kind == notServed && s.isLeaving() { // it needs no other backend
		s.leg.full = s.leg.full || e.full
		s.endLeaving()
		return
	}
	if kind == unfit && !e.full && silentReason(step.Reason) {
		s.leaveServer(meter.Stalled, e)
		return
	}
	s.handle(e)
}

// silentReason reports whether a connection is given up because the server did not say in time what it should.
func silentReason(r profile.Reason) bool {
	return r == profile.NotReady || r == profile.NotAlive || r == profile.ResultTimeout
}
