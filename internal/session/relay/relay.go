package relay

import (
	"bytes"
	"errors"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// clientSide is a session as the handler of its client's connection.
type clientSide Session

// backendSide is a session as the handler of its backend's connection.
type backendSide Session

// Received implements [loop.Handler]: it passes the client's data frames on to the backend.
func (h *clientSide) Received(_ *loop.Conn, b []byte) int {
	s := (*Session)(h)
	if s.life.discardInput {
		s.discard(len(b))
		return len(b)
	}
	frames, bytes := s.scanner.Frames, s.scanner.Bytes
	pos := s.relayFromClient(b)
	s.passed.FramesFromClients += s.scanner.Frames - frames
	s.passed.BytesFromClients += s.scanner.Bytes - bytes
	if s.scanner.Frames != frames || s.scanner.Bytes != bytes {
		s.activity.fromClient(s.client.Loop().Now())
		if s.reply == unasked && s.scanner.Messages > 0 {
			s.clientSpoke()
		}
	}
	switch {
	case s.holdsBack():
		s.client.Keep(b[pos:])
		s.holdClient()
		s.client.ReportKept()
		return len(b)
	case s.life.state == moving:
	case s.life.state != relaying:
		s.discard(len(b))
	case s.leg.up.to.Stalled():
		s.awaitServer()
	}
	return pos
}

// relayFromClient returns how many bytes it has consumed.
func (s *Session) relayFromClient(b []byte) (pos int) {
	for {
		run, err := s.scanner.Next(b[pos:])
		switch {
		case s.failover != nil:
			if rulesOf[s.life.state].kept && run.Data > 0 {
				s.failover.fromClient(b[pos : pos+run.Data])
			}
		case s.life.state == relaying:
			s.leg.up.pass(b[pos:pos+run.Data], run.Boundary)
		}
		pos += run.Consumed
		if err == nil && run.Inspect {
			var n int
			n, err = s.presentFromClient(&run, b[pos:])
			pos += n
		}
		switch {
		case err != nil:
			s.handleClientError(err)
		case run.HasControl():
			s.clientControl(run.Control, run.Payload)
		case !run.Inspect:
			return pos
		}
		if s.life.discardInput {
			return len(b)
		}
		if s.holdsBack() {
			return pos
		}
	}
}

// stallLooks is how often within its CloseTimeout a session is looked at whose server takes nothing.
const stallLooks = 4

// awaitServer stops reading the client until the server has taken what was sent. What the client sends meanwhile is looked at only if the server
// takes nothing for a while: most servers take it in no time, and reading ahead costs memory and copies.
func (s *Session) awaitServer() {
	s.client.Pause()
	q := s.silence()
	if !q.stalled.Active() {
		q.taken = s.takenByBackend()
		q.stalled.Set(s.client, s.record.Service.CloseTimeout/stallLooks, stallCheck)
	}
}

// lookAtStall is called by the timer: if the server has taken nothing meanwhile, what the client sends is looked at for a close frame.
func (s *Session) lookAtStall() {
	switch {
	case s.life.state != relaying || !s.client.Paused() || !s.leg.up.to.Stalled(): // another stall sets the timer again
	case s.takenByBackend() != s.account.silence.taken:
		s.awaitServer()
	default:
		s.holdClient()
		s.lookForClose()
	}
}

// holdClient stops reading the client, whose messages wait for the boundary or for another connection. What arrives is still looked at for a close
// frame, as far as there is room: a client that has closed behind a message would otherwise keep its lease for as long as it keeps its socket.
func (s *Session) holdClient() {
	s.client.Pause()
	s.client.Gather()
}

// Gathered implements [loop.GatheringHandler].
func (h *clientSide) Gathered(*loop.Conn) { (*Session)(h).lookForClose() }

// lookForClose looks for a close frame in what was read of a client whose messages wait for the boundary, another connection or a limit.
func (s *Session) lookForClose() {
	if state := s.life.state; state != relaying && state != moving || !s.client.Paused() || !mayEndWithClose(s.client.Unread()) {
		return
	}
	payload, closes := s.keptClose()
	switch {
	case !closes:
	case s.life.state == moving: // no one gets what it said before
		s.handleClientClose(payload)
	case !s.isLeaving(): // the backend may still take that
		timeout := s.record.Service.CloseTimeout
		s.awaitLeavingFor(timeout - timeout/stallLooks) // the close frame may have waited for that long
	}
}

// mayEndWithClose reports whether the last bytes that a client has sent look like a close frame. It costs little when they do not, and a client that
// sends something after its close frame may wait for its turn.
func mayEndWithClose(b []byte) bool {
	for n := range min(len(b)-frame.MinClientSize, frame.MaxControlPayload) + 1 {
		if at := len(b) - frame.MinClientSize - n; b[at] == 0x80|byte(frame.Close) && b[at+1] == 0x80|byte(n) {
			return true
		}
	}
	return false
}

// keptClose returns the payload of the close frame in what was read of a client whose messages wait.
func (s *Session) keptClose() (payload []byte, ok bool) {
	rest := bytes.Clone(s.client.Unread()) // the scanner unmasks in place
	scanner := s.scanner
	scanner.Inspect = 0
	for len(rest) > 0 {
		run, err := scanner.Next(rest)
		passed := run.Consumed
		if err == nil && run.Inspect {
			var piece frame.Piece
			piece, err = scanner.NextPiece(rest[passed:])
			passed += piece.Size
		}
		switch {
		case err != nil || passed == 0:
			return nil, false
		case run.HasControl() && run.Control == frame.Close:
			return run.Payload, true
		}
		rest = rest[passed:]
	}
	return nil, false
}

// holdsBack reports whether the client's messages wait for the boundary or for another connection.
func (s *Session) holdsBack() bool {
	if s.failover != nil {
		return s.failover.holds()
	}
	return s.life.state == moving || s.life.state == relaying && s.leg.hold
}

// clientControl acts on a control frame from the client.
func (s *Session) clientControl(op frame.Opcode, payload []byte) {
	if op != frame.Close && s.account.controls.Exceeded(route.Now) {
		s.End(meter.Limit, frame.PolicyViolation, "too many control frames")
		if s.life.state != relaying {
			s.readNoMore()
		}
		return
	}
	switch op {
	case frame.Ping:
		switch { // otherwise the client has its close frame
		case s.leg.conn != nil:
			s.leg.down.sendPong(payload)
		case s.life.state == moving && s.client.Pending() == 0:
			writeControl(s.client, frame.Pong, payload, false)
		}
	case frame.Close:
		if s.failover == nil || !s.failover.postpones(payload) {
			s.handleClientClose(payload)
		}
	}
}

// Stalled implements [loop.StallHandler]: the client does not read, so the backend is not read either.
func (h *clientSide) Stalled(*loop.Conn) {
	if conn := h.leg.conn; conn != nil {
		conn.Stream().Pause()
	}
}

// Flushed implements [loop.Handler]: the client has taken what was kept for it, so the backend is read again.
func (h *clientSide) Flushed(*loop.Conn) {
	if conn := h.leg.conn; conn != nil {
		h.leg.down.insertNow()
		conn.Stream().Resume()
	}
}

// Ending implements [loop.EndingHandler].
func (h *clientSide) Ending(*loop.Conn) { (*Session)(h).clientEnding() }

// Ended implements [loop.Handler].
func (h *clientSide) Ended(_ *loop.Conn, err error) {
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		(*Session)(h).clientLeft(unresponsive)
	case errors.Is(err, resume.ErrNotBack):
		(*Session)(h).clientLeft(notBack)
	case machine.Local(err):
		(*Session)(h).clientLeft("client connection lost: " + err.Error())
	default:
		(*Session)(h).clientLeft(leftWithoutClose)
	}
}

// MoveTo implements [loop.Mover].
func (h *clientSide) MoveTo(to *loop.Loop) { (*Session)(h).MoveTo(to) }

// Received implements [loop.Handler]: it passes the backend's data frames on to the client.
func (h *backendSide) Received(c *loop.Conn, b []byte) int {
	s := (*Session)(h)
	conn := s.leg.conn
	scanner := &conn.Scanner
	frames, bytes := scanner.Frames, scanner.Bytes
	pos := 0
	for s.holds(conn) {
		between := scanner.AtFrameBoundary()
		run, err := scanner.Next(b[pos:])
		if run.Data > 0 {
			s.fromBackend(b[pos:pos+run.Data], run.Boundary, between)
			if !s.holds(conn) { // what follows the data does not concern this session, not even an error
				pos += run.Data
				break
			}
		}
		pos += run.Consumed
		if err == nil && run.Inspect {
			var n int
			n, err = s.presentFromBackend(conn, &run, b[pos:])
			pos += n
			if !s.holds(conn) {
				break
			}
		}
		if err != nil {
			conn.RecordProtocolError(err)
			s.backendFailed(brokeProtocol + err.Error())
			pos = len(b)
		} else if run.HasControl() {
			s.backendControl(run.Control, run.Payload)
		} else if !run.Inspect {
			break
		}
	}
	s.passed.FramesFromBackends += scanner.Frames - frames
	s.passed.BytesFromBackends += scanner.Bytes - bytes
	if scanner.Frames != frames || scanner.Bytes != bytes {
		s.activity.fromServer(c.Loop().Now())
		if s.reply == awaited && scanner.Frames != frames {
			s.serverReplied()
		}
	}
	if !s.holds(conn) { // the lease has ended, so what follows is not for this client
		if c.Closed() {
			return len(b)
		}
		return pos + conn.Received(c, b[pos:])
	}
	s.leg.up.insertNow()
	if s.client.Stalled() {
		c.Pause()
	}
	return pos
}

// fromBackend passes data frames on to the client, unless they cannot belong to this session. between is true if they begin with
// a new frame.
func (s *Session) fromBackend(b []byte, boundary int, between bool) {
	if !s.leg.conn.Boundary().Plausible(s.leg.traffic(s.sentNow())) {
		s.unsolicitedAnswer(between)
		return
	}
	if s.failover != nil {
		conn := s.leg.conn
		if s.failover.fromServer(b); !s.holds(conn) {
			return
		}
	} else {
		if s.learns {
			s.account.affinity.pass(b)
		}
		s.leg.down.pass(b, boundary)
	}
	switch {
	case s.life.state == closing && s.leg.down.closed:
		s.handle(event{kind: closeSent})
	case s.life.state == answering && !s.owed():
		s.handle(event{kind: answered})
	}
}

// backendControl acts on a control frame from the backend.
func (s *Session) backendControl(op frame.Opcode, payload []byte) {
	switch op {
	case frame.Ping: // of many that come together, only the last one is answered, so that their answers do not keep the loop from others
		s.leg.up.notePong(payload)
	case frame.Pong:
		s.leg.conn.Pong(payload)
	case frame.Close:
		s.leg.conn.CloseReceived()
		s.handleBackendClose(payload)
	}
}

// Stalled implements [loop.StallHandler]: the backend does not read, so the client is not read either.
func (h *backendSide) Stalled(*loop.Conn) {
	if h.life.state == relaying {
		(*Session)(h).awaitServer()
	}
}

// Flushed implements [loop.Handler]: the backend has taken what was kept for it, so the client is read again.
func (h *backendSide) Flushed(*loop.Conn) {
	h.leg.up.insertNow()
	if h.failover != nil {
		h.failover.pump()
		return
	}
	if !h.leg.hold {
		h.client.Resume()
	}
}

// SendPing implements [backend.LeaseHolder]: it sends the backend a ping. While the last answer is awaited, nothing more of the client passes, and
// the reset, which was written whole, is the last that the backend got: a server that dies meanwhile must be noticed, too.
func (h *backendSide) SendPing() {
	up := &h.leg.up
	if h.life.state == completing && !up.midFrame() && up.to.Pending() == 0 {
		up.control(frame.Ping, up.pings.Ping())
		return
	}
	up.sendPing()
}
