package session

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

const (
	voskConfig = `{"config" : {"sample_rate" : 16000}}`
	voskEnd    = `{"eof" : 1}`
	voskReset  = `{"reset" : 1}`
)

// withYAML has a rig's backends speak the first profile in a text.
func withYAML(t *testing.T, text string) func(*backend.Options) {
	t.Helper()
	list, err := profile.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return func(o *backend.Options) { o.Profile = list[0] }
}

// expectReset receives Vosk's reset as the profile sends it.
func (p *peer) expectReset() {
	p.t.Helper()
	p.expectOwn(frame.Text, voskReset)
	p.expectOwn(frame.Binary, strings.Repeat("\x00", 640))
	p.expectOwn(frame.Text, voskReset)
}

// answerReset answers it.
func (p *peer) answerReset(last string) {
	p.t.Helper()
	p.send(frame.Text, last)
	p.send(frame.Text, `{"partial" : ""}`)
	p.send(frame.Text, `{"text" : ""}`)
}

// A client's own end message would make the server close. The reset goes in its place; the client gets the final result, and
// then a close frame, as from the server; the connection serves the next session.
func TestEndReplacedByReset(t *testing.T) {
	r := newRig(t, setup{profile: "vosk"})
	client, server := r.session()
	for _, words := range []string{"one two", "three"} {
		client.send(frame.Text, voskConfig)
		client.send(frame.Binary, "audio")
		server.expect(frame.Text, voskConfig)
		server.expect(frame.Binary, "audio")
		server.send(frame.Text, `{"partial" : "`+words+`"}`)
		client.expect(frame.Text, `{"partial" : "`+words+`"}`)
		client.send(frame.Text, voskEnd)
		server.expectReset()
		server.answerReset(`{"text" : "` + words + `"}`)
		client.expect(frame.Text, `{"text" : "`+words+`"}`)
		client.expectClose(frame.NormalClosure, "the session is over")
		_ = client.Close()
		r.expectRecord(fate{"client", frame.NormalClosure, "the session is over", "resetting"})
		client = r.join()
	}
	_ = client.Close()
	if s := r.backend.Stats().Totals; s.Dialed != 1 || s.Discarded != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// The end message is recognised in pieces and behind other messages, and what the client sends behind it goes nowhere.
func TestEndInPieces(t *testing.T) {
	r := newRig(t, setup{profile: "vosk"})
	client, server := r.session()
	whole := append(client.encode(true, frame.Binary, []byte("audio")), client.encode(true, frame.Text, []byte(voskEnd))...)
	whole = append(whole, client.encode(true, frame.Binary, []byte("too late"))...)
	for _, b := range whole {
		client.write([]byte{b})
	}
	server.expect(frame.Binary, "audio")
	server.expectReset()
	server.send(frame.Text, `{"partial" : "a"}`)
	server.answerReset(`{"text" : "a"}`)
	client.expect(frame.Text, `{"partial" : "a"}`)
	client.expect(frame.Text, `{"text" : "a"}`)
	client.expectClose(frame.NormalClosure, "the session is over")
	_ = client.Close()
	r.ready(1)
}

// A text that is no end message after all reaches the server as the client sent it, as one frame when it came in pieces.
func TestHeldBackAndReleased(t *testing.T) {
	r := newRig(t, setup{profile: "vosk"})
	client, server := r.session()
	client.send(frame.Text, `{"eof" : 2}`)
	server.expect(frame.Text, `{"eof" : 2}`)
	client.write(client.encode(false, frame.Text, []byte(`{"eo`)))
	client.send(frame.Ping, "in between")
	client.expect(frame.Pong, "in between")
	client.write(client.encode(true, frame.Continuation, []byte(`f":1 }`)))
	server.expectOwn(frame.Text, `{"eof":1 }`)
	long := strings.Repeat("x", 1000)
	client.send(frame.Text, long)
	server.expect(frame.Text, long)
	_ = client.Close()
}

// What a session's server says after its client has left is nobody's, and the connection is reset without it.
func TestLeftEarly(t *testing.T) {
	r := newRig(t, setup{profile: "vosk"})
	client, server := r.session()
	client.send(frame.Binary, "secret")
	server.expect(frame.Binary, "secret")
	client.sendClose(frame.NormalClosure, "")
	client.expectClose(frame.NormalClosure, "")
	_ = client.Close()
	server.expectReset()
	server.send(frame.Text, `{"partial" : "secret"}`)
	server.write(server.encode(false, frame.Text, []byte(`{"text" : `)), server.encode(true, frame.Continuation, []byte(`"secret"}`)))
	server.send(frame.Text, `{"partial" : ""}`)
	server.send(frame.Text, `{"text" : ""}`)
	client = r.join()
	client.send(frame.Binary, "mine")
	server.expect(frame.Binary, "mine")
	server.send(frame.Text, `{"partial" : "mine"}`)
	client.expect(frame.Text, `{"partial" : "mine"}`)
	_ = client.Close()
}

// A server that ends the session in the place of its last answer leaves the client without it, which the code says.
func TestServerGoneInsteadOfLastAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		play   func(*peer)
		code   frame.CloseCode
		reason string
	}{
		"close":    {func(p *peer) { p.sendClose(frame.NormalClosure, "") }, frame.InternalError, "closed by the server"},
		"end":      {func(p *peer) { _ = p.Close() }, frame.InternalError, "backend connection lost: EOF"},
		"mismatch": {func(p *peer) { p.send(frame.Text, "1"); p.send(frame.Text, "2"); p.send(frame.Text, "3") }, frame.NormalClosure, "the session is over"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{profile: "vosk"})
			client, server := r.session()
			client.send(frame.Text, voskEnd)
			server.expectReset()
			c.play(server)
			if name == "mismatch" { // the session got its answer; the connection is of no use any more
				client.expect(frame.Text, "1")
			}
			client.expectClose(c.code, c.reason)
			_ = client.Close()
			eventually(t, "the connection is discarded", func() bool { return r.backend.Stats().Totals.Discarded == 1 })
		})
	}
}

// A server that never gives the last answer costs its connection after the profile's time, and the client is told.
func TestLastAnswerTimeout(t *testing.T) {
	r := newRig(t, setup{backend: withYAML(t, "profiles: {quick: {from: vosk, reset: {timeout: 30ms}}}")})
	client, server := r.session()
	client.send(frame.Text, voskEnd)
	server.expectReset()
	client.expectClose(frame.InternalError, "reset timed out")
	_ = client.Close()
	server.expectClose(frame.InternalError, "")
	eventually(t, "the connection is discarded", func() bool { return r.backend.Stats().Totals.Discarded == 1 })
}

// A greeting is awaited before the connection is there, and each session begins with it.
func TestAwaitedGreeting(t *testing.T) {
	const greeting = `{"type": "session.created", "id": 1}`
	r := newRig(t, setup{backend: withYAML(t, "profiles: {p: {from: echo, greeting: {json: {type: session.created}}}}")})
	server := r.accepted()
	server.send(frame.Text, `{"type": "model.loading"}`)
	if s := r.backend.Stats(); s.Idle != 0 || s.Dialing != 1 {
		t.Errorf("before the greeting: %+v", s)
	}
	server.send(frame.Text, greeting)
	for range 2 {
		client := r.join()
		client.expect(frame.Text, `{"type": "model.loading"}`)
		client.expect(frame.Text, greeting)
		client.send(frame.Text, "audio")
		server.expect(frame.Text, "audio")
		server.send(frame.Text, "answer")
		client.expect(frame.Text, "answer")
		client.closeNormally()
	}
}

// A server that does not greet is one that cannot be reached.
func TestNoGreeting(t *testing.T) {
	for name, play := range map[string]func(*peer){
		"silence":   func(*peer) {},
		"close":     func(p *peer) { p.sendClose(frame.InternalError, "no") },
		"end":       func(p *peer) { _ = p.Close() },
		"bad frame": func(p *peer) { p.write([]byte{0x83, 0}) },
		"too long":  func(p *peer) { p.send(frame.Text, strings.Repeat("x", 100<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			profile := withYAML(t, "profiles: {p: {from: echo, greeting: {json: {type: session.created}}, timeouts: {greeting: 50ms}}}")
			r := newRig(t, setup{backend: func(o *backend.Options) {
				profile(o)
				o.CloseTimeout = 10 * time.Millisecond
			}})
			server := r.accepted()
			play(server)
			eventually(t, "the dial has failed", func() bool { return r.backend.Stats().Totals.DialFailed > 0 })
			if s := r.backend.Stats(); s.Idle != 0 || s.Totals.Dialed != 0 {
				t.Errorf("stats: %+v", s)
			}
			_ = server.Close()
		})
	}
}

// Until the server is ready, the client's audio waits.
func TestReady(t *testing.T) {
	r := newRig(t, setup{profile: "whisperlive"})
	client, server := r.session()
	var all []byte
	all = append(all, client.encode(true, frame.Text, []byte(`{"uid": "a"}`))...)
	for _, word := range []string{"audio 1", "audio 2"} {
		all = append(all, client.encode(true, frame.Binary, []byte(word))...)
	}
	all = append(all, client.encode(true, frame.Binary, []byte("audio 3"))[:5]...)
	client.write(all)
	server.expect(frame.Text, `{"uid": "a"}`)
	server.send(frame.Ping, "nothing has come before the answer to this")
	server.expect(frame.Pong, "nothing has come before the answer to this")
	server.send(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
	client.expect(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
	server.expect(frame.Binary, "audio 1")
	server.expect(frame.Binary, "audio 2")
	client.write(client.encode(true, frame.Binary, []byte("audio 3"))[5:])
	server.expect(frame.Binary, "audio 3")
	_ = client.Close()
}

// A full server's answer is not for the client: its session moved to another connection, with what it has said so far.
func TestBusy(t *testing.T) {
	for name, play := range map[string]func(*peer){
		"message": func(p *peer) { p.send(frame.Text, `{"uid": "a", "status": "WAIT", "message": 5}`) },
		"message in pieces": func(p *peer) {
			p.write(p.encode(false, frame.Text, []byte(`{"status"`)), p.encode(true, frame.Continuation, []byte(`: "WAIT"}`)))
		},
		"message and close": func(p *peer) {
			p.send(frame.Text, `{"uid": "a", "status": "WAIT", "message": 5}`)
			p.sendClose(frame.NormalClosure, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{profile: "whisperlive", more: []*script{{}}, queue: 1, loops: 2, balance: pool.RoundRobin})
			r.allReady(1, r.backends...)
			client := r.connect(upgradeRequest("/v1/test"))
			client.expectUpgrade()
			client.write(client.encode(true, frame.Text, []byte(`{"uid": "a"}`)), client.encode(true, frame.Binary, []byte("audio")))
			full, other := r.scripts[0].take(), r.scripts[1].take()
			served := make(chan *peer, 1)
			for _, p := range []*peer{full, other} {
				go func() {
					if _, payload, err := p.next(); err == nil && string(payload) == `{"uid": "a"}` {
						served <- p
					}
				}()
			}
			first := <-served
			play(first)
			second := <-served
			if first == second {
				t.Fatal("the session came back to the server that is full")
			}
			second.send(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
			client.expect(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
			second.expect(frame.Binary, "audio")
			second.send(frame.Text, `{"segments": []}`)
			client.expect(frame.Text, `{"segments": []}`)
			_ = client.Close()
			full.Close()
			other.Close()
		})
	}
}

// When all servers are full, the client is told to come again later; nothing of what they say reaches it.
func TestAllBusy(t *testing.T) {
	r := newRig(t, setup{
		profile: "whisperlive", queue: 1, service: func(s *Service) { s.QueueTimeout = 50 * time.Millisecond },
		script: &script{serve: func(p *peer) {
			for {
				if h, _, err := p.next(); err != nil || h.Opcode == frame.Close {
					return
				}
				if _, err := p.Write(p.encode(true, frame.Text, []byte(`{"status": "WAIT"}`))); err != nil {
					return
				}
			}
		}},
	})
	client := r.join()
	client.send(frame.Text, `{"uid": "a"}`)
	h, payload, err := client.next()
	if err != nil || h.Opcode != frame.Close {
		t.Fatalf("got %v %q, %v; want a close frame", h.Opcode, payload, err)
	}
	if code, _, _ := frame.ParseClose(payload); code != frame.TryAgainLater {
		t.Errorf("close code %d, want 1013", code)
	}
	_ = client.Close()
}

// Keepalive messages go to the server while the connection is idle, and their answers to nobody.
func TestKeepalive(t *testing.T) {
	r := newRig(t, setup{backend: withYAML(t, `
profiles: {p: {from: echo, keepalive: {send: '{"type": "KeepAlive"}', every: 20ms, answer: {json: {type: KeepAlive}}}}}`)})
	r.ready(1)
	server := r.accepted()
	for range 3 {
		server.expectOwn(frame.Text, `{"type": "KeepAlive"}`)
		server.send(frame.Text, `{"type": "KeepAlive"}`)
	}
	server.expectOwn(frame.Text, `{"type": "KeepAlive"}`)
	client := r.connect(upgradeRequest("/v1/test")) // while its answer is awaited
	client.expectUpgrade()
	client.send(frame.Text, "audio")
	server.send(frame.Text, `{"type": "KeepAlive"}`)
	server.expect(frame.Text, "audio")
	server.send(frame.Text, "answer")
	client.expect(frame.Text, "answer")
	client.closeNormally()
}

// With a fenced profile, what comes between the client's leaving and the acknowledgement with the session's own number is
// dropped, and an acknowledgement that any client could cause proves nothing.
func TestFence(t *testing.T) {
	r := newRig(t, setup{backend: withYAML(t, "profiles: {p: {from: funasr, unsafe: doubt}}"), script: &script{protocol: "binary"}})
	client, server := r.session("Sec-WebSocket-Protocol: binary")
	client.send(frame.Binary, "audio")
	server.expect(frame.Binary, "audio")
	_ = client.Close()
	_, fence, err := server.next()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = server.next(); err != nil {
		t.Fatal(err)
	}
	server.send(frame.Text, `{"text": "late", "is_end": true, "wav_name": "mine"}`)
	name := string(fence)[strings.Index(string(fence), `"wav_name": "`)+len(`"wav_name": "`):]
	server.send(frame.Text, `{"is_end": true, "wav_name": "`+name[:16]+`"}`)
	client = r.join("Sec-WebSocket-Protocol: binary")
	client.send(frame.Binary, "audio of the next")
	server.expect(frame.Binary, "audio of the next")
	server.send(frame.Text, `{"text": "next"}`)
	client.expect(frame.Text, `{"text": "next"}`)
	_ = client.Close()
	if s := r.backend.Stats().Totals; s.Dialed != 1 || s.Leased != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// A server's message that bears no tag, such as binary audio, ends a session on a connection that has served others, since it may be
// theirs; it is not dropped while the session goes on.
func TestUntaggedEndsSession(t *testing.T) {
	const finished = `{"header":{"event":"task-finished","task_id":"1"}}`
	r := newRig(t, setup{profile: "dashscope"})
	client, server := r.session()
	client.send(frame.Text, `{"header":{"action":"run-task","task_id":"1"}}`)
	client.send(frame.Text, `{"header":{"action":"finish-task","task_id":"1"}}`)
	server.expect(frame.Text, `{"header":{"action":"run-task","task_id":"1"}}`)
	server.expect(frame.Text, `{"header":{"action":"finish-task","task_id":"1"}}`)
	server.send(frame.Text, finished)
	client.expect(frame.Text, finished)
	client.closeNormally()
	client = r.join()
	client.send(frame.Text, `{"header":{"action":"run-task","task_id":"2"}}`)
	server.expect(frame.Text, `{"header":{"action":"run-task","task_id":"2"}}`)
	server.send(frame.Binary, "audio")
	client.expectClose(frame.InternalError, "backend sent an answer that nobody asked for")
	_ = client.Close()
	server.expectClose(frame.InternalError, "")
	_ = server.Close()
}
