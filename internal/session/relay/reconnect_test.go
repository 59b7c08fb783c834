package relay

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// reconnects is a service whose sessions wait for their clients.
func reconnects(s *route.Service) { s.Reconnect = time.Minute }

// comes connects a client, and returns it with the answer's fields.
func (r *rig) comes(header ...string) (*wstest.Peer, http.Header) {
	r.T.Helper()
	p, response := r.Request(wstest.UpgradeRequest("/v1/test", header...))
	if response.StatusCode != http.StatusSwitchingProtocols {
		r.T.Fatalf("status %d", response.StatusCode)
	}
	return p, response.Header
}

// newReturning returns a rig with a session whose client may come back: the client, the fields of the answer to it, and its server.
func newReturning(t *testing.T) (r *rig, client *wstest.Peer, answer http.Header, server *wstest.Peer) {
	t.Helper()
	r = newRig(t, setup{Service: reconnects})
	r.Ready(1)
	client, answer = r.comes()
	return r, client, answer, r.Accepted()
}

// back connects a client that comes back, and checks what the proxy says.
func (r *rig) back(token, got, wantReceived, wantSent string) (*wstest.Peer, string) {
	r.T.Helper()
	p, answer := r.comes("Wsbouncer-Resume: "+token, "Wsbouncer-Received: "+got)
	if received, sent := answer.Get("Wsbouncer-Received"), answer.Get("Wsbouncer-Sent"); received != wantReceived || sent != wantSent {
		r.T.Errorf("received %s, sent %s; want %s, %s", received, sent, wantReceived, wantSent)
	}
	return p, answer.Get("Wsbouncer-Resume")
}

// parked waits until so many sessions wait for their clients.
func (r *rig) parked(n int) {
	r.T.Helper()
	wstest.Eventually(r.T, "sessions wait for their clients", func() bool { return r.sessions.lines.Stats().Parked == n })
}

// A client whose connection breaks comes back, learns what has arrived, sends the rest, and gets what it has missed.
func TestComesBack(t *testing.T) {
	r, client, answer, server := newReturning(t)
	client.Send(frame.Text, "one")
	server.Expect(frame.Text, "one")
	server.Send(frame.Text, "first")
	client.Expect(frame.Text, "first")
	two := wstest.ClientFrame(true, frame.Text, "two, of which only a part arrives")
	client.SendBytes(two[:9])
	client.Reset()
	r.parked(1)
	server.Send(frame.Text, "second")
	server.SendBytes(wstest.ServerFrame(false, frame.Text, "thi"))
	client, token := r.back(answer.Get("Wsbouncer-Resume"), "1", "1", "1")
	client.SendBytes(two)
	server.Expect(frame.Text, "two, of which only a part arrives")
	server.SendBytes(wstest.ServerFrame(true, frame.Continuation, "rd"))
	expect(t, client, frame.Text, "second")
	expect(t, client, frame.Text, "thi")
	expect(t, client, frame.Continuation, "rd")
	client.Reset()
	r.parked(1)
	client, _ = r.back(token, "2", "2", "2") // it has not got the last one
	expect(t, client, frame.Text, "thi")
	if stats := r.sessions.lines.Stats(); stats.Resumed != 2 || stats.Lost != 2 {
		t.Errorf("%+v", stats)
	}
}

// next returns the client's next frame that is no ping, and answers those that are.
func next(t *testing.T, p *wstest.Peer) (frame.Header, string) {
	t.Helper()
	for {
		h, payload, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Opcode != frame.Ping {
			return h, string(payload)
		}
		p.Send(frame.Pong, string(payload))
	}
}

// expect expects a frame behind pings.
func expect(t *testing.T, p *wstest.Peer, op frame.Opcode, payload string) {
	t.Helper()
	if h, got := next(t, p); h.Opcode != op || got != payload {
		t.Fatalf("received %+v %q; want %v %q", h, got, op, payload)
	}
}

// A token is good for one return, for the same credential and service; the answer says no more than that.
func TestTokens(t *testing.T) {
	r, client, answer, server := newReturning(t)
	first := answer.Get("Wsbouncer-Resume")
	client.Reset()
	r.parked(1)
	client, second := r.back(first, "0", "0", "0")
	client.Reset() // before it has shown that it has the second: the first is good once more
	r.parked(1)
	client, third := r.back(first, "0", "0", "0")
	client.Send(frame.Text, "I have it")
	server.Expect(frame.Text, "I have it")
	client.Reset()
	r.parked(1)
	for _, token := range []string{first, second, third + "x", strings.ToUpper(third), "", "x"} {
		if token == "" {
			continue
		}
		p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+token))
		if response.StatusCode != http.StatusGone {
			t.Errorf("%q: status %d", token, response.StatusCode)
		}
		_ = p.Close()
	}
	p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+third, "Wsbouncer-Received: 1"))
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("more than was sent: status %d", response.StatusCode)
	}
	_ = p.Close()
	client, _ = r.back(third, "0", "1", "0")
	server.Send(frame.Text, "so have I")
	expect(t, client, frame.Text, "so have I")
	client.SendClose(frame.NormalClosure, "")
	server.ExpectClose(frame.NormalClosure, "")
	server.SendClose(frame.NormalClosure, "")
	expect(t, client, frame.Close, string(frame.ClosePayload(frame.NormalClosure, "")))
	_ = client.Close()
	wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
}

// A session is taken over from a connection that still seems to live.
func TestTakenOver(t *testing.T) {
	r, old, answer, server := newReturning(t)
	other, _ := r.back(answer.Get("Wsbouncer-Resume"), "0", "0", "0")
	old.ExpectClose(4409, "the session goes on over another connection")
	other.Send(frame.Text, "it goes on")
	server.Expect(frame.Text, "it goes on")
	server.Send(frame.Text, "indeed")
	expect(t, other, frame.Text, "indeed")
}

// A session whose client does not come back ends as ever.
func TestNotBack(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) { s.Reconnect = 20 * time.Millisecond }})
	r.Ready(1)
	client, _ := r.comes()
	r.Accepted()
	client.Reset()
	wstest.Eventually(t, "the session ends", func() bool { return r.sessions.Active() == 0 })
	r.expectRecord(fate{"client", frame.AbnormalClosure, notBack, "discarded"})
	if stats := r.sessions.lines.Stats(); stats.Expired != 1 || stats.Parked != 0 {
		t.Errorf("%+v", stats)
	}
}

// A session that ends while its client is away leaves it the last messages and the reason.
func TestEndedMeanwhile(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) { s.Reconnect, s.CloseTimeout = time.Minute, 20*time.Millisecond }})
	r.Ready(1)
	client, answer := r.comes()
	server := r.Accepted()
	client.Reset()
	r.parked(1)
	server.Send(frame.Text, "the last")
	server.SendClose(frame.NormalClosure, "done")
	wstest.Eventually(t, "the session ends", func() bool { return r.sessions.Active() == 0 })
	client, token := r.back(answer.Get("Wsbouncer-Resume"), "0", "0", "0")
	client.Expect(frame.Text, "the last")
	_ = client.Close() // it has not got the close frame
	client, _ = r.back(token, "1", "0", "1")
	client.ExpectClose(frame.NormalClosure, "done")
	client.SendClose(frame.NormalClosure, "")
	_ = client.Close()
	wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
}

// A client that reads no fields gets messages.
func TestComesBackByMessages(t *testing.T) {
	r := newRig(t, setup{Service: reconnects})
	r.Ready(1)
	client, answer := r.comes("Sec-WebSocket-Protocol: wsbouncer.v1")
	server := r.Accepted()
	if protocol := answer.Get("Sec-WebSocket-Protocol"); protocol != "wsbouncer.v1" {
		t.Errorf("granted %q", protocol)
	}
	token := answer.Get("Wsbouncer-Resume")
	client.Expect(frame.Text, `{"wsbouncer":{"resume":"`+token+`","received":0,"sent":0}}`)
	client.Send(frame.Text, "one")
	server.Expect(frame.Text, "one")
	client.Expect(frame.Text, `{"wsbouncer":{"received":1}}`)
	client.Reset()
	r.parked(1)
	server.Send(frame.Text, "first")
	client, answer = r.comes("Sec-WebSocket-Protocol: wsbouncer.v1, wsbouncer-resume." + token + ", wsbouncer-received.0")
	client.Expect(frame.Text, `{"wsbouncer":{"resume":"`+answer.Get("Wsbouncer-Resume")+`","received":1,"sent":0}}`)
	expect(t, client, frame.Text, "first")
	client.Send(frame.Text, "two")
	server.Expect(frame.Text, "two")
	client.Reset()
	r.parked(1)
	gone, _ := r.comes("Sec-WebSocket-Protocol: wsbouncer.v1, wsbouncer-resume." + token)
	gone.ExpectClose(4410, "there is no such session for this credential: it has ended, or the token was used")
	_ = gone.Close()
}

// A server that dies within a frame takes only that with it: the client gets what came before, and why its session has ended.
func TestServerDiesWithinFrame(t *testing.T) {
	for name, away := range map[string]bool{"the client is away": true, "the client is there": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Service: func(s *route.Service) { s.Reconnect, s.CloseTimeout = time.Minute, 20*time.Millisecond }})
			r.Ready(1)
			client, answer := r.comes()
			server := r.Accepted()
			if away {
				client.Reset()
				r.parked(1)
			}
			server.Send(frame.Text, "first")
			server.SendBytes(wstest.ServerFrame(true, frame.Text, "second")[:5])
			if !away {
				expect(t, client, frame.Text, "first")
			}
			_ = server.Close()
			wstest.Eventually(t, "the session ends", func() bool { return r.sessions.Active() == 0 })
			_ = client.Close()
			client, _ = r.comes("Wsbouncer-Resume: "+answer.Get("Wsbouncer-Resume"), "Wsbouncer-Received: 0")
			expect(t, client, frame.Text, "first")
			if h, reason := next(t, client); h.Opcode != frame.Close || !strings.HasPrefix(reason, "\x03\xf3backend connection lost: ") {
				t.Errorf("%+v %q", h, reason)
			}
			client.SendClose(frame.InternalError, "") // otherwise it could have lost the end, too
			_ = client.Close()
			wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
		})
	}
}

// The limits on silence do not count while the client is away.
func TestParkedIsNotIdle(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk", Service: func(s *route.Service) { s.Reconnect, s.IdleTimeout, s.AudioIdle = time.Minute, time.Hour, time.Hour }})
	r.Ready(1)
	client, answer := r.comes()
	r.Accepted()
	client.Reset()
	r.parked(1)
	relays := false
	look := func(s *Session) {
		for n := 0; n < 3*idleChecks && s.Relaying(); n++ {
			s.checkIdle()
			if s.Relaying() {
				s.checkAudio()
			}
		}
		relays = s.Relaying()
	}
	if r.on(look); !relays {
		t.Error("the session has ended")
	}
	client, _ = r.back(answer.Get("Wsbouncer-Resume"), "0", "0", "0")
	if r.on(look); relays {
		t.Error("the session does not end although its client is silent")
	}
	if h, reason := next(t, client); h.Opcode != frame.Close || !strings.HasSuffix(reason, "idle limit reached") {
		t.Errorf("%+v %q", h, reason)
	}
}

// A client that takes its time for one message, which waits for its end, is not silent. If it is text, it sends no audio.
func TestLongMessageIsNotIdle(t *testing.T) {
	for kind, want := range map[frame.Opcode]string{frame.Binary: "", frame.Text: "audio idle limit reached"} {
		r := newRig(t, setup{Profile: "vosk", Service: func(s *route.Service) { s.Reconnect, s.IdleTimeout, s.AudioIdle = time.Minute, time.Hour, time.Hour }})
		r.Ready(1)
		client, _ := r.comes()
		r.Accepted()
		message, reason := wstest.ClientFrame(true, kind, make([]byte, 20<<10)), ""
		for n := 1; n <= 3*idleChecks && reason == ""; n++ {
			client.SendBytes(message[(n-1)<<10 : n<<10])
			wstest.Eventually(t, "a part arrives", func() (arrived bool) {
				r.on(func(s *Session) { got, _ := resume.Of(s.client).UnderWay(); arrived = got == n<<10 })
				return arrived
			})
			r.on(func(s *Session) {
				if s.checkIdle(); s.Relaying() {
					s.checkAudio()
				}
				reason = s.record.Reason
			})
		}
		if reason != want {
			t.Errorf("%v: the session ends with %q; want %q", kind, reason, want)
		}
	}
}

// A client that gets messages is told of all that has arrived, also if it falls silent just after it was told.
func TestToldOfTheLast(t *testing.T) {
	r := newRig(t, setup{Service: reconnects})
	r.Ready(1)
	client, answer := r.comes("Sec-WebSocket-Protocol: wsbouncer.v1")
	r.Accepted()
	expect(t, client, frame.Text, `{"wsbouncer":{"resume":"`+answer.Get("Wsbouncer-Resume")+`","received":0,"sent":0}}`)
	client.Send(frame.Text, "one")
	expect(t, client, frame.Text, `{"wsbouncer":{"received":1}}`)
	client.Send(frame.Text, "two")
	expect(t, client, frame.Text, `{"wsbouncer":{"received":2}}`)
}
