package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// This file presents messages to the boundary of the leased connection, and does what the boundary asks of the session. The
// boundary inspects few messages: the first ones, those that end something, or none. All others pass without it.

// inspect makes the scanners stop at the messages that the boundary inspects now.
func (s *Session) inspect() {
	conn := s.leg.conn
	b := conn.Boundary()
	switch f := s.failover; {
	case f == nil:
		s.scanner.Inspect = b.Inspect(profile.FromClient)
	case f.machine.Streams():
		f.outgoing.Inspect = b.Inspect(profile.FromClient)
	}
	conn.Scanner.Inspect = b.Inspect(profile.FromServer)
}

// presentFromClient presents a piece of a client's message to the boundary, and passes it on if the boundary says so. It returns
// the length of the piece, or 0 if the piece must be presented again.
func (s *Session) presentFromClient(run *frame.Run, b []byte) (int, error) {
	if s.life.state != relaying { // the session is over
		piece, err := s.scanner.NextPiece(b)
		return piece.Size, err
	}
	return s.fromClient.Present(s.leg.conn.Boundary(), profile.FromClient, &s.scanner, run, b, s.clientStep)
}

// clientStep carries out the boundary's step for a piece of a client's message.
func (s *Session) clientStep(step profile.Step, raw []byte, ends bool) {
	s.tap.ClientStep(step, raw, ends)
	switch step.Pass {
	case profile.Relay:
		s.leg.up.pass(raw, boundaryAt(raw, ends))
	case profile.Release:
		op, payload, fin := s.leg.conn.Boundary().Held(profile.FromClient)
		s.sendUp(op, payload, fin)
	}
	s.act(step)
}

// sendUp sends the backend a frame that the proxy has made.
func (s *Session) sendUp(op frame.Opcode, payload []byte, fin bool) {
	s.tap.SentToBackend(op, payload)
	b := frame.AppendMessage(make([]byte, 0, frame.MaxHeaderSize+len(payload)), op, fin, payload, true)
	s.leg.up.pass(b, len(b))
}

// presentFromBackend presents a piece of a backend's message to the boundary, and passes it on if the boundary says so.
func (s *Session) presentFromBackend(conn *backend.Conn, run *frame.Run, b []byte) (int, error) {
	begins := run.Begins
	return conn.FromServer.Present(conn.Boundary(), profile.FromServer, &conn.Scanner, run, b, func(step profile.Step, raw []byte, ends bool) {
		if s.holds(conn) {
			s.backendStep(step, raw, ends, begins)
		} else { // the lease ended in the middle of the piece
			conn.Apply(step)
		}
	})
}

func (s *Session) backendStep(step profile.Step, raw []byte, ends, begins bool) {
	conn := s.leg.conn
	s.tap.BackendStep(step, raw, ends)
	if passes := step.Pass == profile.Relay || step.Pass == profile.Release; passes || begins || ends {
		s.leg.down.withheld = !passes && !ends
	}
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
	if a := step.Answered; a.Frames > 0 {
		conn.Forget(a)
		s.tap.Forgot(a.Frames)
	}
	if s.holds(conn) {
		s.act(step)
	}
}

// boundaryAt returns the offset at which a frame ends within raw, or -1.
func boundaryAt(raw []byte, ends bool) int {
	if ends {
		return len(raw)
	}
	return -1
}

// act carries out a step, apart from passing on the piece that the step is about.
func (s *Session) act(step profile.Step) {
	s.leg.conn.ApplyToServer(step)
	s.follow(step)
}

// Apply implements [backend.LeaseHolder].
func (h *backendSide) Apply(step profile.Step) { (*Session)(h).follow(step) }

// follow carries out what a step asks of the session.
func (s *Session) follow(step profile.Step) {
	conn := s.leg.conn
	s.tap.Followed(step)
	if s.life.state == relaying {
		switch step.Client {
		case profile.Pause:
			s.leg.hold = true
			if s.failover == nil {
				s.holdClient()
			} else {
				s.failover.regulate()
			}
		case profile.Resume:
			s.letThrough()
		}
	}
	if !s.holds(conn) {
		return
	}
	switch step.Then {
	case profile.Replaced:
		s.handle(event{kind: replaced, by: byClient, class: meter.Normal, code: frame.NormalClosure, reason: "the session is over"})
	case profile.Finished:
		s.handle(event{kind: answered})
	case profile.Elsewhere:
		s.cannotServe(notServed, step)
	case profile.Foreign:
		s.unsolicitedAnswer(true) // none of it was passed on
	case profile.Broken:
		s.cannotServe(unfit, step)
	}
	if s.holds(conn) {
		s.inspect()
	}
}
