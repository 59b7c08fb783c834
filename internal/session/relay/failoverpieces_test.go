package relay

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// sendPart sends a part of the client's messages that has so much payload, and waits until the session has got it.
func (r *rig) sendPart(client *wstest.Peer, b []byte, payload int) {
	r.T.Helper()
	before := uint64(0)
	r.on(func(s *Session) { before = s.scanner.Bytes })
	client.SendBytes(b)
	wstest.Eventually(r.T, "the part has come", func() (is bool) {
		r.on(func(s *Session) { is = s.scanner.Bytes >= before+uint64(payload) })
		return is
	})
}

// A session that is no longer recoverable from within a client's message on: the server gets all of that message, and of those that follow.
func TestLossWithinMessage(t *testing.T) {
	const header = 8 // of a client's frame of some hundred bytes
	memory := func(r *rig, _, _ *wstest.Peer) {
		r.on(func(s *Session) { s.failover.loseMemory() }) // as recovery.giveUp does when the arena asks
	}
	long := func(_ *rig, client, server *wstest.Peer) {
		text := sessiontest.Partial(strings.Repeat("x", maxWhole))
		sent := make(chan struct{})
		go func() { defer close(sent); server.Send(frame.Text, text) }()
		client.Expect(frame.Text, text)
		<-sent
	}
	for _, c := range []struct {
		name string
		cut  int // payload of the first part: in the first of two frames with 800 bytes each, or behind it
		lose func(r *rig, client, server *wstest.Peer)
		then func(client *wstest.Peer)
	}{
		{name: "within a frame", cut: 700, lose: memory},
		{name: "within a frame, for what the server sends", cut: 700, lose: long},
		{name: "within the second frame", cut: 900, lose: memory},
		{name: "between two frames", cut: 800, lose: memory},
		{name: "before a ping", cut: 800, lose: memory, then: func(client *wstest.Peer) {
			client.Send(frame.Ping, "p")
			client.Expect(frame.Pong, "p")
		}},
		{name: "before a ping, for what the server sends", cut: 800, lose: long, then: func(client *wstest.Peer) {
			client.Send(frame.Ping, "p")
			client.Expect(frame.Pong, "p")
		}},
		{name: "while a move is pending", cut: 800, lose: func(r *rig, client, server *wstest.Peer) {
			r.on(func(s *Session) { s.OrderMove(failover.PendingMove{Number: 7, Cause: meter.Drained}, nil) })
			memory(r, client, server)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFailoverRig(t, "vosk", 2, setup{})
			client, server, _ := r.began()
			client.Send(frame.Binary, sessiontest.Chunk(1)) // which the server may answer
			server.Expect(frame.Binary, sessiontest.Chunk(1))
			first, second := strings.Repeat("1", 800), strings.Repeat("2", 800)
			whole := append(client.Encode(false, frame.Binary, []byte(first)), client.Encode(true, frame.Continuation, []byte(second))...)
			at := c.cut + header
			if c.cut > len(first) {
				at += header
			}
			r.sendPart(client, whole[:at], c.cut)
			c.lose(r, client, server)
			r.recoverable(false)
			if c.then != nil {
				c.then(client)
			}
			client.SendBytes(whole[at:])
			server.Expect(frame.Binary, first)
			server.Expect(frame.Continuation, second)
			sessiontest.Speak(client, server, 2, sessiontest.Partial("two"), sessiontest.Partial("two"))
			r.on(func(s *Session) {
				if handled := (*tappedSession)(s).FramesHandled(); handled != s.scanner.Frames {
					t.Errorf("a tap sees %d frames handled of %d", handled, s.scanner.Frames)
				}
			})
			client.CloseNormally()
		})
	}
}

// A client that closes or leaves within a message from which on its session is no longer recoverable ends the session immediately.
func TestClientEndsWithinMessage(t *testing.T) {
	for name, end := range map[string]func(client *wstest.Peer){
		"closes": func(client *wstest.Peer) { client.CloseNormally() },
		"leaves": func(client *wstest.Peer) { _ = client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFailoverRig(t, "vosk", 2, setup{}) // whose close timeout is as long as a test waits
			client, server, _ := r.began()
			r.sendPart(client, client.Encode(false, frame.Binary, []byte(sessiontest.Chunk(1))), len(sessiontest.Chunk(1)))
			r.on(func(s *Session) { s.failover.loseMemory() })
			server.Expect(frame.Binary, sessiontest.Chunk(1))
			end(client)
			wstest.Eventually(t, "the session has ended", func() bool { return r.stats().Active == 0 })
		})
	}
}

// Clients send their messages in pieces, and at any moment the memory for them is short. The server gets everything once.
func TestPiecesAndShortMemory(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	client, server, _ := r.began()
	dice := rand.New(rand.NewPCG(7, 11))
	lost := 0
	for i := range 40 {
		chunk := sessiontest.Chunk(i % 20)
		ops, texts, stream, pings := []frame.Opcode(nil), []string(nil), []byte(nil), 0
		for rest, op := chunk, frame.Binary; op == frame.Binary || rest != ""; op = frame.Continuation {
			n := min(1+dice.IntN(2*len(chunk)), len(rest))
			ops, texts = append(ops, op), append(texts, rest[:n])
			stream = append(stream, client.Encode(n == len(rest), op, []byte(rest[:n]))...)
			rest = rest[n:]
			if rest != "" && dice.IntN(2) == 0 {
				stream = append(stream, client.Encode(true, frame.Ping, []byte("p"))...)
				pings++
			}
		}
		cut := 1 + dice.IntN(len(stream))
		client.SendBytes(stream[:cut])
		if cut > 100 { // otherwise perhaps none of it is data
			wstest.Eventually(t, "a part has come", func() (is bool) {
				r.on(func(s *Session) { is = !s.failover.up.between() || s.scanner.AtMessageBoundary() && cut == len(stream) })
				return is
			})
		}
		r.on(func(s *Session) {
			if s.failover.machine.Recoverable() {
				lost++
			}
			s.failover.loseMemory()
		})
		client.SendBytes(stream[cut:])
		for range pings {
			client.Expect(frame.Pong, "p")
		}
		for j, op := range ops {
			server.Expect(op, texts[j])
		}
		answer, all := sessiontest.Partial("x"), dice.IntN(2) == 0
		if all {
			answer = sessiontest.Final("x", 0, float64(i+2)/10)
		}
		server.Send(frame.Text, answer)
		client.Expect(frame.Text, answer)
		if all {
			r.recoverable(true)
		}
	}
	if lost < 10 {
		t.Errorf("only %d times, the session stopped being recoverable", lost)
	}
	client.CloseNormally()
}
