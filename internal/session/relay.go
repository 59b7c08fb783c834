package session

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
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
	pos := 0
	for {
		run, err := s.scanner.Next(b[pos:])
		if s.phase == relaying {
			s.up.pass(b[pos:pos+run.Data], run.Boundary)
		}
		pos += run.Consumed
		if err != nil {
			s.clientBroke(err)
		} else if run.HasControl() {
			s.clientControl(run.Control, run.Payload)
		} else {
			break
		}
		if s.deaf {
			pos = len(b)
			break
		}
	}
	s.shard.relayed.FramesFromClients += s.scanner.Frames - frames
	s.shard.relayed.BytesFromClients += s.scanner.Bytes - bytes
	if s.phase == relaying && s.up.to.Pending() > 0 {
		s.client.Pause()
	}
	return pos
}

// clientControl acts on a control frame from the client.
func (s *Session) clientControl(op frame.Opcode, payload []byte) {
	switch op {
	case frame.Ping:
		if s.phase != lingering { // the direction's scanner serves another session by now
			s.down.sendPong(payload)
		}
	case frame.Close:
		s.deaf = true
		s.clientClosed(payload)
	}
}

// Flushed implements [loop.Handler]: the client has taken what was kept for it, so the backend is read again.
func (h *clientSide) Flushed(*loop.Conn) {
	s := (*Session)(h)
	if s.phase == lingering {
		return
	}
	s.down.insertNow()
	s.backend.Stream().Resume()
}

// Ending implements [loop.EndWatcher].
func (h *clientSide) Ending(*loop.Conn) { (*Session)(h).clientEnding() }

// Ended implements [loop.Handler].
func (h *clientSide) Ended(*loop.Conn, error) { (*Session)(h).clientLost() }

// MoveTo implements [loop.Mover].
func (h *clientSide) MoveTo(to *loop.Loop) { (*Session)(h).moveTo(to) }

// Received implements [loop.Handler]: it passes the backend's data frames on to the client.
func (h *backendSide) Received(c *loop.Conn, b []byte) int {
	s := (*Session)(h)
	scanner := &s.backend.Scanner
	frames, bytes := scanner.Frames, scanner.Bytes
	pos := 0
	for s.phase != lingering {
		between := scanner.AtFrameBoundary()
		run, err := scanner.Next(b[pos:])
		if run.Data > 0 {
			s.fromBackend(b[pos:pos+run.Data], run.Boundary, between)
			if s.phase == lingering { // what stands behind the data is not the session's any more, not even an error
				pos += run.Data
				break
			}
		}
		pos += run.Consumed
		if err != nil {
			s.backendBroke("backend broke the protocol: " + err.Error())
			pos = len(b)
		} else if run.HasControl() {
			s.backendControl(run.Control, run.Payload)
		} else {
			break
		}
	}
	s.shard.relayed.FramesFromBackends += scanner.Frames - frames
	s.shard.relayed.BytesFromBackends += scanner.Bytes - bytes
	if s.phase == lingering { // the lease has ended: what follows is not for this client
		if c.Closed() {
			return len(b)
		}
		return pos + s.backend.Received(c, b[pos:])
	}
	if s.client.Pending() > 0 {
		c.Pause()
	}
	return pos
}

// fromBackend passes data frames on to the client, unless they cannot be meant for it. between tells that they begin with
// a new frame.
func (s *Session) fromBackend(b []byte, boundary int, between bool) {
	if !s.backend.Backend().Profile().Plausible(s.traffic(s.sentNow())) {
		s.endForeign(between)
		return
	}
	s.down.pass(b, boundary)
	switch {
	case s.phase == finishing && s.down.closed:
		s.release()
	case s.phase == clientLeaving && !s.owed():
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

// Flushed implements [loop.Handler]: the backend has taken what was kept for it, so the client is read again.
func (h *backendSide) Flushed(*loop.Conn) {
	s := (*Session)(h)
	s.up.insertNow()
	s.client.Resume()
}

// Ended implements [loop.Handler].
func (h *backendSide) Ended(_ *loop.Conn, err error) {
	(*Session)(h).backendBroke("backend connection lost: " + err.Error())
}

// SendPing implements [backend.Pinger]: it asks the backend for a sign of life.
func (h *backendSide) SendPing() { h.up.sendPing() }
