package session

import (
	"errors"
	"syscall"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/machine"
)

// clientSide is a session as the handler of its client's connection.
type clientSide Session

// backendSide is a session as the handler of its backend's connection.
type backendSide Session

// Received implements [loop.Handler]: it passes the client's data frames on to the backend.
func (h *clientSide) Received(_ *loop.Conn, b []byte) int {
	s := (*Session)(h)
	if s.deaf {
		return len(b)
	}
	frames, bytes := s.scanner.Frames, s.scanner.Bytes
	pos := s.relayFromClient(b)
	s.shard.relayed.FramesFromClients += s.scanner.Frames - frames
	s.shard.relayed.BytesFromClients += s.scanner.Bytes - bytes
	switch {
	case s.holdsBack():
		s.client.PauseBefore(b[pos:])
		return len(b)
	case s.phase == relaying && s.up.to.Stalled():
		s.client.Pause()
	}
	return pos
}

// relayFromClient returns how many bytes it has consumed.
func (s *Session) relayFromClient(b []byte) (pos int) {
	for {
		run, err := s.scanner.Next(b[pos:])
		if s.phase == relaying {
			s.up.pass(b[pos:pos+run.Data], run.Boundary)
		}
		pos += run.Consumed
		if err == nil && run.Inspect {
			var n int
			n, err = s.presentFromClient(&run, b[pos:])
			pos += n
		}
		switch {
		case err != nil:
			s.clientBroke(err)
		case run.HasControl():
			s.clientControl(run.Control, run.Payload)
		case !run.Inspect:
			return pos
		}
		if s.deaf {
			return len(b)
		}
		if s.holdsBack() {
			return pos
		}
	}
}

// holdsBack tells whether the client's messages have to wait.
func (s *Session) holdsBack() bool { return s.heldBack && (s.phase == relaying || s.phase == seeking) }

// clientControl acts on a control frame from the client.
func (s *Session) clientControl(op frame.Opcode, payload []byte) {
	switch op {
	case frame.Ping:
		if s.phase < seeking { // the direction's scanner serves another session otherwise
			s.down.sendPong(payload)
		}
	case frame.Close:
		s.deaf = true
		s.clientClosed(payload)
	}
}

// Stalled implements [loop.StallHandler]: the client does not read, so the backend is not read either.
func (h *clientSide) Stalled(*loop.Conn) {
	s := (*Session)(h)
	if s.phase < seeking {
		s.backend.Stream().Pause()
	}
}

// Flushed implements [loop.Handler]: the client has taken what was kept for it, so the backend is read again.
func (h *clientSide) Flushed(*loop.Conn) {
	s := (*Session)(h)
	if s.phase >= seeking {
		return
	}
	s.down.insertNow()
	s.backend.Stream().Resume()
}

// Ending implements [loop.EndingHandler].
func (h *clientSide) Ending(*loop.Conn) { (*Session)(h).clientEnding() }

// Ended implements [loop.Handler].
func (h *clientSide) Ended(*loop.Conn, error) { (*Session)(h).clientLost() }

// MoveTo implements [loop.Mover].
func (h *clientSide) MoveTo(to *loop.Loop) { (*Session)(h).moveTo(to) }

// Received implements [loop.Handler]: it passes the backend's data frames on to the client.
func (h *backendSide) Received(c *loop.Conn, b []byte) int {
	s := (*Session)(h)
	conn := s.backend
	scanner := &conn.Scanner
	frames, bytes := scanner.Frames, scanner.Bytes
	pos := 0
	for s.serves(conn) {
		between := scanner.AtFrameBoundary()
		run, err := scanner.Next(b[pos:])
		if run.Data > 0 {
			s.fromBackend(b[pos:pos+run.Data], run.Boundary, between)
			if !s.serves(conn) { // what stands behind the data is not the session's any more, not even an error
				pos += run.Data
				break
			}
		}
		pos += run.Consumed
		if err == nil && run.Inspect {
			var n int
			n, err = s.presentFromBackend(conn, &run, b[pos:])
			pos += n
			if !s.serves(conn) {
				break
			}
		}
		if err != nil {
			conn.RecordProtocolError(err)
			s.backendBroke(brokeProtocol + err.Error())
			pos = len(b)
		} else if run.HasControl() {
			s.backendControl(run.Control, run.Payload)
		} else if !run.Inspect {
			break
		}
	}
	s.shard.relayed.FramesFromBackends += scanner.Frames - frames
	s.shard.relayed.BytesFromBackends += scanner.Bytes - bytes
	if !s.serves(conn) { // the lease has ended: what follows is not for this client
		if c.Closed() {
			return len(b)
		}
		return pos + conn.Received(c, b[pos:])
	}
	if s.client.Stalled() {
		c.Pause()
	}
	return pos
}

// serves tells whether the session still holds the lease of a connection that it held.
func (s *Session) serves(conn *backend.Conn) bool { return s.phase < seeking && s.backend == conn }

// fromBackend passes data frames on to the client, unless they cannot be meant for it. between tells that they begin with
// a new frame.
func (s *Session) fromBackend(b []byte, boundary int, between bool) {
	if !s.backend.Boundary().Plausible(s.traffic(s.sentNow())) {
		s.endForeign(between)
		return
	}
	s.down.pass(b, boundary)
	switch {
	case s.phase == finishing && s.down.closed:
		s.release()
	case s.phase == clientLeaving && !s.concluding && !s.owed():
		s.answerClient()
	}
}

// backendControl acts on a control frame from the backend.
func (s *Session) backendControl(op frame.Opcode, payload []byte) {
	switch op {
	case frame.Ping:
		s.up.sendPong(payload)
	case frame.Pong:
		s.backend.Pong(payload)
	case frame.Close:
		s.backend.CloseReceived()
		s.backendClosed(payload)
	}
}

// Stalled implements [loop.StallHandler]: the backend does not read, so the client is not read either.
func (h *backendSide) Stalled(*loop.Conn) {
	s := (*Session)(h)
	if s.phase == relaying {
		s.client.Pause()
	}
}

// Flushed implements [loop.Handler]: the backend has taken what was kept for it, so the client is read again.
func (h *backendSide) Flushed(*loop.Conn) {
	s := (*Session)(h)
	s.up.insertNow()
	if !s.heldBack {
		s.client.Resume()
	}
}

// Ended implements [loop.Handler]. A connection that TCP gives up while the server is not read, since the client is slow, is not the
// server's fault: it may take nothing itself because what it says is not taken.
func (h *backendSide) Ended(c *loop.Conn, err error) {
	reason := "backend connection lost: " + err.Error()
	if machine.Local(err) || errors.Is(err, syscall.ETIMEDOUT) && c.Paused() {
		(*Session)(h).backendGone(reason)
	} else {
		(*Session)(h).backendBroke(reason)
	}
}

// SendPing implements [backend.LeaseHolder]: it asks the backend for a sign of life.
func (h *backendSide) SendPing() { h.up.sendPing() }
