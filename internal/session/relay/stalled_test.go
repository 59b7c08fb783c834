package relay

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// stallingAfter watches servers, without failover.
func stallingAfter(timeout time.Duration) func(*route.Service) {
	return func(s *route.Service) { s.Failover, s.StallTimeout = false, timeout }
}

// A server answers pings and nothing else. Its only session ends, and it gets no other until it has answered again.
func TestServerStalls(t *testing.T) {
	for name, failover := range map[string]string{
		"replies answer": "{}", "times answer": `{answered: {messages: {json: {text: "*"}}, by: time, times: "result[].end", unit: s}}`,
	} {
		t.Run(name, func(t *testing.T) {
			serverStalls(t, withYAML(t, "profiles: {x: {from: vosk, failover: "+failover+"}}"))
		})
	}
}

func serverStalls(t *testing.T, backend func(*backend.Options)) {
	r := newRig(t, setup{Backend: backend, Script: new(wstest.Server), Service: stallingAfter(time.Second)})
	r.Ready(1)
	client, server := r.Session()
	client.Send(frame.Binary, sessiontest.Chunk(0))
	server.Expect(frame.Binary, sessiontest.Chunk(0))
	server.Send(frame.Text, sessiontest.Partial("one"))
	client.Expect(frame.Text, sessiontest.Partial("one"))
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	for range 20 {
		server.Send(frame.Ping, "alive")
		server.Expect(frame.Pong, "alive")
	}
	h, payload, err := client.Next()
	code, reason, _ := frame.ParseClose(payload)
	if err != nil || h.Opcode != frame.Close || code != frame.InternalError || !regexp.MustCompile(`^backend stalled: no reply for [0-9.m]+s$`).Match(reason) {
		t.Fatalf("received %v %v %q, %v", h.Opcode, code, reason, err)
	}
	if line := r.Line("backend taken out of service, sessions stall on it"); !strings.HasPrefix(line["reason"].String(), "backend stalled: no reply for") {
		t.Errorf("the log says %v", line)
	}
	b := r.Backends[0]
	wstest.Eventually(t, "the pool knows it, and counts the session as broken", func() bool {
		h := b.Health()
		return !b.Stats().Usable && h.Stalled && h.Broken == 1
	})
	if n := r.counted().Stalls; n != 1 {
		t.Errorf("%d stalls were counted", n)
	}
}

// A client that says nothing, or that is answered, has no quarrel with its server.
func TestServerHasNothingToSay(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk", Script: new(wstest.Server), Service: stallingAfter(wstest.Timeout)})
	client, server := r.Session()
	for round := range 3 {
		if r.looksAtServer(30); r.quiet() != 0 {
			t.Errorf("round %d: it owes a sign for %v", round, r.quiet())
		}
		client.Send(frame.Binary, sessiontest.Chunk(round))
		server.Expect(frame.Binary, sessiontest.Chunk(round))
		server.Send(frame.Text, sessiontest.Partial("one"))
		client.Expect(frame.Text, sessiontest.Partial("one"))
	}
	r.looksAtServer(1)
	if quiet := r.quiet(); quiet != 0 || r.counted().Stalls != 0 {
		t.Errorf("it owes a sign for %v, %d stalls counted", quiet, r.counted().Stalls)
	}
}

// A server that speaks owes nothing until it was asked to speak, when it has answered, or when its client no longer wants to hear it.
func TestSpeechStalls(t *testing.T) {
	request := func(id, rest string) string { return `{"context_id":"` + id + `",` + rest + `}` }
	answer := func(id, kind string) string { return `{"type":"` + kind + `","context_id":"` + id + `"}` }
	r := newRig(t, setup{Profile: "cartesia", Script: new(wstest.Server), Service: stallingAfter(time.Second)})
	r.Ready(1)
	client, server := r.Session()
	say := func(message string) {
		client.Send(frame.Text, message)
		server.Expect(frame.Text, message)
	}
	owes := func(what string) {
		t.Helper()
		r.looksAtServer(30)
		if quiet := r.quiet(); quiet != 0 {
			t.Errorf("%s: it owes a sign for %v", what, quiet)
		}
	}
	say(request("1", `"transcript":"one ","continue":true`))
	owes("the text may go on")
	say(request("1", `"transcript":"","continue":false`))
	for _, kind := range []string{"chunk", "done"} {
		server.Send(frame.Text, answer("1", kind))
		client.Expect(frame.Text, answer("1", kind))
	}
	owes("all was answered")
	say(request("2", `"transcript":"two","continue":false`))
	say(request("2", `"cancel":true`))
	owes("it was cancelled")
	say(request("3", `"transcript":"three","continue":true,"flush":true`))
	_, payload, err := client.Next()
	if _, reason, _ := frame.ParseClose(payload); err != nil || !strings.HasPrefix(string(reason), "backend stalled: no result for") {
		t.Errorf("received %q, %v", reason, err)
	}
}

// The lag of a backend is the largest of its sessions.
func TestLags(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk", Cap: 3, Script: new(wstest.Server), Service: stallingAfter(time.Hour)})
	r.Ready(3)
	if n := len(r.sessions.Lags(0)); n != 0 {
		t.Errorf("there is no session, and %d backends have lags", n)
	}
	for range 3 {
		_, _ = r.Session()
	}
	r.sent()
	n := time.Duration(0)
	r.each(func(s *Session) {
		n++
		v, now := failover.StallView{Unanswered: 1}, loop.Now()
		s.failover.watch.Look(&v, now)
		s.failover.watch.Look(&v, now.After(n*time.Second))
	})
	for name, lag := range r.sessions.Lags(0) {
		if lag.Longest != 3*time.Second || lag.Median != 2*time.Second || name.Backend != r.Backends[0].Name() {
			t.Errorf("%+v has %+v; want 3 s, and 2 s for half of the sessions", name, lag)
		}
	}
	most := time.Duration(0) // as lists of sessions show it
	for _, d := range r.sessions.List() {
		most = max(most, d.Timing.Lag)
	}
	if n != 3 || most != 3*time.Second {
		t.Errorf("%d sessions, with %v at most", n, most)
	}
}

// looksAtServer has the session look at its server a number of times, immediately.
func (r *rig) looksAtServer(times int) {
	r.T.Helper()
	for range times {
		r.on(func(s *Session) { s.failover.lookForStall() })
	}
}

// quiet returns for how long the server has owed a sign, as of the session's last look.
func (r *rig) quiet() (d time.Duration) {
	r.T.Helper()
	r.on(func(s *Session) { d = s.failover.watch.Quiet() })
	return d
}

// A session moves on from a server that stalls, and the next one gets what is not answered.
func TestSessionLeavesStalledServer(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) { s.StallTimeout = time.Second }})
	client, server, n := r.Begin()
	sessiontest.Speak(client, server, 0, sessiontest.Final("one", 0, 0.1), sessiontest.Final("one", 0, 0.1))
	client.Send(frame.Binary, sessiontest.Chunk(1))
	server.Expect(frame.Binary, sessiontest.Chunk(1))
	next := r.Other(n)
	next.Expect(frame.Binary, sessiontest.Chunk(1))
	next.Send(frame.Text, sessiontest.Final("two", 0.01, 0.1))
	client.Expect(frame.Text, sessiontest.Final("two", 0.11, 0.2))
	if moved := r.Line("session moved"); moved["cause"].String() != "stalled" {
		t.Errorf("the log says %v", moved)
	}
	wstest.Eventually(t, "the server is out of service", func() bool { return r.Backends[n].Health().Stalled })
	if r.Backends[1-n].Health().Stalled {
		t.Error("the other one is, too")
	}
	client.Send(frame.Text, voskEnd)
}

// A session that stalls wherever it goes ends, and does not take one server after the other out of service.
func TestSessionStallsEverywhere(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{Service: func(s *route.Service) {
		s.StallTimeout, s.QueueTimeout = 100*time.Millisecond, 200*time.Millisecond
	}})
	client, server, n := r.Begin()
	client.Send(frame.Binary, sessiontest.Chunk(0))
	server.Expect(frame.Binary, sessiontest.Chunk(0))
	next := r.Other(n)
	next.Expect(frame.Binary, sessiontest.Chunk(0))
	h, payload, err := client.Next()
	code, reason, _ := frame.ParseClose(payload)
	if err != nil || h.Opcode != frame.Close || code != frame.InternalError || !strings.HasPrefix(string(reason), "backend stalled: no reply for") {
		t.Fatalf("received %v %v %q, %v", h.Opcode, code, reason, err)
	}
	if r.Backends[1-n].Health().Stalled || !r.Backends[1-n].Stats().Usable {
		t.Error("the second server is out of service because of a session that stalls anywhere")
	}
}

const audioSecond = 32000 // bytes at 16 kHz

// recording returns speech.
func recording(t *testing.T, seconds int) []byte {
	w, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(w.PCM, 1+seconds*audioSecond/len(w.PCM))[:seconds*audioSecond]
}

// A server that sends heartbeats only has stalled: audio with speech goes in, and no result comes.
func TestHeartbeatsAreNoResults(t *testing.T) {
	t.Parallel()
	said := recording(t, 8)
	r := newRig(t, setup{Profile: "funasr", Script: new(wstest.Server), Service: stallingAfter(time.Second)})
	client, server := r.Session()
	client.Send(frame.Text, `{"mode": "2pass", "wav_name": "a", "is_speaking": true, "audio_fs": 16000, "wav_format": "pcm"}`)
	server.Expect(frame.Text, `{"mode": "2pass", "wav_name": "a", "is_speaking": true, "audio_fs": 16000, "wav_format": "pcm"}`)
	go func() {
		for {
			if _, _, err := server.Next(); err != nil {
				return
			}
		}
	}()
	ended := make(chan string, 1)
	go func() {
		_, payload, _ := client.Next()
		ended <- string(payload)
	}()
	pace := time.NewTicker(10 * time.Millisecond) // ten times faster than it was spoken
	defer pace.Stop()
	for {
		for at := 0; at < len(said); at += audioSecond / 10 {
			select {
			case payload := <-ended:
				if !strings.Contains(payload, "backend stalled: no result for") {
					t.Errorf("ended with %q", payload)
				}
				return
			case <-pace.C:
				client.Send(frame.Binary, string(said[at:at+audioSecond/10]))
				server.Send(frame.Ping, "alive")
			}
		}
	}
}

// Two sessions that stall do not take a server out of service that gives others results meanwhile.
func TestSessionsStallWhileOthersHear(t *testing.T) {
	answersSome := func(p *wstest.Peer) {
		for {
			switch _, payload, err := p.Next(); {
			case err != nil:
				return
			case string(payload) == sessiontest.Chunk(0):
				p.Send(frame.Text, sessiontest.Partial("one"))
			}
		}
	}
	r := newRig(t, setup{Profile: "vosk", Cap: 3, Script: &wstest.Server{Serve: answersSome}, Service: stallingAfter(500 * time.Millisecond)})
	r.Ready(3)
	well, stop, stopped := r.Join(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				well.Send(frame.Binary, sessiontest.Chunk(0))
				well.Expect(frame.Text, sessiontest.Partial("one"))
			}
		}
	}()
	stalling := []*wstest.Peer{r.Join(), r.Join()}
	for _, client := range stalling {
		client.Send(frame.Binary, sessiontest.Chunk(1))
	}
	for _, client := range stalling {
		h, payload, err := client.Next()
		if code, _, _ := frame.ParseClose(payload); err != nil || h.Opcode != frame.Close || code != frame.InternalError {
			t.Errorf("received %v %v, %v", h.Opcode, code, err)
		}
	}
	close(stop)
	<-stopped
	if n := r.counted().Stalls; n != 2 {
		t.Errorf("%d stalls were counted", n)
	}
	if b := r.Backends[0]; b.Health().Stalled || !b.Stats().Usable {
		t.Errorf("it is out of service: %+v", b.Health())
	}
}
