package backend

import (
	"bytes"
	"slices"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// session holds a lease the way a client's session does.
type session struct {
	t        testing.TB
	conn     *Conn
	greeting []byte

	// Owned by the connection's loop.
	received []byte
	busy     bool  // a frame is on its way to the server, so that no ping can be sent now
	pings    int   // asked for
	pinged   int   // by the server
	ended    error // why the connection ended
}

// begin begins the session, and returns false when the connection was no longer alive.
func (s *session) begin() (alive bool) {
	done := make(chan struct{})
	s.conn.Use(func(ok bool) {
		defer close(done)
		if alive = ok; ok {
			s.conn.Begin(Client{})
			s.conn.Scanner.Inspect = 0
			s.greeting = s.conn.TakeGreeting()
			s.conn.Stream().SetHandler(s)
		}
	})
	<-done
	return alive
}

// on calls f on the connection's loop.
func (s *session) on(f func()) {
	done := make(chan struct{})
	if !s.conn.Stream().Post(func() { f(); close(done) }) {
		s.t.Fatal("the loop has stopped")
	}
	<-done
}

// until waits until a condition holds, which is looked at on the connection's loop.
func (s *session) until(what string, condition func() bool) {
	s.t.Helper()
	wstest.Eventually(s.t, what, func() (holds bool) {
		s.on(func() { holds = condition() })
		return holds
	})
}

func (s *session) write(b []byte) { s.on(func() { s.conn.Stream().Write(b) }) }

// ask sends a whole message.
func (s *session) ask(text string) {
	s.write(wstest.ClientFrame(true, frame.Text, text))
}

// end ends the lease after that number of messages were sent.
func (s *session) end(sent uint64) Outcome {
	return s.finish(Ending{Traffic: profile.Traffic{Sent: sent}, Code: frame.GoingAway, Text: "over"})
}

// finish ends the lease, and fills in what the server has sent.
func (s *session) finish(e Ending) (verdict Outcome) {
	s.on(func() {
		e.Traffic.Received, e.Traffic.ReceivingMessage = s.conn.MessagesReceived()
		verdict = s.conn.End(e)
	})
	return verdict
}

// Received implements [loop.Handler].
func (s *session) Received(_ *loop.Conn, b []byte) int {
	pos := 0
	for {
		run, err := s.conn.Scanner.Next(b[pos:])
		s.received = append(s.received, b[pos:pos+run.Data]...)
		pos += run.Consumed
		if err != nil || !run.HasControl() {
			return pos
		}
		switch run.Control {
		case frame.Ping:
			s.pinged++
		case frame.Pong:
			s.conn.Pong(run.Payload)
		}
	}
}

// Flushed implements [loop.Handler].
func (s *session) Flushed(*loop.Conn) {}

// Ended implements [loop.Handler].
func (s *session) Ended(_ *loop.Conn, err error) { s.ended = err }

// Expired implements [LeaseHolder].
func (s *session) Expired(c *loop.Conn, t *loop.Timer) { s.conn.Expired(c, t) }

// Apply implements [LeaseHolder].
func (s *session) Apply(profile.Step) {}

// SendPing implements [LeaseHolder].
func (s *session) SendPing() {
	s.pings++
	if !s.busy {
		s.ping()
	}
}

// ping sends the ping that was asked for.
func (s *session) ping() {
	var buf [frame.MaxControlSize]byte
	s.conn.Stream().Write(frame.AppendControl(buf[:0], frame.Ping, s.conn.Ping(), true))
}

// hear waits until the session has received n bytes.
func (s *session) hear(n int) {
	wstest.Eventually(s.t, "the answer arrives", func() (all bool) {
		s.on(func() { all = len(s.received) >= n })
		return all
	})
}

// expectSaid waits until the server has said this, whether before the session or in it.
func (s *session) expectSaid(want []byte) {
	s.t.Helper()
	s.hear(len(want) - len(s.greeting))
	s.on(func() {
		if got := slices.Concat(s.greeting, s.received); !bytes.Equal(got, want) {
			s.t.Errorf("the server said %.80q (%d bytes); want %.80q (%d bytes)", got, len(got), want, len(want))
		}
	})
}
