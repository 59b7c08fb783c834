package session

import (
	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// How a session ends. Whoever ends it, three things are done in this order: the client gets a close frame that says who
// ended the session and why, at a frame boundary; the lease ends, with the connection returned or discarded; the client's
// part in closing is awaited for a bounded time.

// clientClosed acts on the client's close frame.
func (s *Session) clientClosed(payload []byte) {
	code, reason, err := frame.ParseClose(payload)
	switch {
	case s.phase == lingering: // its answer to ours
		s.client.CloseWrite()
	case s.phase != relaying:
	case err != nil:
		s.clientBroke(err)
	case s.backend.Profile().Reuse == profile.OneShot:
		s.leave(code, string(reason), payload)
	default: // nobody is interested in what the backend still owes
		s.end(byClient, code, string(reason))
	}
}

// clientBroke ends the session because the client did not keep to RFC 6455. What it sent before that is still answered.
func (s *Session) clientBroke(err error) {
	s.deaf = true
	code := frame.ProtocolError
	if broken, ok := err.(*frame.Error); ok {
		code = broken.Code
	}
	switch {
	case s.phase == lingering:
		s.client.CloseWrite()
	case s.phase != relaying:
	case s.scanner.AtMessageBoundary() && s.owed():
		s.leave(code, err.Error(), frame.AppendClosePayload(nil, frame.GoingAway, "client broke the protocol"))
	default:
		s.end(byClient, code, err.Error())
	}
}

// owed tells whether the backend may have something left to say to what the client has sent.
func (s *Session) owed() bool { return s.backend.Boundary().Owed(s.traffic(s.sentNow())) }

// leave ends the client's part in the session, while what the backend has left to say still reaches it, for a limited
// time. Over a connection that serves one session, the backend gets a close frame, and answers it when it is done.
func (s *Session) leave(code frame.CloseCode, reason string, toBackend []byte) {
	s.record.end(byClient, code, reason)
	s.sent = s.sentNow()
	s.phase = clientLeaving
	s.up.closed = true
	s.deadline.Stop()
	s.client.Resume() // to see its end
	if s.backend.Profile().Reuse == profile.OneShot {
		s.backend.SendClose(toBackend)
	}
	s.timer.Set(s.client, s.service.CloseTimeout, timerLeave)
}

// answerClient ends a session whose client has left, with the code that was decided then.
func (s *Session) answerClient() { s.end(byClient, s.record.Code, s.record.Reason) }

// clientLost acts on the end of the client's connection.
func (s *Session) clientLost() {
	switch s.phase {
	case lingering:
		s.gone()
	case finishing:
		s.release()
	case seeking:
		s.stopSeeking(byClient, frame.AbnormalClosure, "client left without a close frame")
	default:
		s.end(byClient, frame.AbnormalClosure, "client left without a close frame")
	}
}

// clientEnding acts on the end of what the client sends, while what it has sent before cannot be passed on, since the
// backend takes nothing. It may still take all of it, but need not hold the lease for ever.
func (s *Session) clientEnding() {
	if s.phase == seeking {
		s.stopSeeking(byClient, frame.AbnormalClosure, "client left without a close frame")
		return
	}
	if s.phase != relaying {
		return
	}
	s.keptAtEnding, s.scannedAtEnding = s.up.to.Pending(), s.scanner.Bytes
	s.timer.Set(s.client, s.service.CloseTimeout, timerEnding)
}

// clientEnded looks, some time after clientEnding, whether the backend has taken anything since.
func (s *Session) clientEnded() {
	switch {
	case !s.client.Paused():
		s.watchIdle()
	case s.up.to.Pending() < s.keptAtEnding, s.scanner.Bytes > s.scannedAtEnding:
		s.clientEnding()
	default:
		s.end(byClient, frame.AbnormalClosure, "client left, and its backend took nothing more")
	}
}

// backendClosed acts on the backend's close frame.
func (s *Session) backendClosed(payload []byte) {
	code, reason, err := frame.ParseClose(payload)
	if err != nil {
		s.backend.RecordProtocolError(err)
	}
	step := s.backend.Boundary().Closed(code)
	switch {
	case step.Then == profile.Elsewhere:
		s.act(step)
	case err == frame.ErrCloseCode:
		s.backendBroke(brokeProtocol + err.Error() + ": " + code.String())
	case err != nil:
		s.backendBroke(brokeProtocol + err.Error())
	case s.concluding:
		s.act(step)
	case s.phase == clientLeaving:
		s.answerClient()
	default:
		s.end(byBackend, code, string(reason))
	}
}

// refusedAtOnce ends a session whose server has accepted the upgrade and ended the connection right behind it. That was
// dialed for this client, who gets the server's end as it would directly, and no other connection.
func (s *Session) refusedAtOnce(end *backend.EarlyEnd) {
	switch {
	case end.Close != nil:
		s.backendClosed(end.Close)
	case end.Full:
		s.end(byBackend, frame.TryAgainLater, end.Reason)
	default:
		s.backendBroke(end.Reason)
	}
}

const brokeProtocol = "backend broke the protocol: "

// backendBroke acts on the failure of the backend's connection, or on what it may not send.
func (s *Session) backendBroke(reason string) {
	s.fault = reason
	s.backendGone(reason)
}

// backendGone ends the session without a connection. If the backend is not at fault, something was short on this machine.
func (s *Session) backendGone(reason string) {
	if s.concluding {
		s.record.end(byBackend, frame.InternalError, reason)
	}
	if s.phase == clientLeaving {
		s.answerClient()
	} else {
		s.end(byBackend, frame.InternalError, reason)
	}
	if s.phase == finishing { // the frame that the client waits for will not be completed
		s.release()
	}
}

// endForeign ends the session because the backend sent what nobody asked for, none of which has been passed on. between
// tells that it began with a new frame, so that a close frame can still be sent to the client.
func (s *Session) endForeign(between bool) {
	const reason = "backend sent an answer that nobody asked for"
	s.fault = reason
	s.decide(byBackend, frame.InternalError, reason)
	if between {
		s.down.close = frame.AppendClosePayload(nil, s.record.Code, s.record.Reason)
		s.down.insert()
	}
	s.release()
}

// end ends the session: nothing more is taken from the client, which gets a close frame as soon as the frame on its way to
// it is complete.
func (s *Session) end(who party, code frame.CloseCode, reason string) {
	if s.phase == seeking {
		s.stopSeeking(who, code, reason)
		return
	}
	if !s.decide(who, code, reason) {
		return
	}
	if s.client.Ended() {
		s.release()
		return
	}
	s.down.sendClose(s.record.Code, s.record.Reason)
	if s.down.closed {
		s.release()
		return
	}
	s.timer.Set(s.client, s.service.CloseTimeout, timerFinish)
}

// decide notes who ends the session and why. It returns false when that has been decided before.
func (s *Session) decide(who party, code frame.CloseCode, reason string) bool {
	switch s.phase {
	case relaying:
		s.record.end(who, code, reason)
		s.sent = s.sentNow()
	case clientLeaving: // it stays the client's end
	default:
		return false
	}
	s.phase = finishing
	s.up.closed = true // what the client sends is scanned but not passed on: its frame boundaries are none of the backend's
	s.deadline.Stop()
	s.timer.Stop()
	s.client.Resume() // to see its close frame
	return true
}

// release ends the lease and waits for the client's part in closing. Without a close frame sent, because a frame could
// not be completed, the client sees the connection end in the middle of it.
func (s *Session) release() {
	code, reason := frame.GoingAway, "session ended"
	if s.record.By == byBackend {
		code, reason = s.record.Code, "" // the answer to its close frame
	}
	s.record.Relayed = Relayed{
		FramesFromClients: s.scanner.Frames, BytesFromClients: s.scanner.Bytes,
		FramesFromBackends: s.backend.Scanner.Frames - s.framesBefore, BytesFromBackends: s.backend.Scanner.Bytes - s.bytesBefore,
	}
	s.record.Connection = s.backend.End(backend.Ending{
		Traffic: s.traffic(s.sent), MidFrame: s.sent.midFrame, Code: code, Text: reason, Fault: s.fault, Full: s.refused,
		ClosedWith: s.closedWith(), Client: s.record.Client.Addr(),
	})
	s.linger()
}

// closedWith returns the code with which the backend ended the session; 0 if it did not.
func (s *Session) closedWith() frame.CloseCode {
	if s.record.By != byBackend || s.fault != "" {
		return 0
	}
	return s.record.Code
}

// linger waits for the client's part in closing.
func (s *Session) linger() {
	s.phase = lingering
	if s.client.Ended() {
		s.gone()
		return
	}
	if s.deaf || !s.down.closed {
		s.client.CloseWrite()
	}
	s.timer.Set(s.client, s.service.CloseTimeout, timerLinger)
}

// gone ends the session for good.
func (s *Session) gone() {
	s.timer.Stop()
	s.client.Close()
	s.service.Variants.Forget(s.variant)
	delete(s.shard.sessions, s)
	s.shard.ended[s.record.Code]++
	s.server.active.Add(-1)
	s.record.log(s.server.options.Log, s.service.Name, s.backend.Backend().Name())
}
