package backend

import (
	"math/rand/v2"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file does what the steps of the connection's boundary ask for.

// LeaseHolder is what a connection needs of the session that uses it.
type LeaseHolder interface {
	loop.TimerHandler // it passes Expired on to the connection
	// SendPing sends a ping with the payload that [Conn.Ping] returns to the server, at the next frame boundary.
	SendPing()
	// Apply does the session's part of a step. The connection has called [Conn.ApplyToServer].
	Apply(profile.Step)
}

// holder returns the session that holds the lease; nil if none does.
func (c *Conn) holder() LeaseHolder {
	h, _ := loop.As[LeaseHolder](c.stream.Handler())
	return h
}

// Boundary returns the boundary of the connection's sessions, for the session that holds the lease.
func (c *Conn) Boundary() *profile.Boundary { return &c.boundary }

// Begin begins a client's session at the boundary. The session does what the step asks for, [Conn.ApplyToServer] included.
func (c *Conn) Begin(client Client) profile.Step {
	c.Scanner.Messages = 0
	w := &c.config.backend.worker
	c.sessionBegan = w.now()
	w.sessionBegan(client, c.sessionBegan)
	return c.boundary.Begin(rand.Uint64())
}

// ReplaceEnd replaces the client's last message by the profile's reset, see [profile.Boundary.ReplaceEnd].
func (c *Conn) ReplaceEnd(t profile.Traffic) profile.Step {
	step := c.boundary.ReplaceEnd(t)
	c.FromServer.inspectRest(&c.boundary, &c.Scanner)
	return step
}

// ApplyToServer does what a step asks of the connection: it sends messages to the server, whose stream must be at a message
// boundary, and sets the boundary's timer. The rest of the step is for its handler.
func (c *Conn) ApplyToServer(s profile.Step) {
	for i := range s.Send {
		m := &s.Send[i]
		op := frame.Text
		if m.Binary {
			op = frame.Binary
		}
		payload := m.Append(nil, c.boundary.Token())
		if m.Binary {
			c.AddHeard(int64(len(payload)))
		}
		c.tellSent(op, payload)
		c.stream.Write(frame.AppendMessage(make([]byte, 0, frame.MaxHeaderSize+len(payload)), op, true, payload, true))
	}
	switch {
	case s.Timer == profile.StopTimer:
		c.stopBoundaryTimer()
	case s.Timer > 0:
		if c.boundaryTimer == nil {
			c.boundaryTimer = new(loop.Timer)
		}
		c.boundaryTimer.Set(c.stream, s.Timer, TimerBoundary)
	}
}

// KeepaliveDue returns when the idle connection's server is to get its next keepalive, for a session that is about to begin; 0 for not known.
func (c *Conn) KeepaliveDue() loop.Instant {
	if c.boundaryTimer == nil {
		return 0
	}
	return c.boundaryTimer.When()
}

// Forget takes a message that has answered a keepalive of the session out of what the server has sent. It shows that the server is alive, though.
func (c *Conn) Forget(a profile.Answered) {
	c.Scanner.Forget(a.Opcode, a.Frames, a.Bytes)
	c.received--
}

func (c *Conn) stopBoundaryTimer() {
	if c.boundaryTimer != nil {
		c.boundaryTimer.Stop()
	}
}

// boundaryTime tells the boundary that the time which a step has asked for is over.
func (c *Conn) boundaryTime() {
	step := c.boundary.Timer(c.stream.Held() == 0 && c.Scanner.AtMessageBoundary())
	if c.state == serving {
		c.ApplyToServer(step)
		c.holder().Apply(step)
		return
	}
	c.Apply(step)
	c.idleIfDone(nil)
}

// Apply does what a step asks for while no session is the handler of the stream, or right after the session has ended.
func (c *Conn) Apply(s profile.Step) {
	if unusable.has(c.state) {
		return
	}
	c.ApplyToServer(s)
	switch s.Then {
	case profile.Ready:
		switch c.state {
		case greeting:
			c.to(greeted)
		case resetting:
			c.resetDone()
		}
	case profile.Broken:
		if c.state == leaving {
			c.leftBy(s.Reason)
			return
		}
		if s.Reason == profile.Busy && c.dialing != nil {
			c.dialing.refusal = errFull
		}
		c.fail(cause{poolReason(s.Reason), frame.PolicyViolation, s.Reason.String()}, nil)
	}
}

// poolReason returns the pool's name for the reason why a boundary has given a connection up.
func poolReason(r profile.Reason) pool.Reason {
	switch r {
	case profile.Served:
		return pool.Served
	case profile.Cut:
		return pool.Cut
	case profile.Busy:
		return pool.Full
	case profile.NotReady, profile.NotAlive:
		return pool.Silent
	case profile.Unsolicited, profile.LateMessage:
		return pool.Unsolicited
	case profile.ResetTimeout, profile.ResultTimeout, profile.ResetMismatch:
		return pool.ResetFailed
	case profile.ServerClosed:
		return pool.Closed
	}
	return pool.Unclean
}

// Inspector presents the inspected messages of one direction to a connection's boundary, piece by piece as they arrive. The
// zero value is ready. It belongs to the owner of the direction's scanner.
type Inspector struct {
	feeding bool         // the payload of the frame under way is presented too
	pass    profile.Pass // what becomes of the frame under way, when it is not
}

// Present presents the piece at the start of data, where the scanner's Next has stopped with run. It calls act once or twice with the
// boundary's steps: for the frame's header and for the payload. raw is the piece as it is on the wire, or nil if a second call follows;
// ends tells that its frame ends with it. Present returns the length of the piece; 0 if the boundary did not take it
// ([profile.Keep]), so that it has to be presented again.
func (i *Inspector) Present(b *profile.Boundary, d profile.Direction, scanner *frame.Scanner, run *frame.Run, data []byte,
	act func(step profile.Step, raw []byte, ends bool),
) (int, error) {
	step, headed := profile.Step{}, run.Begins
	if headed {
		step = b.Frame(d, run.Header.Opcode, run.Header.Length, run.Header.Fin)
		if step.Pass == profile.Keep {
			act(step, nil, false)
			return 0, nil
		}
		i.feeding, i.pass = step.Feed, step.Pass
	}
	piece, err := scanner.NextPiece(data)
	if err != nil {
		return 0, err
	}
	raw := data[:piece.Size]
	if !i.feeding {
		step.Pass = i.pass
		act(step, raw, piece.FrameEnds)
		return piece.Size, nil
	}
	if headed {
		act(step, nil, false)
	}
	act(b.Feed(d, piece.Payload, piece.Key, piece.MessageEnds), raw, piece.FrameEnds)
	return piece.Size, nil
}

// inspectRest has the rest of the message under way presented, whether it was until now or not. The boundary expects that when
// a session is over ([profile.Boundary.Feed]).
func (i *Inspector) inspectRest(b *profile.Boundary, scanner *frame.Scanner) {
	scanner.Inspect = b.Inspect(profile.FromServer)
	scanner.InspectRest()
	i.feeding = true
}
