package relay

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A one-shot service behaves like a direct connection when the client closes: the backend learns the code and reason, and
// what it has left to say arrives before the close.
func TestOneShotRelaysClose(t *testing.T) {
	for _, c := range []struct {
		name          string
		code          frame.CloseCode
		reason        string
		serverClosing func(*wstest.Peer)
	}{
		{"answered with the same code", 4001, "end of speech", func(p *wstest.Peer) { p.SendClose(4001, "end of speech") }},
		{"answered with another code", 1000, "", func(p *wstest.Peer) { p.SendClose(1011, "mine is another") }},
		{"answered with a bad code", 1000, "", func(p *wstest.Peer) { p.Send(frame.Close, "\x03\xee") }},
		{"without a code", frame.NoStatus, "", func(p *wstest.Peer) { p.SendClose(frame.NoStatus, "") }},
		{"backend ends the stream", 1001, "x", func(p *wstest.Peer) { _ = p.Close() }},
		{"backend resets", 1001, "x", (*wstest.Peer).Reset},
		{"backend breaks the protocol", 1001, "x", func(p *wstest.Peer) { p.SendBytes([]byte{0x83, 0}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.Session()
			client.Send(frame.Text, "audio")
			client.SendClose(c.code, c.reason)
			client.Send(frame.Text, "behind the close frame, where nothing may be")
			server.Expect(frame.Text, "audio")
			server.ExpectClose(c.code, c.reason)
			server.Send(frame.Ping, "not answered: a close frame was sent")
			server.SendBytes(server.Encode(false, frame.Text, []byte("final ")), server.Encode(true, frame.Continuation, []byte("result")))
			client.Expect(frame.Text, "final ")
			client.Expect(frame.Continuation, "result")
			c.serverClosing(server)
			client.ExpectClose(c.code, c.reason)
			client.ExpectEnd()
			_ = client.Close()
			r.expectRecord(fate{"client", c.code, c.reason, "discarded"})
		})
	}
}

// A backend that does not answer the close does not keep the client waiting without limit.
func TestOneShotCloseTimeout(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) { s.CloseTimeout = 30 * time.Millisecond }})
	client, server := r.Session()
	client.SendClose(4001, "bye")
	server.ExpectClose(4001, "bye")
	client.ExpectClose(4001, "bye")
	client.ExpectEnd()
	r.expectRecord(fate{"client", 4001, "bye", "discarded"})
}

// A client that closes and is gone at once has closed all the same.
func TestOneShotClientGoneAfterClose(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	client.SendClose(4001, "bye")
	_ = client.Close()
	server.ExpectClose(4001, "bye")
	r.expectRecord(fate{"client", 4001, "bye", "discarded"})
}

// A connection serves one client after the other, as long as it is clean.
func TestEchoReusesConnection(t *testing.T) {
	r := newRig(t, setup{Profile: "echo"})
	var server *wstest.Peer
	const clients = 5
	for i := range clients {
		client := r.Join()
		if server == nil {
			server = r.Accepted()
		}
		for _, op := range []frame.Opcode{frame.Text, frame.Binary} {
			text := fmt.Sprintf("client %d", i)
			client.Send(op, text)
			server.Expect(op, text)
			server.SendBytes(server.Encode(false, op, []byte(text)), server.Encode(true, frame.Continuation, nil))
			client.ExpectBytes(append(server.Encode(false, op, []byte(text)), server.Encode(true, frame.Continuation, nil)...))
		}
		client.CloseNormally()
		r.expectRecord(fate{"client", frame.NormalClosure, "", "returned"})
	}
	if s := r.Backend.Stats().Totals; s.Dialed != 1 || s.Leased != clients || s.Returned != clients {
		t.Errorf("totals %+v; want one connection for %d clients", s, clients)
	}
}

// What the server owes to a client that has gone is dropped, and the next client sees nothing of it.
func TestEchoDropsLateAnswers(t *testing.T) {
	for name, leave := range map[string]func(*rig, *wstest.Peer){
		"closes": func(_ *rig, p *wstest.Peer) { p.CloseNormally() },
		"leaves": func(_ *rig, p *wstest.Peer) { _ = p.Close() },
		"resets": func(_ *rig, p *wstest.Peer) { p.Reset() },
		"ended by the proxy": func(r *rig, p *wstest.Peer) {
			r.sessions.EndAll(frame.GoingAway, "enough")
			p.ExpectClose(frame.GoingAway, "enough")
			_ = p.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo"})
			client, server := r.Session()
			for i := range 3 {
				client.Send(frame.Text, fmt.Sprint(i))
				server.Expect(frame.Text, fmt.Sprint(i))
			}
			server.Send(frame.Text, "0")
			client.Expect(frame.Text, "0")
			leave(r, client)
			if a := r.Record(); a["connection_fate"].String() != "resetting" {
				t.Errorf("record: %v", a)
			}
			server.SendBytes(server.Encode(false, frame.Text, wstest.Noise(1, 100_000)))
			if s := r.Backend.Stats(); s.Resetting != 1 || s.Idle != 0 {
				t.Errorf("the connection is not being reset: %+v", s)
			}
			server.Send(frame.Continuation, "1")
			server.Send(frame.Ping, "alive?")
			server.Expect(frame.Pong, "alive?")
			server.Send(frame.Text, "2")
			next := r.Join()
			next.Send(frame.Text, "next")
			server.Expect(frame.Text, "next")
			server.Send(frame.Text, "answer")
			next.Expect(frame.Text, "answer")
			if s := r.Backend.Stats().Totals; s.Dialed != 1 {
				t.Errorf("totals: %+v; want the same connection", s)
			}
		})
	}
}

// An answer that is on its way when the client closes is completed for it.
func TestEchoCompletesFrameForClosingClient(t *testing.T) {
	r := newRig(t, setup{Profile: "echo"})
	client, server := r.Session()
	client.Send(frame.Text, "question")
	server.Expect(frame.Text, "question")
	answer := server.Encode(true, frame.Binary, wstest.Noise(1, 1000))
	server.SendBytes(answer[:10])
	client.ExpectBytes(answer[:10])
	client.SendClose(4000, "")
	r.on(func(*Session) {})
	wstest.Eventually(t, "the close is seen", func() (seen bool) {
		r.on(func(s *Session) { seen = s.life.state == closing })
		return seen
	})
	server.SendBytes(answer[10:])
	client.ExpectBytes(answer[10:])
	client.ExpectClose(4000, "")
	client.ExpectEnd()
	_ = client.Close()
	r.expectRecord(fate{"client", 4000, "", "returned"})
}

// What else arrives together with the end of the frame that a session was waiting for is the connection's business: its
// close, a breach of the protocol, an unsolicited answer. None may be overlooked, or the next client would get
// a dead connection.
func TestBehindTheLastFrame(t *testing.T) {
	for _, c := range []struct {
		name   string
		behind func(*wstest.Peer) []byte
		reused bool
	}{
		{"nothing", func(*wstest.Peer) []byte { return nil }, true},
		{"ping", func(p *wstest.Peer) []byte { return p.Encode(true, frame.Ping, []byte("alive?")) }, true},
		{"close", func(p *wstest.Peer) []byte { return p.Encode(true, frame.Close, []byte("\x03\xe8")) }, false},
		{"breach", func(*wstest.Peer) []byte { return []byte{0x83, 0} }, false},
		{"beginning of a frame", func(*wstest.Peer) []byte { return []byte{0x82} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo"})
			client, server := r.Session()
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			answer := server.Encode(true, frame.Binary, wstest.Noise(1, 1000))
			server.SendBytes(answer[:10])
			client.ExpectBytes(answer[:10])
			r.sessions.EndAll(frame.GoingAway, "enough")
			r.on(func(*Session) {})
			server.SendBytes(answer[10:], c.behind(server))
			client.ExpectBytes(answer[10:])
			client.ExpectClose(frame.GoingAway, "enough")
			_ = client.Close()
			if c.name == "ping" {
				server.Expect(frame.Pong, "alive?")
			}
			if !c.reused {
				if h, payload, err := server.Next(); err != nil || h.Opcode != frame.Close {
					t.Fatalf("got %v %q, %v; want a close frame", h.Opcode, payload, err)
				}
				_ = server.Close()
				server = r.Accepted()
			}
			next := r.Join()
			next.Send(frame.Text, "next")
			server.Expect(frame.Text, "next")
			server.Send(frame.Text, "answer")
			next.Expect(frame.Text, "answer")
		})
	}
}

// A client that vanishes costs the connection when the backend waits for the rest of what it was sending.
func TestEchoClientVanishes(t *testing.T) {
	for _, c := range []struct {
		name   string
		send   func(*wstest.Peer) []byte
		reused bool
	}{
		{"before anything", func(*wstest.Peer) []byte { return nil }, true},
		{"between messages", func(p *wstest.Peer) []byte { return p.Encode(true, frame.Text, []byte("whole")) }, true},
		{"in a frame", func(p *wstest.Peer) []byte { return p.Encode(true, frame.Binary, wstest.Noise(1, 100))[:50] }, false},
		{"behind a header", func(p *wstest.Peer) []byte { return p.Encode(true, frame.Binary, wstest.Noise(1, 100))[:6] }, false},
		{"in a message", func(p *wstest.Peer) []byte { return p.Encode(false, frame.Binary, wstest.Noise(1, 100)) }, false},
		{"in a message, behind a ping", func(p *wstest.Peer) []byte {
			return append(p.Encode(false, frame.Text, nil), p.Encode(true, frame.Ping, nil)...)
		}, false},
	} {
		for how, vanish := range map[string]func(*wstest.Peer){"ends": func(p *wstest.Peer) { _ = p.Close() }, "resets": (*wstest.Peer).Reset} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				r := newRig(t, setup{Profile: "echo"})
				client, server := r.Session()
				sent := c.send(client)
				client.SendBytes(sent)
				whole := sent
				if c.name == "in a message, behind a ping" {
					whole = sent[:6]
					client.Expect(frame.Pong, "")
				}
				server.ExpectBytes(whole)
				vanish(client)
				if c.reused {
					if c.name == "between messages" {
						server.Send(frame.Text, "whole")
					}
					next := r.Join()
					next.Send(frame.Text, "next")
					server.Expect(frame.Text, "next")
					server.Send(frame.Text, "answer")
					next.Expect(frame.Text, "answer")
					return
				}
				r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
				if c.name == "in a frame" || c.name == "behind a header" {
					server.ExpectEnd() // nothing can follow half a frame
				} else {
					server.ExpectClose(frame.GoingAway, "session ended")
					server.SendClose(frame.GoingAway, "")
					server.ExpectEnd()
				}
				_ = server.Close()
				r.Accepted() // its replacement
			})
		}
	}
}

// What was not asked for may belong to another session: it is never passed on.
func TestUnsolicitedAnswer(t *testing.T) {
	const reason = "backend sent an unsolicited answer"
	for _, c := range []struct {
		name    string
		play    func(client, server *wstest.Peer)
		between bool
	}{
		{"to a client that asked nothing", func(_, server *wstest.Peer) {
			server.Send(frame.Text, "secret")
		}, true},
		{"the beginning of one", func(_, server *wstest.Peer) {
			server.SendBytes(server.Encode(false, frame.Text, []byte("secret"))[:3])
		}, true},
		{"behind the answer", func(client, server *wstest.Peer) {
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			server.Send(frame.Text, "answer")
			client.Expect(frame.Text, "answer")
			server.Send(frame.Text, "secret")
		}, true},
		{"together with the answer", func(client, server *wstest.Peer) {
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			server.SendBytes(server.Encode(true, frame.Text, []byte("answer")), server.Encode(true, frame.Text, []byte("secret")))
		}, true},
		{"together with the end of the answer", func(client, server *wstest.Peer) {
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			answer := server.Encode(true, frame.Text, []byte("answer"))
			server.SendBytes(answer[:4])
			client.ExpectBytes(answer[:4])
			server.SendBytes(answer[4:], server.Encode(true, frame.Text, []byte("secret")))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo"})
			client, server := r.Session()
			c.play(client, server)
			if c.between {
				client.ExpectClose(frame.InternalError, reason)
				client.SendClose(frame.InternalError, "")
			}
			client.ExpectEnd()
			_ = client.Close()
			r.expectRecord(fate{"backend", frame.InternalError, reason, "discarded"})
			server.ExpectClose(frame.InternalError, "")
			_ = server.Close()
			r.Accepted() // its replacement
		})
	}
}

// Many clients on few connections: each gets its own answers only, whether it waits for them or not.
func TestManyClientsFewConnections(t *testing.T) {
	const workers, rounds, connections = 8, 60, 4
	r := newRig(t, setup{
		Profile: "echo", Cap: connections, Loops: 2, Script: &wstest.Server{Serve: wstest.Echo},
		Backend: func(o *backend.Options) { o.CloseTimeout = time.Second },
	})
	r.Ready(connections)
	failed := make(chan error, workers)
	for w := range workers {
		go func() { failed <- r.askInTurns(w, rounds) }()
	}
	for range workers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if s := r.Backend.Stats(); s.Used() > connections {
		t.Errorf("more connections than the cap: %+v", s)
	}
}

// askInTurns plays clients one after the other: each asks a few questions, reads some of the answers and leaves in one way
// or another.
func (r *rig) askInTurns(worker, rounds int) error {
	for round := range rounds {
		p, err := r.TryConnect()
		if err != nil {
			return err
		}
		if err := r.askSome(p, fmt.Sprintf("%d/%d", worker, round), round); err != nil {
			_ = p.Close()
			return err
		}
	}
	return nil
}

func (r *rig) askSome(p *wstest.Peer, name string, round int) error {
	if _, err := p.Conn.Write([]byte(wstest.UpgradeRequest("/v1/test"))); err != nil {
		return err
	}
	response, err := p.TryResponse()
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusServiceUnavailable {
		return p.Close() // all connections are in use: this one has to do without
	}
	const questions = 5
	for i := range questions {
		if _, err := p.Conn.Write(p.Encode(true, frame.Text, fmt.Appendf(nil, "%s/%d", name, i))); err != nil {
			return err
		}
	}
	for i := range round % (questions + 1) {
		_, payload, err := p.Next()
		if want := fmt.Sprintf("%s/%d", name, i); err != nil || string(payload) != want {
			return fmt.Errorf("got %q, %v; want %q", payload, err, want)
		}
	}
	if round%3 == 0 {
		p.Reset()
		return nil
	}
	if round%3 == 1 {
		_, _ = p.Conn.Write(p.Encode(true, frame.Close, nil))
	}
	return p.Close()
}
