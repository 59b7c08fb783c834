package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// leg is what belongs to one lease of one connection. A session has at most one at a time, and a new lease begins a new leg. The
// zero value stands for none. All of it is owned by the session's loop.
type leg struct {
	conn *backend.Conn // nil when no connection is leased
	up   direction     // from the client to the backend
	down direction     // from the backend to the client

	// What the scanners had counted when the leg began.
	messagesBefore            uint64 // of the client
	framesBefore, bytesBefore uint64 // of the backend

	// first is the client's first message, which another connection could not serve. It is sent once the boundary lets it. nil for none.
	first *profile.Opening
	// found is the search that has found the connection, if the session could not be served by another; nil otherwise.
	found *search
	// hold: the boundary lets no more of the client's messages through for now, so the client is not read.
	hold  bool
	full  bool // the backend would not serve the session, since it is full
	slow  bool // the backend took too long for the client's last result
	alike bool // the backend has ended the session as another one did

	sent  sent   // set when the client's part ends
	fault string // how the backend broke the session; empty if it did not
}

// newLeg returns the leg of a connection that was leased for the session. first is what the client has said on an earlier leg,
// if anything.
func (s *Session) newLeg(conn *backend.Conn, first profile.Opening) leg {
	l := leg{
		conn:           conn,
		up:             direction{scanner: &s.scanner, to: conn.Stream(), masked: true, pings: conn},
		down:           direction{scanner: &conn.Scanner, to: s.client},
		messagesBefore: s.scanner.Messages,
		framesBefore:   conn.Scanner.Frames,
		bytesBefore:    conn.Scanner.Bytes,
	}
	if first.Opcode != 0 {
		kept := first // so that only this case allocates
		l.first = &kept
		l.messagesBefore--
	}
	return l
}

// opening returns what the client has said, for the next connection, if this one cannot serve the session.
func (l *leg) opening() profile.Opening {
	if l.first != nil {
		return *l.first
	}
	return l.conn.Boundary().Opening()
}

// sent is how far the client's frames have got to the backend when the client's part ends. What comes later is not passed on.
type sent struct {
	messages             uint64
	midMessage, midFrame bool
}

// sentBy returns how far the frames of a client have got.
func (l *leg) sentBy(client *loop.Conn, scanner *frame.Scanner, f *recovery) sent {
	if f != nil {
		return f.sentNow()
	}
	return sent{
		messages:   scanner.Messages - l.messagesBefore,
		midMessage: !scanner.AtMessageBoundary() || client.Held() > 0,
		midFrame:   !scanner.AtFrameBoundary(),
	}
}

// sentNow returns how far the client's frames have got.
func (s *Session) sentNow() sent {
	if s.life.state == relaying {
		return s.leg.sentBy(s.client, &s.scanner, s.failover)
	}
	return s.leg.sent
}

// traffic returns what has passed over the leg.
func (l *leg) traffic(sent sent) profile.Traffic {
	received, receiving := l.conn.MessagesReceived()
	return profile.Traffic{
		Sent: sent.messages, SendingMessage: sent.midMessage,
		Received: received, ReceivingMessage: receiving,
	}
}

// relayed returns what the session has relayed so far, on the present leg.
func (s *Session) relayed() meter.Relayed {
	l := &s.leg
	if l.conn == nil {
		r := s.record.Relayed
		if s.record.Ended.IsZero() { // it looks for another connection
			if s.failover != nil {
				r = s.failover.relayed
			}
			r.FramesFromClients, r.BytesFromClients = s.scanner.Frames, s.scanner.Bytes
		}
		return r
	}
	r := meter.Relayed{
		FramesFromClients: s.scanner.Frames, BytesFromClients: s.scanner.Bytes,
		FramesFromBackends: l.conn.Scanner.Frames - l.framesBefore, BytesFromBackends: l.conn.Scanner.Bytes - l.bytesBefore,
	}
	if s.failover != nil {
		r.Add(s.failover.relayed)
	}
	return r
}

// owed reports whether the backend may have something left to say to what the client has sent.
func (s *Session) owed() bool { return s.leg.conn.Boundary().Owed(s.leg.traffic(s.sentNow())) }
