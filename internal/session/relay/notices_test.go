package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const tellAll = `tell: {moved: '{"moved":true}', degraded: '{"state":"$state","reason":"$reason"}'}`

func tells(s *route.Service) { s.TellClients = true }

// The client hears of a move before it hears of the next server.
func TestTellsMoved(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Backend: withYAML(t, "profiles: {p: {from: vosk, "+tellAll+"}}"), Service: tells})
	client, server, n := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	server.Reset()
	next := r.Other(n)
	client.Expect(frame.Text, `{"moved":true}`)
	next.ExpectOwn(frame.Text, sessiontest.VoskConfig)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	next.Send(frame.Text, sessiontest.Partial("one"))
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	next.Send(frame.Text, sessiontest.Final("one", 0.05, 0.15))
	client.Expect(frame.Text, sessiontest.Final("one", 0.05, 0.15))
	client.CloseNormally()
}

// The client hears once that its service is degraded, and once that it no longer is, between two messages of the server.
func TestTellsDegraded(t *testing.T) {
	r := newRig(t, setup{Backend: withYAML(t, "profiles: {p: {from: echo, "+tellAll+"}}"), Service: tells})
	client, server := r.Session()
	const why = "1 of 3 servers take sessions"
	say := func(why string) {
		r.sent()
		r.on(func(s *Session) { s.sayState(why) })
	}
	client.Send(frame.Text, "question")
	server.Expect(frame.Text, "question")
	server.SendBytes(wstest.ServerFrame(false, frame.Text, "half "))
	if h, payload, err := client.Next(); err != nil || h.Fin || string(payload) != "half " {
		t.Fatalf("%+v %q %v", h, payload, err)
	}
	say("")
	say(why) // not within a message
	server.SendBytes(wstest.ServerFrame(true, frame.Continuation, "an answer"))
	client.Expect(frame.Continuation, "an answer")
	for range 2 {
		say(why)
	}
	client.Expect(frame.Text, `{"state":"degraded","reason":"`+why+`"}`)
	for range 2 {
		say("")
	}
	client.Expect(frame.Text, `{"state":"normal","reason":""}`)
	r.sessions.TellStates() // nothing is wrong
	client.Send(frame.Text, "question")
	server.Expect(frame.Text, "question")
	server.Send(frame.Text, "answer")
	client.Expect(frame.Text, "answer") // the proxy's messages are no answers
	client.CloseNormally()
}

// A session that is no longer recoverable is degraded.
func TestTellsUnrecoverable(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Backend: withYAML(t, "profiles: {p: {from: vosk, "+tellAll+"}}"), Service: tells})
	client, server, _ := r.Begin()
	client.Send(frame.Text, sessiontest.VoskConfig)
	server.Expect(frame.Text, sessiontest.VoskConfig)
	sessiontest.Speak(client, server, 0, sessiontest.Partial("one"), sessiontest.Partial("one"))
	r.sessions.TellStates()
	r.on(func(s *Session) { s.failover.lose(0, "a test", true) })
	r.sent()
	r.sessions.TellStates()
	client.Expect(frame.Text, `{"state":"degraded","reason":"`+endsWithServer+`"}`)
	client.CloseNormally()
}

// A service is degraded while sessions can begin on less than half of the backends that are to serve them.
func TestDegradedBy(t *testing.T) {
	g := pool.NewGroup[*backend.Conn](pool.Options{})
	var pools []*pool.Pool[*backend.Conn]
	for _, name := range []string{"a", "b", "c"} {
		pools = append(pools, g.Add(name, pool.Settings{Cap: 1, Weight: 1}, func() {}))
	}
	expect := func(want string) {
		t.Helper()
		if got := degradedBy(g); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	expect("")
	pools[0].SetUsable(false)
	expect("")
	pools[1].SetUsable(false)
	expect("1 of 3 servers take sessions")
	pools[1].SetMode(pool.Disabled) // it is not to serve sessions
	expect("")
}
