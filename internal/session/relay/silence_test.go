package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	alive      = `{"type":"alive?"}`
	aliveStill = `{"type":"alive!"}`
)

// ownProfile has all servers speak a profile of the test's own, with these keys.
func ownProfile(t *testing.T, o setup, keys string) setup {
	t.Helper()
	list, err := profile.Parse("own", []byte("profiles: {own: {"+keys+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	o.Backend = func(b *backend.Options) { b.Profile = list[0] }
	return o
}

// keepalive says how servers are kept alive, so rarely that a test has to ask for it.
const keepalive = `keepalive: {send: '` + alive + `', every: 1h, answer: {json: {type: alive!}}}`

// keeps turns keepalives in sessions on.
func keeps(s *route.Service) { s.Keepalive = true }

// silent has the time for a keepalive come in the only session.
func (r *rig) silent() {
	r.T.Helper()
	r.on(func(s *Session) {
		s.activity.client = loop.Now().After(-2 * time.Hour)
		s.keepServerAlive()
	})
}

// The server of a client that is silent is kept alive, between two messages of the client. The client sees nothing of it, and it counts for nothing.
func TestKeepaliveInSession(t *testing.T) {
	for _, reuse := range []string{"one-shot", "lockstep, stateless: true"} {
		r := newRig(t, ownProfile(t, setup{Script: new(wstest.Server), Service: func(s *route.Service) { s.Keepalive, s.IdleTimeout = true, 4*time.Hour }},
			"reuse: "+reuse+", "+keepalive))
		client, server := r.Session()
		client.Send(frame.Text, "one")
		server.Expect(frame.Text, "one")
		server.Send(frame.Text, "answer")
		client.Expect(frame.Text, "answer")
		type counts struct {
			used    meter.Used
			relayed meter.Relayed
			heard   loop.Instant
			checks  int8
		}
		count := func() (c counts) {
			r.on(func(s *Session) {
				s.checkIdle()
				c = counts{s.used(), s.relayed(), s.activity.server, s.progress.quietChecks}
			})
			return c
		}
		count()
		before := count()
		const times = 3
		for range times {
			r.sent()
			r.silent()
			server.ExpectOwn(frame.Text, alive)
			server.Send(frame.Text, aliveStill)
			server.Send(frame.Ping, "")
			server.Expect(frame.Pong, "") // so that the session has seen the answer
		}
		after := count()
		if before.checks++; after != before {
			t.Errorf("%s: %+v before, and %+v after keepalives", reuse, before, after)
		}
		client.SendBytes(client.Encode(false, frame.Text, []byte("in the ")))
		wstest.Eventually(t, "the message has begun", func() (begun bool) {
			r.on(func(s *Session) { begun = !s.scanner.AtMessageBoundary() })
			return begun
		})
		r.silent()
		client.Send(frame.Continuation, "middle")
		server.Expect(frame.Text, "in the ")
		server.Expect(frame.Continuation, "middle")
		server.Send(frame.Text, aliveStill) // which the client has asked for, as far as the proxy knows
		client.Expect(frame.Text, aliveStill)
	}
}

// A session keeps the server that continues it alive, too.
func TestKeepaliveAfterFailover(t *testing.T) {
	r := newRig(t, sessiontest.Failover("vosk", 2, ownProfile(t, setup{Service: keeps}, "from: vosk, "+keepalive)))
	r.AllReady(1, r.Backends...)
	client, server, n := r.Begin()
	answers := func(server *wstest.Peer) {
		t.Helper()
		r.sent()
		r.silent()
		server.ExpectOwn(frame.Text, alive)
		server.Send(frame.Text, aliveStill)
	}
	answers(server)
	sessiontest.Speak(client, server, 0, sessiontest.Final("one", 0, 0.1), sessiontest.Final("one", 0, 0.1))
	answers(server)
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	_ = server.Close()
	next := r.Other(n)
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	next.Send(frame.Text, sessiontest.Final("two", 0, 0.1))
	client.Expect(frame.Text, sessiontest.Final("two", 0.1, 0.2))
	answers(next)
	sessiontest.Speak(client, next, 2, sessiontest.Final("three", 0.1, 0.2), sessiontest.Final("three", 0.2, 0.3))
	client.Send(frame.Text, voskEnd)
}

// By itself, a keepalive comes again and again, while the session moves from loop to loop; and only if the service or the session asks for it.
func TestKeepalivesGoOn(t *testing.T) {
	r := newRig(t, ownProfile(t, setup{Loops: 2, Queue: 1, Script: new(wstest.Server)}, `keepalive: {send: '`+alive+`', every: 5ms}, predial: never`))
	_, stop := r.mover()
	client := r.Connect(wstest.UpgradeRequest("/v1/test"))
	client.ExpectUpgrade()
	server := r.Accepted()
	r.on(func(s *Session) {
		if s.account.silence != nil || s.keepaliveEvery() != 0 {
			t.Error("nothing has asked for keepalives")
		}
		s.KeepServerAlive(true)
	})
	for range 20 {
		server.ExpectOwn(frame.Text, alive)
	}
	stop()
	r.on(func(s *Session) { s.KeepServerAlive(false) })
	wstest.Eventually(t, "no more are due", func() (over bool) {
		r.on(func(s *Session) { over = !s.account.silence.keepalive.Active() })
		return over
	})
}

// A keepalive that was due for a client that has come back is not sent.
func TestNoKeepaliveAfterReturn(t *testing.T) {
	r := newRig(t, ownProfile(t, setup{Script: new(wstest.Server)}, keepalive))
	client, server := r.Session()
	client.Send(frame.Text, "one")
	server.Expect(frame.Text, "one")
	r.sent()
	r.on(func(s *Session) {
		s.KeepServerAlive(true)
		s.KeepServerAlive(false)
	})
	r.silent()
	client.Send(frame.Text, "two")
	server.Expect(frame.Text, "two")
}

// A connection that got a keepalive while it was idle need not wait for longer in the session.
func TestFirstKeepaliveOfSession(t *testing.T) {
	r := newRig(t, ownProfile(t, setup{Script: new(wstest.Server), Service: keeps}, keepalive))
	var due loop.Instant
	conn := r.hold()
	conn.Use(func(bool) { due = conn.KeepaliveDue(); conn.EndUnused() })
	r.Ready(1)
	r.Join()
	r.on(func(s *Session) {
		if next := s.account.silence.keepalive.When(); due == 0 || next > due.After(time.Second) {
			t.Errorf("due at %v, and in the session at %v", due, next)
		}
	})
}

// heardAudio says what audio is: binary messages, or a part of texts.
var heardAudio = map[string]string{
	"binary": `audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}`,
	"base64": `audio: {messages: {json: {type: audio}}, base64: data, encoding: s16le, rate: 16000}`,
}

// A session without audio ends, whatever else its client says, in the way of the protocol.
func TestAudioIdle(t *testing.T) {
	const never = `{"type":"configure"}`
	for name, audio := range heardAudio {
		for _, ending := range []string{`reuse: lockstep, stateless: true`, `end: {client: {text: bye}, server: close}, leave: {send: bye}`} {
			for _, failover := range []bool{false, true} {
				r := newRig(t, ownProfile(t, setup{Script: new(wstest.Server), Service: func(s *route.Service) {
					s.AudioIdle, s.Failover, s.ReplayWindow = time.Hour, failover, time.Minute
				}}, ending+`, `+keepalive+`, failover: {verdict: visible, why: x, `+audio+`, answered: {messages: {opcode: text}, by: utterance}}`))
				client, server := r.Session()
				op, spoken := frame.Binary, "audio"
				if name == "base64" {
					op, spoken = frame.Text, `{"type":"audio","data":"YXVkaW8="}`
				}
				say := func(op frame.Opcode, text string) {
					client.Send(op, text)
					server.Expect(op, text)
					server.Send(frame.Text, never)
					client.Expect(frame.Text, never)
				}
				quiet := func() (checks int8) {
					r.sent() // otherwise the client may not be read for a moment
					r.on(func(s *Session) {
						s.checkAudio()
						checks = s.account.silence.heard.quietChecks
					})
					return checks
				}
				for range 3 {
					if say(op, spoken); quiet() != 0 {
						t.Errorf("%s: %s is no audio", name, spoken)
					}
					for checks := range int8(idleChecks - 1) {
						say(frame.Text, never)
						client.Send(frame.Ping, "")
						client.Expect(frame.Pong, "")
						if name == "binary" && failover {
							say(frame.Binary, "")
						}
						if got := quiet(); got != checks+1 {
							t.Errorf("%s: %d checks without audio; want %d", name, got, checks+1)
						}
					}
				}
				r.on(func(s *Session) {
					s.client.Pause()
					for range idleChecks {
						s.checkAudio() // the client may have audio that is not read
					}
					s.client.Resume()
				})
				for range idleChecks {
					quiet()
				}
				client.ExpectClose(frame.PolicyViolation, "audio idle limit reached")
				connection := "returned"
				if ending[0] == 'e' {
					server.ExpectOwn(frame.Text, "bye")
					connection = "ended"
				}
				client.SendClose(frame.PolicyViolation, "")
				_ = client.Close()
				r.expectRecord(fate{"proxy", frame.PolicyViolation, "audio idle limit reached", connection})
				if got := r.Shared.LimitLog.Total(); len(got) != 1 || got[0].Limit.String() != "audio-idle" {
					t.Errorf("counted: %+v", got)
				}
				if connection == "ended" {
					_ = server.Close()
				}
			}
		}
	}
}

// It ends by itself, and not while audio comes.
func TestAudioIdleByItself(t *testing.T) {
	r := newRig(t, setup{Profile: "funasr", Script: new(wstest.Server), Service: func(s *route.Service) { s.AudioIdle = 40 * time.Millisecond }})
	client, server := r.Session()
	client.Send(frame.Text, `{"mode": "2pass"}`)
	go func() {
		for {
			if _, _, err := server.Next(); err != nil {
				return
			}
		}
	}()
	client.ExpectClose(frame.PolicyViolation, "audio idle limit reached")
	_ = client.Close()
}
