package session

import (
	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// This file is the session's part in what the boundary of its connection asks for. The boundary inspects few messages: the
// first ones, those that end something, or none. All others pass without it.

// inspect has the scanners stop at the messages that the boundary inspects.
func (s *Session) inspect() {
	b := s.backend.Boundary()
	s.scanner.Inspect = b.Inspect(profile.FromClient)
	s.backend.Scanner.Inspect = b.Inspect(profile.FromServer)
}

// presentFromClient presents a piece of a client's message, and passes it on as the boundary says. It returns the piece's
// length, or 0 when it has to be presented again.
func (s *Session) presentFromClient(run *frame.Run, b []byte) (int, error) {
	if s.phase != relaying { // the session is over
		piece, err := s.scanner.NextPiece(b)
		return piece.Size, err
	}
	return s.fromClient.Present(s.backend.Boundary(), profile.FromClient, &s.scanner, run, b, s.clientStep)
}

// clientStep does what a step says that came for a piece of a client's message.
func (s *Session) clientStep(step profile.Step, raw []byte, ends bool) {
	switch step.Pass {
	case profile.Relay:
		s.up.pass(raw, boundaryAt(raw, ends))
	case profile.Release:
		op, payload, fin := s.backend.Boundary().Held(profile.FromClient)
		s.sendUp(op, payload, fin)
	}
	s.act(step)
}

// sendUp sends the backend a frame that was not received as it is.
func (s *Session) sendUp(op frame.Opcode, payload []byte, fin bool) {
	b := frame.AppendMessage(make([]byte, 0, frame.MaxHeaderSize+len(payload)), op, fin, payload, true)
	s.up.pass(b, len(b))
}

// presentFromBackend presents a piece of a server's message, and passes it on as the boundary says.
func (s *Session) presentFromBackend(conn *backend.Conn, run *frame.Run, b []byte) (int, error) {
	begins := run.Begins
	return conn.FromServer.Present(conn.Boundary(), profile.FromServer, &conn.Scanner, run, b, func(step profile.Step, raw []byte, ends bool) {
		if s.serves(conn) {
			s.backendStep(step, raw, ends, begins)
		} else { // it has ended in the middle of the piece
			conn.Apply(step)
		}
	})
}

func (s *Session) backendStep(step profile.Step, raw []byte, ends, begins bool) {
	conn := s.backend
	switch step.Pass {
	case profile.Relay:
		if len(raw) > 0 {
			s.fromBackend(raw, boundaryAt(raw, ends), begins)
		}
	case profile.Release:
		op, payload, fin := conn.Boundary().Held(profile.FromServer)
		whole := frame.AppendMessage(make([]byte, 0, frame.MaxHeaderSize+len(payload)), op, fin, payload, false)
		s.fromBackend(whole, len(whole), true)
	}
	if s.serves(conn) {
		s.act(step)
	}
}

// boundaryAt returns where a frame ends in the piece of one, or -1.
func boundaryAt(raw []byte, ends bool) int {
	if ends {
		return len(raw)
	}
	return -1
}

// act does what a step asks for, besides passing on what it came for.
func (s *Session) act(step profile.Step) {
	s.backend.ApplyToServer(step)
	s.follow(step)
}

// Apply implements [backend.LeaseHolder].
func (h *backendSide) Apply(step profile.Step) { (*Session)(h).follow(step) }

// follow does what a step asks of the session.
func (s *Session) follow(step profile.Step) {
	conn := s.backend
	switch step.Client {
	case profile.Pause:
		s.heldBack = true
		s.client.Pause()
	case profile.Resume:
		s.letThrough()
	}
	if !s.serves(conn) {
		return
	}
	switch step.Then {
	case profile.Replaced:
		s.conclude()
	case profile.Finished:
		s.answerClient()
	case profile.Elsewhere:
		s.moveOrEnd(step)
	case profile.Foreign:
		s.endForeign(true) // it was held back until it was known
	case profile.Broken:
		s.unfit(step)
	}
	if s.serves(conn) {
		s.inspect()
	}
}

// letThrough reads the client again, whose first message may have been kept for the connection.
func (s *Session) letThrough() {
	s.heldBack = false
	conn := s.backend
	if s.first.Opcode != 0 {
		s.presentFirst()
	}
	if s.serves(conn) && !s.heldBack && s.up.to.Pending() == 0 {
		s.client.Resume()
	}
}

// conclude puts the profile's reset in the place of the client's last message. What the server says goes to the client until
// it has the last answer, and then it is told that the session is over.
func (s *Session) conclude() {
	s.record.end(byClient, frame.NormalClosure, "the session is over")
	s.sent = s.sentNow()
	s.phase, s.concluding = clientLeaving, true
	s.up.closed = true
	s.deadline.Stop()
	s.timer.Stop() // the boundary has its own
	s.act(s.backend.ReplaceEnd(s.traffic(s.sent)))
}

// unfit ends a session whose connection cannot serve it to its end.
func (s *Session) unfit(step profile.Step) {
	if s.refused = step.Reason == profile.Busy; !s.refused {
		s.fault = step.Reason.String()
	}
	code := frame.InternalError
	if step.Close != 0 {
		code = step.Close
	}
	if s.concluding { // it did not come to its end after all
		s.record.end(byBackend, code, step.Reason.String())
	}
	s.end(byBackend, code, step.Reason.String())
}
