package relay

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A client gets its own code back, whatever the profile makes of the connection.
func TestClientCloses(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   frame.CloseCode
		reason string
	}{
		{"normal", frame.NormalClosure, ""},
		{"with a reason", frame.GoingAway, "tab closed"},
		{"without a code", frame.NoStatus, ""},
		{"of a library", 3000, "x"},
		{"of an application", 4999, "ä"},
		{"the longest reason", 4000, strings.Repeat("r", frame.MaxCloseReason)},
	} {
		for profile, connection := range map[string]string{"one-shot": "discarded", "echo": "returned"} {
			t.Run(c.name+", "+profile, func(t *testing.T) {
				r := newRig(t, setup{Profile: profile, Script: &wstest.Server{Serve: wstest.Echo}})
				p := r.Join()
				p.Send(frame.Text, "hello")
				p.Expect(frame.Text, "hello")
				p.SendClose(c.code, c.reason)
				p.ExpectClose(c.code, c.reason)
				p.ExpectEnd()
				_ = p.Close()
				r.expectRecord(fate{"client", c.code, c.reason, connection})
			})
		}
	}
}

// The backend's close reaches the client. One that breaks RFC 6455 is a fault (TestServerBreaksProtocol).
func TestBackendCloses(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		code          frame.CloseCode
		reason        string
	}{
		{"normal", "\x03\xe8bye", 1000, "bye"},
		{"restart", "\x03\xf4", 1012, ""},
		{"of an application", "\x0f\xa0model unloaded", 4000, "model unloaded"},
		{"without a code", "", frame.NoStatus, ""},
	} {
		for _, profile := range []string{"one-shot", "echo"} {
			t.Run(c.name+", "+profile, func(t *testing.T) {
				r := newRig(t, setup{Profile: profile})
				client, server := r.Session()
				server.Send(frame.Close, c.payload)
				client.ExpectClose(c.code, c.reason)
				server.ExpectClose(c.code, "") // answered with the same code
				server.ExpectEnd()
				client.SendClose(c.code, "")
				client.ExpectEnd()
				_ = client.Close()
				r.expectRecord(fate{"backend", c.code, c.reason, "discarded"})
			})
		}
	}
}

// A backend that breaks off, or the protocol, is 1011 to the client.
func TestBackendLost(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		lose         func(server *wstest.Peer)
	}{
		{"ends the stream", "backend connection lost: EOF", func(p *wstest.Peer) { _ = p.Close() }},
		{"resets", "backend connection lost: ", (*wstest.Peer).Reset},
		{"masks", "backend broke the protocol: server frame masked", func(p *wstest.Peer) { p.SendBytes([]byte{0x82, 0x81, 0, 0, 0, 0, 'x'}) }},
		{"reserved opcode", "backend broke the protocol: reserved opcode", func(p *wstest.Peer) { p.SendBytes([]byte{0x83, 0}) }},
		{"continuation of nothing", "backend broke the protocol: continuation", func(p *wstest.Peer) { p.Send(frame.Continuation, "x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.Session()
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			server.Send(frame.Text, "answer")
			client.Expect(frame.Text, "answer")
			c.lose(server)
			h, payload, err := client.Next()
			if err != nil || h.Opcode != frame.Close {
				t.Fatalf("got %v %q, %v; want a close frame", h.Opcode, payload, err)
			}
			code, reason, err := frame.ParseClose(payload)
			if err != nil || code != frame.InternalError || !strings.HasPrefix(string(reason), c.reason) {
				t.Errorf("got %v %q, %v; want 1011 %q", code, reason, err, c.reason)
			}
			client.SendClose(code, "")
			client.ExpectEnd()
			_ = client.Close()
			r.expectRecord(fate{"backend", frame.InternalError, string(reason), "discarded"})
		})
	}
}

// The client of a backend that is lost in the middle of a frame gets what had come, and no close frame, which it would
// take for the rest.
func TestBackendLostInFrame(t *testing.T) {
	for name, lose := range map[string]func(*wstest.Peer){
		"ends the stream": func(p *wstest.Peer) { _ = p.Close() },
		"resets":          (*wstest.Peer).Reset,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.Session()
			half := server.Encode(true, frame.Binary, wstest.Noise(1, 1000))[:500]
			server.SendBytes(half)
			client.ExpectBytes(half)
			lose(server)
			client.ExpectEnd()
			_ = client.Close()
			if a := r.Record(); a["by"].String() != "backend" || a["code"].Int64() != 1011 || a["connection_fate"].String() != "discarded" {
				t.Errorf("record: %v", a)
			}
		})
	}
}

// A client that has got nothing of the message in which its backend is lost is told why its session ends: the message was held until it was whole.
func TestBackendLostInHeldMessage(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, "profiles: {p: {from: cartesia, variant: none, predial: idle}}")})
	client, server := r.Session()
	const request = `{"context_id": "1", "transcript": "hello", "continue": false}`
	client.Send(frame.Text, request)
	server.Expect(frame.Text, request)
	const chunk = `{"type": "chunk", "context_id": "1", "data": "AAAA"}`
	server.Send(frame.Text, chunk)
	client.Expect(frame.Text, chunk)
	server.SendBytes(server.Encode(true, frame.Text, []byte(chunk))[:20])
	wstest.Eventually(t, "the half is held", func() (held bool) {
		r.on(func(s *Session) { held = !s.leg.conn.Scanner.AtFrameBoundary() })
		return held
	})
	server.Reset()
	client.ExpectClose(frame.InternalError, "backend connection lost: connection reset by peer")
	_ = client.Close()
}

// Whatever a client breaks, it is told so, and the backend sees nothing of it; its connection is as clean as it was.
func TestClientBreaksProtocol(t *testing.T) {
	encode := func(fin bool, op frame.Opcode, payload string) string {
		return string(wstest.ClientFrame(fin, op, []byte(payload)))
	}
	part := encode(false, frame.Text, "part ")
	for _, c := range []struct {
		name, before, bad string
		code              frame.CloseCode
	}{
		{"not masked", "", "\x81\x01x", frame.ProtocolError},
		{"reserved bit", "", "\xc1\x81\x00\x00\x00\x00x", frame.ProtocolError},
		{"reserved opcode", "", "\x83\x80\x00\x00\x00\x00", frame.ProtocolError},
		{"fragmented ping", "", "\x09\x80\x00\x00\x00\x00", frame.ProtocolError},
		{"long ping", "", encode(true, frame.Ping, strings.Repeat("x", 126)), frame.ProtocolError},
		{"length not in its shortest form", "", "\x82\xfe\x00\x01\x00\x00\x00\x00x", frame.ProtocolError},
		{"continuation of nothing", "", encode(true, frame.Continuation, "x"), frame.ProtocolError},
		{"close with half a code", "", encode(true, frame.Close, "\x03"), frame.ProtocolError},
		{"close with 1005", "", encode(true, frame.Close, "\x03\xed"), frame.ProtocolError},
		{"close with 1006", "", encode(true, frame.Close, "\x03\xee"), frame.ProtocolError},
		{"close reason not UTF-8", "", encode(true, frame.Close, "\x03\xe8\xff"), frame.InvalidPayload},
		{"text not UTF-8", "", encode(true, frame.Text, "bad \xff"), frame.InvalidPayload},
		{"text ends within a character", "", encode(true, frame.Text, "bad \xc3"), frame.InvalidPayload},
		{"large message", "", encode(true, frame.Binary, strings.Repeat("x", 101)), frame.MessageTooBig},
		{"huge frame announced", "", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", frame.MessageTooBig},
		{"new message within a message", part, encode(true, frame.Text, "x"), frame.ProtocolError},
		{"fragment not UTF-8", part, encode(true, frame.Continuation, "\xff"), frame.InvalidPayload},
		{"fragments too large together", part, encode(true, frame.Continuation, strings.Repeat("x", 96)), frame.MessageTooBig},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo", Service: func(s *route.Service) { s.MaxMessage = 100 }})
			client, server := r.Session()
			client.SendBytes([]byte(c.before + c.bad + encode(true, frame.Text, "too late")))
			if c.before != "" {
				server.ExpectBytes([]byte(c.before))
			}
			h, payload, err := client.Next()
			code, reason, _ := frame.ParseClose(payload)
			if err != nil || h.Opcode != frame.Close || code != c.code || len(reason) == 0 {
				t.Fatalf("got %v %q, %v; want close %v and a reason", h.Opcode, payload, err, c.code)
			}
			client.ExpectEnd()
			_ = client.Close()
			if c.before != "" { // the backend waits for the rest of the message
				r.expectRecord(fate{"client", c.code, string(reason), "discarded"})
				server.ExpectClose(frame.GoingAway, "session ended")
				return
			}
			r.expectRecord(fate{"client", c.code, string(reason), "returned"})
			next := r.Join()
			next.Send(frame.Text, "next")
			server.Expect(frame.Text, "next")
		})
	}
}

// Text that turns out to be bad after the beginning of its frame was passed on costs the connection: nothing can follow
// half a frame, not even a close frame.
func TestTextTurnsBad(t *testing.T) {
	r := newRig(t, setup{Profile: "echo"})
	client, server := r.Session()
	whole := client.Encode(true, frame.Text, []byte("good \xff"))
	half := whole[:len(whole)-3]
	client.SendBytes(half)
	server.ExpectBytes(half)
	client.SendBytes(whole[len(half):])
	client.ExpectClose(frame.InvalidPayload, "text is not UTF-8")
	client.ExpectEnd()
	server.ExpectEnd()
	_ = client.Close()
	r.expectRecord(fate{"client", frame.InvalidPayload, "text is not UTF-8", "discarded"})
}

// Bad text that comes whole is not passed on at all. What was sent before it is answered, and then the connection serves
// the next client.
func TestBadTextSparesConnection(t *testing.T) {
	for _, c := range []struct {
		name     string
		timeout  time.Duration
		answered bool
		fate     string
	}{
		{"answered", wstest.Timeout, true, "returned"},
		{"answered too late", 30 * time.Millisecond, false, "resetting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo", Service: func(s *route.Service) { s.CloseTimeout = c.timeout }})
			client, server := r.Session()
			client.SendBytes(client.Encode(true, frame.Text, []byte("good")), client.Encode(true, frame.Text, []byte("bad \xff")))
			server.Expect(frame.Text, "good")
			if c.answered {
				server.Send(frame.Text, "good")
				client.Expect(frame.Text, "good")
			}
			client.ExpectClose(frame.InvalidPayload, "text is not UTF-8")
			client.ExpectEnd()
			_ = client.Close()
			r.expectRecord(fate{"client", frame.InvalidPayload, "text is not UTF-8", c.fate})
			if !c.answered {
				server.Send(frame.Text, "good")
			}
			next := r.Join()
			next.Send(frame.Text, "next")
			server.Expect(frame.Text, "next")
			server.Send(frame.Text, "answer")
			next.Expect(frame.Text, "answer") // and not "good"
		})
	}
}

// The backend of a one-shot service is told that the client has gone, and what it still says reaches the client that
// broke the protocol.
func TestAnswersReachClientThatBrokeProtocol(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	client.SendBytes(client.Encode(true, frame.Text, []byte("good")), []byte("\x81\x01x"))
	server.Expect(frame.Text, "good")
	server.ExpectClose(frame.GoingAway, "client broke the protocol")
	server.Send(frame.Text, "answer")
	server.SendClose(frame.GoingAway, "")
	client.Expect(frame.Text, "answer")
	client.ExpectClose(frame.ProtocolError, "client frame not masked")
	client.ExpectEnd()
	_ = client.Close()
	r.expectRecord(fate{"client", frame.ProtocolError, "client frame not masked", "discarded"})
}

// A shortage on this machine that ends a client's connection is named: the client did not leave.
func TestShortageAtClient(t *testing.T) {
	r := newRig(t, setup{})
	_, server := r.Session()
	r.on(func(s *Session) { s.client.Fail(syscall.ENOBUFS) })
	server.ExpectClose(frame.GoingAway, "session ended")
	r.expectRecord(fate{"client", frame.AbnormalClosure, "client connection lost: " + syscall.ENOBUFS.Error(), "discarded"})
}

// A client that leaves without a close frame is recorded as 1006.
func TestClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*wstest.Peer){"ends the stream": func(p *wstest.Peer) { _ = p.Close() }, "resets": (*wstest.Peer).Reset} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{})
			client, server := r.Session()
			leave(client)
			server.ExpectClose(frame.GoingAway, "session ended")
			r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
		})
	}
}

func TestSessionLimit(t *testing.T) {
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}, Service: func(s *route.Service) { s.MaxDuration = 30 * time.Millisecond }})
	begun := time.Now()
	p := r.Join()
	p.ExpectClose(frame.PolicyViolation, "session limit reached")
	if took := time.Since(begun); took < 30*time.Millisecond {
		t.Errorf("ended after %v", took)
	}
	p.SendClose(frame.PolicyViolation, "")
	p.ExpectEnd()
	_ = p.Close()
	r.expectRecord(fate{"proxy", frame.PolicyViolation, "session limit reached", "discarded"})
}

func TestIdleLimit(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Service: func(s *route.Service) { s.IdleTimeout = 40 * time.Millisecond }})
	for range 2 { // on a new connection and on one that has relayed before
		p := r.Join()
		p.Send(frame.Text, "hello")
		p.Expect(frame.Text, "hello")
		p.ExpectClose(frame.PolicyViolation, "idle limit reached")
		p.SendClose(frame.PolicyViolation, "")
		p.ExpectEnd()
		_ = p.Close()
		r.expectRecord(fate{"proxy", frame.PolicyViolation, "idle limit reached", "returned"})
	}
}

// Anything of a data frame, in either direction, keeps a session; pings do not. The looks are made here, not by the timer.
func TestWhatIsIdle(t *testing.T) {
	for name, c := range map[string]struct {
		pass func(client, server *wstest.Peer)
		idle bool
	}{
		"nothing": {func(*wstest.Peer, *wstest.Peer) {}, true},
		"from the client": {func(client, server *wstest.Peer) {
			client.Send(frame.Text, "x")
			server.Expect(frame.Text, "x")
		}, false},
		"empty messages": {func(client, server *wstest.Peer) {
			client.Send(frame.Text, "")
			server.Expect(frame.Text, "")
		}, false},
		"from the backend": {func(client, server *wstest.Peer) {
			server.Send(frame.Text, "x")
			client.Expect(frame.Text, "x")
		}, false},
		"pings": {func(client, _ *wstest.Peer) {
			client.Send(frame.Ping, "x")
			client.Expect(frame.Pong, "x")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Service: func(s *route.Service) { s.IdleTimeout = time.Hour }})
			client, server := r.Session()
			ended := r.looks(func() { c.pass(client, server) })
			if ended != c.idle {
				t.Errorf("ended: %v; want %v", ended, c.idle)
			}
		})
	}
	t.Run("a large frame that takes its time", func(t *testing.T) {
		r := newRig(t, setup{Service: func(s *route.Service) { s.IdleTimeout = time.Hour }})
		client, server := r.Session()
		large := client.Encode(true, frame.Binary, wstest.Noise(1, 10_000))
		if r.looks(func() {
			client.SendBytes(large[:100])
			server.ExpectBytes(large[:100])
			large = large[100:]
		}) {
			t.Error("ended while bytes were passing")
		}
	})
}

// looks has the session looked at for idleness as often as it takes to end one, with something done before each look, and
// reports whether it was ended.
func (r *rig) looks(f func()) (ended bool) {
	for range 2 * idleChecks {
		f()
		r.on(func(s *Session) {
			if s.life.state == relaying {
				s.checkIdle()
			}
			ended = s.life.state != relaying
		})
		if ended {
			return true
		}
	}
	return false
}

func TestEndAll(t *testing.T) {
	const clients = 8
	r := newRig(t, setup{Profile: "echo", Cap: clients, Loops: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(clients)
	var peers []*wstest.Peer
	for range clients {
		p := r.Join()
		p.Send(frame.Text, "hello")
		p.Expect(frame.Text, "hello")
		peers = append(peers, p)
	}
	if s := r.stats(); s.Active != clients || s.Total != clients {
		t.Errorf("stats: %+v", s)
	}
	r.sessions.EndAll(frame.GoingAway, "proxy shutting down")
	for _, p := range peers {
		p.ExpectClose(frame.GoingAway, "proxy shutting down")
		p.SendClose(frame.GoingAway, "")
		p.ExpectEnd()
		_ = p.Close()
		r.expectRecord(fate{"proxy", frame.GoingAway, "proxy shutting down", "returned"})
	}
	if s := r.stats(); s.Active != 0 || s.Ended[frame.GoingAway] != clients {
		t.Errorf("stats: %+v", s)
	}
}

// The close frame waits for the end of the frame that is on its way to the client, but not for the end of the message.
func TestCloseWaitsForFrame(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	first, rest := server.Encode(false, frame.Binary, wstest.Noise(1, 1000)), server.Encode(true, frame.Continuation, wstest.Noise(2, 1000))
	server.SendBytes(first[:300])
	client.ExpectBytes(first[:300])
	r.sessions.EndAll(frame.GoingAway, "enough")
	r.on(func(s *Session) {
		if s.life.state != closing {
			t.Errorf("state %v; want closing", s.life.state)
		}
	})
	client.Send(frame.Text, "no longer passed on")
	server.SendBytes(first[300:], rest)
	client.ExpectBytes(first[300:])
	// Whether the rest of the message came in time is chance; the close frame comes between frames.
	h, payload, err := client.Next()
	if err == nil && h.Opcode == frame.Continuation {
		h, payload, err = client.Next()
	}
	if err != nil || h.Opcode != frame.Close || string(payload) != "\x03\xe9enough" {
		t.Fatalf("got %v %q, %v", h.Opcode, payload, err)
	}
	server.ExpectClose(frame.GoingAway, "session ended")
}

// A frame that is never completed is not waited for without limit, and neither is a client's part in closing.
func TestCloseTimeout(t *testing.T) {
	short := func(s *route.Service) { s.CloseTimeout = 30 * time.Millisecond }
	t.Run("frame not completed", func(t *testing.T) {
		r := newRig(t, setup{Service: short})
		client, server := r.Session()
		half := server.Encode(true, frame.Binary, wstest.Noise(1, 1000))[:300]
		server.SendBytes(half)
		client.ExpectBytes(half)
		r.sessions.EndAll(frame.GoingAway, "enough")
		client.ExpectEnd()
		server.ExpectClose(frame.GoingAway, "session ended")
		r.expectRecord(fate{"proxy", frame.GoingAway, "enough", "discarded"})
	})
	t.Run("client does not answer", func(t *testing.T) {
		r := newRig(t, setup{Service: short})
		client, _ := r.Session()
		r.sessions.EndAll(frame.GoingAway, "enough")
		client.ExpectClose(frame.GoingAway, "enough")
		client.ExpectEnd()
		r.expectRecord(fate{"proxy", frame.GoingAway, "enough", "discarded"})
	})
	t.Run("client keeps sending", func(t *testing.T) {
		r := newRig(t, setup{Service: short})
		client, server := r.Session()
		r.sessions.EndAll(frame.GoingAway, "enough")
		server.ExpectClose(frame.GoingAway, "session ended")
		chunk := client.Encode(true, frame.Binary, wstest.Noise(1, 1000))
		for { // until the proxy closes, at the latest when its time is over
			if _, err := client.Conn.Write(chunk); err != nil {
				break
			}
		}
		r.expectRecord(fate{"proxy", frame.GoingAway, "enough", "discarded"})
	})
}

// A session that ends in the middle of frames both ways puts nothing more into the one that the backend waits for, even
// when the client completes it: that is not passed on, and an answer to the backend's ping would become a part of it.
func TestNothingIsInsertedIntoHalfFrame(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	question := client.Encode(true, frame.Binary, wstest.Noise(1, 12<<20))
	sent := make(chan error, 1)
	go func() {
		_, err := client.Conn.Write(question)
		sent <- err
	}()
	wstest.Eventually(t, "the backend is slow", func() (slow bool) {
		r.on(func(s *Session) { slow = s.leg.conn.Stream().Pending() > 0 })
		return slow
	})
	server.Send(frame.Ping, "are you there?")
	answer := server.Encode(true, frame.Binary, wstest.Noise(2, 1000))
	server.SendBytes(answer[:300])
	client.ExpectBytes(answer[:300])
	r.sessions.EndAll(frame.GoingAway, "enough")
	if err := <-sent; err != nil { // it was read, and dropped
		t.Fatal(err)
	}
	wstest.Eventually(t, "the client's frame is complete", func() (complete bool) {
		r.on(func(s *Session) { complete = s.scanner.AtFrameBoundary() })
		return complete
	})
	received := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(server)
		received <- b
	}()
	wstest.Eventually(t, "the backend has read what was kept for it", func() (empty bool) {
		r.on(func(s *Session) { empty = s.leg.conn.Stream().Pending() == 0 })
		return empty
	})
	server.SendBytes(answer[300:])
	client.ExpectBytes(answer[300:])
	client.ExpectClose(frame.GoingAway, "enough")
	if got := <-received; len(got) == 0 || !bytes.HasPrefix(question, got) {
		t.Errorf("the backend got %d bytes that are not the beginning of the client's frame", len(got))
	}
}
