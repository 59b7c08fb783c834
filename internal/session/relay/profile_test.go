package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
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
func expectReset(t testing.TB, p *wstest.Peer) {
	t.Helper()
	p.ExpectOwn(frame.Text, voskReset)
	p.ExpectOwn(frame.Binary, strings.Repeat("\x00", 640))
	p.ExpectOwn(frame.Text, voskReset)
}

// answerReset answers it.
func answerReset(t testing.TB, p *wstest.Peer, last string) {
	t.Helper()
	p.Send(frame.Text, last)
	p.Send(frame.Text, `{"partial" : ""}`)
	p.Send(frame.Text, `{"text" : ""}`)
}

// A client's own end message would make the server close. The reset goes in its place; the client gets the final result, and
// then a close frame, as from the server; the connection serves the next session.
func TestEndReplacedByReset(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk"})
	client, server := r.Session()
	for _, words := range []string{"one two", "three"} {
		client.Send(frame.Text, voskConfig)
		client.Send(frame.Binary, "audio")
		server.Expect(frame.Text, voskConfig)
		server.Expect(frame.Binary, "audio")
		server.Send(frame.Text, `{"partial" : "`+words+`"}`)
		client.Expect(frame.Text, `{"partial" : "`+words+`"}`)
		client.Send(frame.Text, voskEnd)
		expectReset(t, server)
		answerReset(t, server, `{"text" : "`+words+`"}`)
		client.Expect(frame.Text, `{"text" : "`+words+`"}`)
		client.ExpectClose(frame.NormalClosure, "the session is over")
		_ = client.Close()
		r.expectRecord(fate{"client", frame.NormalClosure, "the session is over", "resetting"})
		client = r.Join()
	}
	_ = client.Close()
	if s := r.Backend.Stats().Totals; s.Dialed != 1 || s.Discarded != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// The end message is recognised in pieces and behind other messages, and what the client sends behind it goes nowhere.
func TestEndInPieces(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk"})
	client, server := r.Session()
	whole := append(client.Encode(true, frame.Binary, []byte("audio")), client.Encode(true, frame.Text, []byte(voskEnd))...)
	whole = append(whole, client.Encode(true, frame.Binary, []byte("too late"))...)
	for _, b := range whole {
		client.SendBytes([]byte{b})
	}
	server.Expect(frame.Binary, "audio")
	expectReset(t, server)
	server.Send(frame.Text, `{"partial" : "a"}`)
	answerReset(t, server, `{"text" : "a"}`)
	client.Expect(frame.Text, `{"partial" : "a"}`)
	client.Expect(frame.Text, `{"text" : "a"}`)
	client.ExpectClose(frame.NormalClosure, "the session is over")
	_ = client.Close()
	r.Ready(1)
}

// A text that is no end message after all reaches the server as the client sent it, as one frame when it came in pieces.
func TestHeldBackAndReleased(t *testing.T) {
	if limitAll {
		t.Skip("limits split frames that arrive together, and have a handler of their own")
	}
	r := newRig(t, setup{Profile: "vosk"})
	client, server := r.Session()
	client.Send(frame.Text, `{"eof" : 2}`)
	server.Expect(frame.Text, `{"eof" : 2}`)
	client.SendBytes(client.Encode(false, frame.Text, []byte(`{"eo`)))
	client.Send(frame.Ping, "in between")
	client.Expect(frame.Pong, "in between")
	client.SendBytes(client.Encode(true, frame.Continuation, []byte(`f":1 }`)))
	server.ExpectOwn(frame.Text, `{"eof":1 }`)
	long := strings.Repeat("x", 1000)
	client.Send(frame.Text, long)
	server.Expect(frame.Text, long)
	_ = client.Close()
}

// What a session's server sends after its client has left reaches no client, and the connection is reset without it.
func TestLeftEarly(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk"})
	client, server := r.Session()
	client.Send(frame.Binary, "secret")
	server.Expect(frame.Binary, "secret")
	client.SendClose(frame.NormalClosure, "")
	client.ExpectClose(frame.NormalClosure, "")
	_ = client.Close()
	expectReset(t, server)
	server.Send(frame.Text, `{"partial" : "secret"}`)
	server.SendBytes(server.Encode(false, frame.Text, []byte(`{"text" : `)), server.Encode(true, frame.Continuation, []byte(`"secret"}`)))
	server.Send(frame.Text, `{"partial" : ""}`)
	server.Send(frame.Text, `{"text" : ""}`)
	client = r.Join()
	client.Send(frame.Binary, "mine")
	server.Expect(frame.Binary, "mine")
	server.Send(frame.Text, `{"partial" : "mine"}`)
	client.Expect(frame.Text, `{"partial" : "mine"}`)
	_ = client.Close()
}

// A server that ends the session instead of its last answer leaves the client without it, which the code says.
func TestServerGoneInsteadOfLastAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		play   func(*wstest.Peer)
		code   frame.CloseCode
		reason string
	}{
		"close":    {func(p *wstest.Peer) { p.SendClose(frame.NormalClosure, "") }, frame.InternalError, "closed by the server"},
		"end":      {func(p *wstest.Peer) { _ = p.Close() }, frame.InternalError, "backend connection lost: EOF"},
		"mismatch": {func(p *wstest.Peer) { p.Send(frame.Text, "1"); p.Send(frame.Text, "2"); p.Send(frame.Text, "3") }, frame.NormalClosure, "the session is over"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "vosk"})
			client, server := r.Session()
			client.Send(frame.Text, voskEnd)
			expectReset(t, server)
			c.play(server)
			if name == "mismatch" { // the session got its answer; the connection is no longer of use
				client.Expect(frame.Text, "1")
			}
			client.ExpectClose(c.code, c.reason)
			_ = client.Close()
			wstest.Eventually(t, "the connection is discarded", func() bool { return r.Backend.Stats().Totals.Discarded == 1 })
		})
	}
}

// A server that never gives the last answer costs its connection after the profile's time, and the client is told. The server may be busy,
// so that does not open its circuit.
func TestLastAnswerTimeout(t *testing.T) {
	quick := withYAML(t, "profiles: {quick: {from: vosk, end: {timeout: 30ms}}}")
	r := newRig(t, setup{Backend: func(o *backend.Options) { quick(o); o.CircuitFailures = 1 }})
	for range 2 {
		client, server := r.Session()
		client.Send(frame.Text, voskEnd)
		expectReset(t, server)
		client.ExpectClose(frame.InternalError, "last result timed out")
		_ = client.Close()
		server.ExpectClose(frame.InternalError, "")
		_ = server.Close()
	}
	wstest.Eventually(t, "the connections are discarded", func() bool { return r.Backend.Stats().Totals.Discarded == 2 })
	if h := r.Backend.Health(); h.CircuitOpened != 0 || h.Broken != 0 {
		t.Errorf("health: %+v", h)
	}
}

// A busy server works through what it has before it gives the last answer. The client gets that, and the connection serves the next one.
func TestLastAnswerOfBusyServer(t *testing.T) {
	busy := sim.Options{Protocol: sim.Vosk, Fail: sim.FailOptions{Slow: 0.2, Cores: 1}}
	server, err := sim.Start(busy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	patient := withYAML(t, "profiles: {busy: {from: vosk, reset: {timeout: 150ms}}}")
	r := newRig(t, setup{Backend: func(o *backend.Options) { patient(o); o.Target = targetOf(t, server.URL()) }})
	for range 2 {
		client := r.Join()
		for range 10 { // 2 s of audio
			client.Send(frame.Binary, string(make([]byte, 6400)))
		}
		client.Send(frame.Text, voskEnd)
		for i := range 11 {
			if h, payload, err := client.Next(); err != nil || h.Opcode != frame.Text {
				t.Fatalf("answer %d: %v %q, %v", i, h, payload, err)
			}
		}
		client.ExpectClose(frame.NormalClosure, "the session is over")
		_ = client.Close()
		r.Ready(1)
	}
	if s := r.Backend.Stats().Totals; s.Dialed != 1 || s.Returned != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// A greeting is awaited before the connection is there, and each session begins with it.
func TestAwaitedGreeting(t *testing.T) {
	const greeting = `{"type": "session.created", "id": 1}`
	r := newRig(t, setup{Backend: withYAML(t, "profiles: {p: {from: echo, greeting: {json: {type: session.created}}}}")})
	server := r.Accepted()
	server.Send(frame.Text, `{"type": "model.loading"}`)
	if s := r.Backend.Stats(); s.Idle != 0 || s.Dialing != 1 {
		t.Errorf("before the greeting: %+v", s)
	}
	server.Send(frame.Text, greeting)
	for range 2 {
		client := r.Join()
		client.Expect(frame.Text, `{"type": "model.loading"}`)
		client.Expect(frame.Text, greeting)
		client.Send(frame.Text, "audio")
		server.Expect(frame.Text, "audio")
		server.Send(frame.Text, "answer")
		client.Expect(frame.Text, "answer")
		client.CloseNormally()
	}
}

// A server that does not greet is one that cannot be reached.
func TestNoGreeting(t *testing.T) {
	for name, play := range map[string]func(*wstest.Peer){
		"silence":   func(*wstest.Peer) {},
		"close":     func(p *wstest.Peer) { p.SendClose(frame.InternalError, "no") },
		"end":       func(p *wstest.Peer) { _ = p.Close() },
		"bad frame": func(p *wstest.Peer) { p.SendBytes([]byte{0x83, 0}) },
		"too long":  func(p *wstest.Peer) { p.Send(frame.Text, strings.Repeat("x", 100<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			profile := withYAML(t, "profiles: {p: {from: echo, greeting: {json: {type: session.created}}, timeouts: {greeting: 50ms}}}")
			r := newRig(t, setup{Backend: func(o *backend.Options) {
				profile(o)
				o.CloseTimeout = 10 * time.Millisecond
			}})
			server := r.Accepted()
			play(server)
			wstest.Eventually(t, "the dial has failed", func() bool { return r.Backend.Stats().Totals.DialFailed > 0 })
			if s := r.Backend.Stats(); s.Idle != 0 || s.Totals.Dialed != 0 {
				t.Errorf("stats: %+v", s)
			}
			_ = server.Close()
		})
	}
}

// Until the server is ready, the client's audio waits.
func TestReady(t *testing.T) {
	r := newRig(t, setup{Profile: "whisperlive"})
	client, server := r.Session()
	var all []byte
	all = append(all, client.Encode(true, frame.Text, []byte(`{"uid": "a"}`))...)
	for _, word := range []string{"audio 1", "audio 2"} {
		all = append(all, client.Encode(true, frame.Binary, []byte(word))...)
	}
	all = append(all, client.Encode(true, frame.Binary, []byte("audio 3"))[:5]...)
	client.SendBytes(all)
	server.Expect(frame.Text, `{"uid": "a"}`)
	server.Send(frame.Ping, "nothing has come before the answer to this")
	server.Expect(frame.Pong, "nothing has come before the answer to this")
	server.Send(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
	client.Expect(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
	server.Expect(frame.Binary, "audio 1")
	server.Expect(frame.Binary, "audio 2")
	client.SendBytes(client.Encode(true, frame.Binary, []byte("audio 3"))[5:])
	server.Expect(frame.Binary, "audio 3")
	_ = client.Close()
}

// A full server's answer is not for the client: its session moved to another connection, with what it has said so far.
func TestBusy(t *testing.T) {
	for name, play := range map[string]func(*wstest.Peer){
		"message": func(p *wstest.Peer) { p.Send(frame.Text, `{"uid": "a", "status": "WAIT", "message": 5}`) },
		"message in pieces": func(p *wstest.Peer) {
			p.SendBytes(p.Encode(false, frame.Text, []byte(`{"status"`)), p.Encode(true, frame.Continuation, []byte(`: "WAIT"}`)))
		},
		"message and close": func(p *wstest.Peer) {
			p.Send(frame.Text, `{"uid": "a", "status": "WAIT", "message": 5}`)
			p.SendClose(frame.NormalClosure, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "whisperlive", More: []*wstest.Server{{}}, Queue: 1, Loops: 2, Balance: pool.RoundRobin})
			r.AllReady(1, r.Backends...)
			client := r.Connect(wstest.UpgradeRequest("/v1/test"))
			client.ExpectUpgrade()
			client.SendBytes(client.Encode(true, frame.Text, []byte(`{"uid": "a"}`)), client.Encode(true, frame.Binary, []byte("audio")))
			full, other := r.Scripts[0].Take(), r.Scripts[1].Take()
			served := make(chan *wstest.Peer, 1)
			for _, p := range []*wstest.Peer{full, other} {
				go func() {
					if _, payload, err := p.Next(); err == nil && string(payload) == `{"uid": "a"}` {
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
			second.Send(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
			client.Expect(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
			second.Expect(frame.Binary, "audio")
			second.Send(frame.Text, `{"segments": []}`)
			client.Expect(frame.Text, `{"segments": []}`)
			_ = client.Close()
			full.Close()
			other.Close()
		})
	}
}

// When all servers are full, the client is told to come again later; nothing of what they say reaches it.
func TestAllBusy(t *testing.T) {
	r := newRig(t, setup{
		Profile: "whisperlive", Queue: 1, Service: func(s *route.Service) { s.QueueTimeout = 50 * time.Millisecond },
		Script: &wstest.Server{Serve: func(p *wstest.Peer) {
			for {
				if h, _, err := p.Next(); err != nil || h.Opcode == frame.Close {
					return
				}
				if _, err := p.Write(p.Encode(true, frame.Text, []byte(`{"status": "WAIT"}`))); err != nil {
					return
				}
			}
		}},
	})
	client := r.Join()
	client.Send(frame.Text, `{"uid": "a"}`)
	h, payload, err := client.Next()
	if err != nil || h.Opcode != frame.Close {
		t.Fatalf("got %v %q, %v; want a close frame", h.Opcode, payload, err)
	}
	if code, _, _ := frame.ParseClose(payload); code != frame.TryAgainLater {
		t.Errorf("close code %d, want 1013", code)
	}
	_ = client.Close()
}

// A client whose search for another connection ends without one has its 101: its close reason names no HTTP status.
func TestWhyNotFound(t *testing.T) {
	for err, want := range map[error]string{
		route.Unavailable("no connection came free in time"): "no connection came free in time",
		pool.ErrQueueFull: pool.ErrQueueFull.Error(),
	} {
		if got := whyNotFound(err); got != want {
			t.Errorf("%v: %q; want %q", err, got, want)
		}
	}
}

// Keepalive messages go to the server while the connection is idle.
func TestKeepaliveInterval(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, `profiles: {p: {from: one-shot, keepalive: {send: '{"type": "KeepAlive"}', every: 10ms}}}`)})
	server := r.Accepted()
	for range 3 {
		server.ExpectOwn(frame.Text, `{"type": "KeepAlive"}`)
	}
	if s := r.Backend.Stats().Totals; s.Dialed != 1 {
		t.Errorf("%d connections were dialed; want 1", s.Dialed)
	}
	_ = server.Close()
}

// The answers to keepalive messages go to no client, and a client that comes while one is awaited waits for it, too. The test says when a
// message is due: the next must not be before the answer has come, or the connection is given up.
func TestKeepalive(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, `
profiles: {p: {from: echo, keepalive: {send: '{"type": "KeepAlive"}', every: 1h, answer: {json: {type: KeepAlive}}}, reset: {timeout: 1m}}}`)})
	r.Ready(1)
	conn, ok, err := r.Group.Acquire(new(pool.Waiter[*backend.Conn]))
	if !ok {
		t.Fatal(err)
	}
	conn.ReturnUnused()
	due := func() {
		conn.Stream().Post(func() { new(loop.Timer).Set(conn.Stream(), 0, backend.TimerBoundary) })
	}
	server := r.Accepted()
	for range 3 {
		due()
		server.ExpectOwn(frame.Text, `{"type": "KeepAlive"}`)
		server.Send(frame.Text, `{"type": "KeepAlive"}`)
		server.Send(frame.Ping, "read?") // the pong tells that the proxy has read what came before
		server.ExpectOwn(frame.Pong, "read?")
	}
	due()
	server.ExpectOwn(frame.Text, `{"type": "KeepAlive"}`)
	r.Ready(1)
	client := r.Connect(wstest.UpgradeRequest("/v1/test")) // while the answer is awaited
	client.ExpectUpgrade()
	client.Send(frame.Text, "audio")
	server.Send(frame.Text, `{"type": "KeepAlive"}`)
	server.Expect(frame.Text, "audio")
	server.Send(frame.Text, "answer")
	client.Expect(frame.Text, "answer")
	client.CloseNormally()
	if s := r.Backend.Stats().Totals; s.Dialed != 1 {
		t.Errorf("%d connections were dialed; want 1", s.Dialed)
	}
}

// With a fenced profile, what comes between the client's leaving and the acknowledgement with the session's own number is
// dropped, and an acknowledgement that any client could cause proves nothing.
func TestFence(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, "profiles: {p: {from: funasr, unsafe: doubt}}"), Script: &wstest.Server{Protocol: "binary"}})
	client, server := r.Session("Sec-WebSocket-Protocol: binary")
	client.Send(frame.Binary, "audio")
	server.Expect(frame.Binary, "audio")
	_ = client.Close()
	_, fence, err := server.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = server.Next(); err != nil {
		t.Fatal(err)
	}
	server.Send(frame.Text, `{"text": "late", "is_end": true, "wav_name": "mine"}`)
	name := string(fence)[strings.Index(string(fence), `"wav_name": "`)+len(`"wav_name": "`):]
	server.Send(frame.Text, `{"is_end": true, "wav_name": "`+name[:16]+`"}`)
	client = r.Join("Sec-WebSocket-Protocol: binary")
	client.Send(frame.Binary, "audio of the next")
	server.Expect(frame.Binary, "audio of the next")
	server.Send(frame.Text, `{"text": "next"}`)
	client.Expect(frame.Text, `{"text": "next"}`)
	_ = client.Close()
	if s := r.Backend.Stats().Totals; s.Dialed != 1 || s.Leased != 2 {
		t.Errorf("stats: %+v", s)
	}
}

// A server's message that bears no tag, such as binary audio, ends a session on a connection that has served others, since it may be
// theirs; it is not dropped while the session lasts.
func TestUntaggedEndsSession(t *testing.T) {
	const finished = `{"header":{"event":"task-finished","task_id":"1"}}`
	r := newRig(t, setup{Profile: "dashscope"})
	client, server := r.Session()
	client.Send(frame.Text, `{"header":{"action":"run-task","task_id":"1"}}`)
	client.Send(frame.Text, `{"header":{"action":"finish-task","task_id":"1"}}`)
	server.Expect(frame.Text, `{"header":{"action":"run-task","task_id":"1"}}`)
	server.Expect(frame.Text, `{"header":{"action":"finish-task","task_id":"1"}}`)
	server.Send(frame.Text, finished)
	client.Expect(frame.Text, finished)
	client.CloseNormally()
	client = r.Join()
	client.Send(frame.Text, `{"header":{"action":"run-task","task_id":"2"}}`)
	server.Expect(frame.Text, `{"header":{"action":"run-task","task_id":"2"}}`)
	server.Send(frame.Binary, "audio")
	client.ExpectClose(frame.InternalError, "backend sent an unsolicited answer")
	_ = client.Close()
	server.ExpectClose(frame.InternalError, "")
	_ = server.Close()
}

// A client that comes back to a former session's task on the same connection, when it is too late to move it, is told to try again. The server is not to
// blame: otherwise such a client could open its circuit.
func TestFormerTaskEndsSession(t *testing.T) {
	const done = `{"type":"done","context_id":"1"}`
	say := func(id string) string { return `{"context_id":"` + id + `","transcript":"a"}` }
	r := newRig(t, setup{Backend: withYAML(t, "profiles: {p: {from: cartesia, variant: none}}")})
	client, server := r.Session()
	client.Send(frame.Text, say("1"))
	server.Expect(frame.Text, say("1"))
	server.Send(frame.Text, done)
	client.Expect(frame.Text, done)
	client.CloseNormally()
	client = r.Join()
	client.Send(frame.Text, say("2"))
	server.Expect(frame.Text, say("2"))
	client.Send(frame.Text, say("1"))
	client.ExpectClose(frame.TryAgainLater, "other settings")
	_ = client.Close()
	wstest.Eventually(t, "the leases end", func() bool { return r.Backend.Stats().Totals.Discarded == 1 })
	if broken := r.Backend.Health().Broken; broken != 0 {
		t.Errorf("%d sessions were broken by the server", broken)
	}
	wstest.Eventually(t, "the end is counted", func() bool { return len(r.counted().Ends) > 1 })
	for _, end := range r.counted().Ends {
		if end.Class != meter.Normal && (end.Class != meter.BackendFull || end.By != meter.Proxy) {
			t.Errorf("an end by %v as %v", end.By, end.Class)
		}
	}
}

// targetOf returns the server with a URL as the proxy dials it.
func targetOf(t *testing.T, url string) *handshake.Target {
	t.Helper()
	target, err := handshake.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	return target
}
