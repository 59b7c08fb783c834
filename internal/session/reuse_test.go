package session

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// A one-shot service behaves like a direct connection when the client closes: the backend learns the code and reason, and
// what it has left to say arrives before the close.
func TestOneShotRelaysClose(t *testing.T) {
	for _, c := range []struct {
		name          string
		code          frame.CloseCode
		reason        string
		serverClosing func(*peer)
	}{
		{"answered with the same code", 4001, "end of speech", func(p *peer) { p.sendClose(4001, "end of speech") }},
		{"answered with another code", 1000, "", func(p *peer) { p.sendClose(1011, "mine is another") }},
		{"answered with a bad code", 1000, "", func(p *peer) { p.send(frame.Close, "\x03\xee") }},
		{"without a code", frame.NoStatus, "", func(p *peer) { p.sendClose(frame.NoStatus, "") }},
		{"backend ends the stream", 1001, "x", func(p *peer) { _ = p.Close() }},
		{"backend resets", 1001, "x", (*peer).reset},
		{"backend breaks the protocol", 1001, "x", func(p *peer) { p.write([]byte{0x83, 0}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.session()
			client.send(frame.Text, "audio")
			client.sendClose(c.code, c.reason)
			client.send(frame.Text, "behind the close frame, where nothing may be")
			server.expect(frame.Text, "audio")
			server.expectClose(c.code, c.reason)
			server.send(frame.Ping, "not answered: a close frame was sent")
			server.write(server.encode(false, frame.Text, []byte("final ")), server.encode(true, frame.Continuation, []byte("result")))
			client.expect(frame.Text, "final ")
			client.expect(frame.Continuation, "result")
			c.serverClosing(server)
			client.expectClose(c.code, c.reason)
			client.expectEnd()
			_ = client.Close()
			r.expectRecord(fate{"client", c.code, c.reason, "discarded"})
		})
	}
}

// A backend that does not answer the close does not keep the client waiting without limit.
func TestOneShotCloseTimeout(t *testing.T) {
	r := newRig(t, setup{service: func(s *Service) { s.CloseTimeout = 30 * time.Millisecond }})
	client, server := r.session()
	client.sendClose(4001, "bye")
	server.expectClose(4001, "bye")
	client.expectClose(4001, "bye")
	client.expectEnd()
	r.expectRecord(fate{"client", 4001, "bye", "discarded"})
}

// A client that closes and is gone at once has closed all the same.
func TestOneShotClientGoneAfterClose(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.session()
	client.sendClose(4001, "bye")
	_ = client.Close()
	server.expectClose(4001, "bye")
	r.expectRecord(fate{"client", 4001, "bye", "discarded"})
}

// A connection serves one client after the other, as long as it is clean.
func TestEchoReusesConnection(t *testing.T) {
	r := newRig(t, setup{profile: "echo"})
	var server *peer
	const clients = 5
	for i := range clients {
		client := r.join()
		if server == nil {
			server = r.accepted()
		}
		for _, op := range []frame.Opcode{frame.Text, frame.Binary} {
			text := fmt.Sprintf("client %d", i)
			client.send(op, text)
			server.expect(op, text)
			server.write(server.encode(false, op, []byte(text)), server.encode(true, frame.Continuation, nil))
			client.expectBytes(append(server.encode(false, op, []byte(text)), server.encode(true, frame.Continuation, nil)...))
		}
		client.closeNormally()
		r.expectRecord(fate{"client", frame.NormalClosure, "", "returned"})
	}
	if s := r.backend.Stats().Totals; s.Dialed != 1 || s.Leased != clients || s.Returned != clients {
		t.Errorf("totals %+v; want one connection for %d clients", s, clients)
	}
}

// What the server owes to a client that has gone is dropped, and the next client sees nothing of it.
func TestEchoDropsLateAnswers(t *testing.T) {
	for name, leave := range map[string]func(*rig, *peer){
		"closes": func(_ *rig, p *peer) { p.closeNormally() },
		"leaves": func(_ *rig, p *peer) { _ = p.Close() },
		"resets": func(_ *rig, p *peer) { p.reset() },
		"ended by the proxy": func(r *rig, p *peer) {
			r.server.EndAll(frame.GoingAway, "enough")
			p.expectClose(frame.GoingAway, "enough")
			_ = p.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{profile: "echo"})
			client, server := r.session()
			for i := range 3 {
				client.send(frame.Text, fmt.Sprint(i))
				server.expect(frame.Text, fmt.Sprint(i))
			}
			server.send(frame.Text, "0")
			client.expect(frame.Text, "0")
			leave(r, client)
			if a := r.record(); a["connection"].String() != "resetting" {
				t.Errorf("record: %v", a)
			}
			server.write(server.encode(false, frame.Text, noise(1, 100_000)))
			if s := r.backend.Stats(); s.Resetting != 1 || s.Idle != 0 {
				t.Errorf("the connection is not being reset: %+v", s)
			}
			server.send(frame.Continuation, "1")
			server.send(frame.Ping, "alive?")
			server.expect(frame.Pong, "alive?")
			server.send(frame.Text, "2")
			next := r.join()
			next.send(frame.Text, "next")
			server.expect(frame.Text, "next")
			server.send(frame.Text, "answer")
			next.expect(frame.Text, "answer")
			if s := r.backend.Stats().Totals; s.Dialed != 1 {
				t.Errorf("totals: %+v; want the same connection", s)
			}
		})
	}
}

// An answer that is on its way when the client closes is completed for it.
func TestEchoCompletesFrameForClosingClient(t *testing.T) {
	r := newRig(t, setup{profile: "echo"})
	client, server := r.session()
	client.send(frame.Text, "question")
	server.expect(frame.Text, "question")
	answer := server.encode(true, frame.Binary, noise(1, 1000))
	server.write(answer[:10])
	client.expectBytes(answer[:10])
	client.sendClose(4000, "")
	r.on(func(*Session) {})
	eventually(t, "the close is seen", func() (seen bool) {
		r.on(func(s *Session) { seen = s.life.state == closing })
		return seen
	})
	server.write(answer[10:])
	client.expectBytes(answer[10:])
	client.expectClose(4000, "")
	client.expectEnd()
	_ = client.Close()
	r.expectRecord(fate{"client", 4000, "", "returned"})
}

// What else arrives together with the end of the frame that a session was waiting for is the connection's business: its
// close, a breach of the protocol, an answer that nobody asked for. None may be overlooked, or the next client would get
// a dead connection.
func TestBehindTheLastFrame(t *testing.T) {
	for _, c := range []struct {
		name   string
		behind func(*peer) []byte
		reused bool
	}{
		{"nothing", func(*peer) []byte { return nil }, true},
		{"ping", func(p *peer) []byte { return p.encode(true, frame.Ping, []byte("alive?")) }, true},
		{"close", func(p *peer) []byte { return p.encode(true, frame.Close, []byte("\x03\xe8")) }, false},
		{"breach", func(*peer) []byte { return []byte{0x83, 0} }, false},
		{"beginning of a frame", func(*peer) []byte { return []byte{0x82} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{profile: "echo"})
			client, server := r.session()
			client.send(frame.Text, "question")
			server.expect(frame.Text, "question")
			answer := server.encode(true, frame.Binary, noise(1, 1000))
			server.write(answer[:10])
			client.expectBytes(answer[:10])
			r.server.EndAll(frame.GoingAway, "enough")
			r.on(func(*Session) {})
			server.write(answer[10:], c.behind(server))
			client.expectBytes(answer[10:])
			client.expectClose(frame.GoingAway, "enough")
			_ = client.Close()
			if c.name == "ping" {
				server.expect(frame.Pong, "alive?")
			}
			if !c.reused {
				if h, payload, err := server.next(); err != nil || h.Opcode != frame.Close {
					t.Fatalf("got %v %q, %v; want a close frame", h.Opcode, payload, err)
				}
				_ = server.Close()
				server = r.accepted()
			}
			next := r.join()
			next.send(frame.Text, "next")
			server.expect(frame.Text, "next")
			server.send(frame.Text, "answer")
			next.expect(frame.Text, "answer")
		})
	}
}

// A client that vanishes costs the connection when the backend waits for the rest of what it was sending.
func TestEchoClientVanishes(t *testing.T) {
	for _, c := range []struct {
		name   string
		send   func(*peer) []byte
		reused bool
	}{
		{"before anything", func(*peer) []byte { return nil }, true},
		{"between messages", func(p *peer) []byte { return p.encode(true, frame.Text, []byte("whole")) }, true},
		{"in a frame", func(p *peer) []byte { return p.encode(true, frame.Binary, noise(1, 100))[:50] }, false},
		{"behind a header", func(p *peer) []byte { return p.encode(true, frame.Binary, noise(1, 100))[:6] }, false},
		{"in a message", func(p *peer) []byte { return p.encode(false, frame.Binary, noise(1, 100)) }, false},
		{"in a message, behind a ping", func(p *peer) []byte {
			return append(p.encode(false, frame.Text, nil), p.encode(true, frame.Ping, nil)...)
		}, false},
	} {
		for how, vanish := range map[string]func(*peer){"ends": func(p *peer) { _ = p.Close() }, "resets": (*peer).reset} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				r := newRig(t, setup{profile: "echo"})
				client, server := r.session()
				sent := c.send(client)
				client.write(sent)
				whole := sent
				if c.name == "in a message, behind a ping" {
					whole = sent[:6]
					client.expect(frame.Pong, "")
				}
				server.expectBytes(whole)
				vanish(client)
				if c.reused {
					if c.name == "between messages" {
						server.send(frame.Text, "whole")
					}
					next := r.join()
					next.send(frame.Text, "next")
					server.expect(frame.Text, "next")
					server.send(frame.Text, "answer")
					next.expect(frame.Text, "answer")
					return
				}
				r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
				if c.name == "in a frame" || c.name == "behind a header" {
					server.expectEnd() // nothing can follow half a frame
				} else {
					server.expectClose(frame.GoingAway, "session ended")
					server.sendClose(frame.GoingAway, "")
					server.expectEnd()
				}
				_ = server.Close()
				r.accepted() // its replacement
			})
		}
	}
}

// What nobody asked for may belong to another session: it is never passed on.
func TestUnsolicitedAnswer(t *testing.T) {
	const reason = "backend sent an answer that nobody asked for"
	for _, c := range []struct {
		name    string
		play    func(client, server *peer)
		between bool
	}{
		{"to a client that asked nothing", func(_, server *peer) {
			server.send(frame.Text, "secret")
		}, true},
		{"the beginning of one", func(_, server *peer) {
			server.write(server.encode(false, frame.Text, []byte("secret"))[:3])
		}, true},
		{"behind the answer", func(client, server *peer) {
			client.send(frame.Text, "question")
			server.expect(frame.Text, "question")
			server.send(frame.Text, "answer")
			client.expect(frame.Text, "answer")
			server.send(frame.Text, "secret")
		}, true},
		{"together with the answer", func(client, server *peer) {
			client.send(frame.Text, "question")
			server.expect(frame.Text, "question")
			server.write(server.encode(true, frame.Text, []byte("answer")), server.encode(true, frame.Text, []byte("secret")))
		}, true},
		{"together with the end of the answer", func(client, server *peer) {
			client.send(frame.Text, "question")
			server.expect(frame.Text, "question")
			answer := server.encode(true, frame.Text, []byte("answer"))
			server.write(answer[:4])
			client.expectBytes(answer[:4])
			server.write(answer[4:], server.encode(true, frame.Text, []byte("secret")))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{profile: "echo"})
			client, server := r.session()
			c.play(client, server)
			if c.between {
				client.expectClose(frame.InternalError, reason)
				client.sendClose(frame.InternalError, "")
			}
			client.expectEnd()
			_ = client.Close()
			r.expectRecord(fate{"backend", frame.InternalError, reason, "discarded"})
			server.expectClose(frame.InternalError, "")
			_ = server.Close()
			r.accepted() // its replacement
		})
	}
}

// Many clients on few connections: each gets its own answers only, whether it waits for them or not.
func TestManyClientsFewConnections(t *testing.T) {
	const workers, rounds, connections = 8, 60, 4
	r := newRig(t, setup{
		profile: "echo", cap: connections, loops: 2, script: &script{serve: echo},
		backend: func(o *backend.Options) { o.CloseTimeout = time.Second },
	})
	r.ready(connections)
	failed := make(chan error, workers)
	for w := range workers {
		go func() { failed <- r.askInTurns(w, rounds) }()
	}
	for range workers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if s := r.backend.Stats(); s.Used() > connections {
		t.Errorf("more connections than the cap: %+v", s)
	}
}

// askInTurns plays clients one after the other: each asks a few questions, reads some of the answers and leaves in one way
// or another.
func (r *rig) askInTurns(worker, rounds int) error {
	for round := range rounds {
		nc, err := net.Dial("tcp", r.address)
		if err != nil {
			return err
		}
		p := newPeer(r.t, nc, bufio.NewReader(nc), false)
		if err := r.askSome(p, fmt.Sprintf("%d/%d", worker, round), round); err != nil {
			_ = nc.Close()
			return err
		}
	}
	return nil
}

func (r *rig) askSome(p *peer, name string, round int) error {
	if _, err := p.Conn.Write([]byte(upgradeRequest("/v1/test"))); err != nil {
		return err
	}
	response, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusServiceUnavailable {
		return p.Close() // all connections are in use: this one has to do without
	}
	const questions = 5
	for i := range questions {
		if _, err := p.Conn.Write(p.encode(true, frame.Text, fmt.Appendf(nil, "%s/%d", name, i))); err != nil {
			return err
		}
	}
	for i := range round % (questions + 1) {
		_, payload, err := p.next()
		if want := fmt.Sprintf("%s/%d", name, i); err != nil || string(payload) != want {
			return fmt.Errorf("got %q, %v; want %q", payload, err, want)
		}
	}
	if round%3 == 0 {
		p.reset()
		return nil
	}
	if round%3 == 1 {
		_, _ = p.Conn.Write(p.encode(true, frame.Close, nil))
	}
	return p.Close()
}
