package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// tapped is a tap that a test reads.
type tapped struct {
	t      testing.TB
	tap    *tap.Tap
	events []string // what it has shown and the test has not expected yet
	done   bool
}

// startTap starts a tap.
func (r *rig) startTap(o tap.Options) *tapped {
	r.T.Helper()
	if tapAll {
		r.T.Skip("there is a tap on each session already")
	}
	started, err := r.sessions.Tap(o)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(started.Close)
	return &tapped{t: r.T, tap: started}
}

// tapRunning taps the only session there is, which runs.
func (r *rig) tapRunning(text int) *tapped {
	r.T.Helper()
	var id record.ID
	r.on(func(s *Session) { id = s.record.ID })
	return r.startTap(tap.Options{ID: id, Text: text})
}

// line is an event as tests write it.
func line(e tap.Event) string {
	words := []string{e.Event}
	add := func(word string) {
		if word != "" {
			words = append(words, word)
		}
	}
	add(e.From)
	if e.To != "" {
		add("to " + e.To)
	}
	add(e.Kind)
	if e.Event == "frame" {
		add(fmt.Sprint(e.Size))
		if !e.Fin {
			add("unfinished")
		}
	}
	add(e.What)
	if e.Code != 0 {
		add(fmt.Sprint(e.Code))
	}
	add(e.Reason)
	if e.Text != "" || e.Cut {
		add("“" + e.Text + "”")
	}
	if e.Cut {
		add("…")
	}
	if e.Count > 0 {
		add(fmt.Sprint(e.Count))
	}
	return strings.Join(words, " ")
}

// next returns the next event.
func (p *tapped) next() string {
	p.t.Helper()
	for len(p.events) == 0 && !p.done {
		events, more, err := p.tap.Next(wstest.Context(p.t))
		if err != nil {
			p.t.Fatalf("no event: %v", err)
		}
		p.done = !more
		for _, e := range events {
			p.events = append(p.events, line(e))
		}
	}
	if len(p.events) == 0 {
		return ""
	}
	first := p.events[0]
	p.events = p.events[1:]
	return first
}

// expect reads events, which must be these.
func (p *tapped) expect(want ...string) {
	p.t.Helper()
	for i, w := range want {
		if got := p.next(); got != w {
			p.t.Fatalf("event %d is %q; want %q; then %q", i, got, w, p.events)
		}
	}
}

// rest reads events until the tap ends.
func (p *tapped) rest() (all []string) {
	p.t.Helper()
	for {
		e := p.next()
		if e == "" {
			return all
		}
		all = append(all, e)
	}
}

const everythingEnded = "end everything that was to be watched has ended"

// A tap shows a session of its kind from its beginning to what becomes of the connection: Vosk's profile holds back what may be an end
// message, replaces it by the reset, and gives the client the last answer.
func TestTapOfVosk(t *testing.T) {
	r := newRig(t, setup{Profile: "vosk"})
	tap := r.startTap(tap.Options{First: 1, Service: "test", Client: "127.0.0.1", Text: 20})
	client, server := r.Session()
	client.Send(frame.Text, voskConfig)
	client.Send(frame.Binary, "audio")
	server.Expect(frame.Text, voskConfig)
	server.Expect(frame.Binary, "audio")
	tap.expect("session began", `frame client text 36 “{"config" : {"sample” …`, "verdict client passed", "frame client binary 5")
	server.Send(frame.Text, `{"partial" : "one"}`)
	client.Expect(frame.Text, `{"partial" : "one"}`)
	tap.expect(`frame backend text 19 “{"partial" : "one"}”`)
	client.Send(frame.Text, voskEnd)
	expectReset(t, server)
	tap.expect(`frame client text 11 “{"eof" : 1}”`, "verdict client dropped", "verdict client ends-session", "verdict reset 3 messages must come, the first 1 for the client",
		`frame proxy to backend text 13 “{"reset" : 1}”`, "frame proxy to backend binary 640", `frame proxy to backend text 13 “{"reset" : 1}”`)
	answerReset(t, server, `{"text" : "one"}`)
	client.Expect(frame.Text, `{"text" : "one"}`)
	client.ExpectClose(frame.NormalClosure, "the session is over")
	client.SendClose(frame.NormalClosure, "bye")
	_ = client.Close()
	all := tap.rest()
	for _, want := range [][]string{
		{
			`frame backend text 16 “{"text" : "one"}”`, "verdict backend passed", "verdict backend answered", "frame proxy to client close 21 1000 the session is over",
			"session client ended 1000 the session is over", "connection resetting 2 messages must come",
		},
		{"connection resetting 2 messages must come", `frame backend text 16 dropped “{"partial" : ""}”`, `frame backend text 13 dropped “{"text" : ""}”`, "connection returned"},
		{"session client ended 1000 the session is over", "frame client close 5 1000 bye"},
	} {
		if !inOrder(all, want) {
			t.Errorf("%q\nlacks, in this order,\n%q", all, want)
		}
	}
	if last := all[len(all)-1]; last != everythingEnded {
		t.Errorf("the last event is %q", last)
	}
}

// inOrder reports whether the words occur in this order.
func inOrder(all, words []string) bool {
	for _, word := range words {
		i := slices.Index(all, word)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}

// A tap may begin in the middle of a frame: it shows the frames that begin from then on, and pieces of texts together.
func TestTapBeginsAnywhere(t *testing.T) {
	r := newRig(t, setup{Profile: "echo"})
	client, server := r.Session()
	whole := client.Encode(true, frame.Text, []byte("before the tap, and a little longer than that"))
	client.SendBytes(whole[:20])
	server.ExpectBytes(whole[:20])
	tap := r.tapRunning(10)
	tap.expect("session relaying")
	client.SendBytes(whole[20:])
	server.ExpectBytes(whole[20:])
	client.Send(frame.Ping, "in between")
	client.Expect(frame.Pong, "in between")
	tap.expect("frame client ping 10", "frame proxy to client pong 10")
	for _, b := range client.Encode(false, frame.Text, []byte("ab\u00e9c")) {
		client.SendBytes([]byte{b})
	}
	client.SendBytes(client.Encode(true, frame.Continuation, []byte("d\U0001F600 and so on")))
	tap.expect("frame client text 5 unfinished “abéc”", "frame client continuation 15 “d\U0001F600 and ” …")
	client.Send(frame.Binary, "audio")
	tap.expect("frame client binary 5")
	server.Send(frame.Text, "")
	server.SendClose(frame.TryAgainLater, "later \xff")
	tap.expect("frame backend text 0", "frame backend close 9 1013 later \uFFFD")
	_ = client.Close()
	if all := tap.rest(); !slices.Contains(all, "connection discarded broken: close reason is not UTF-8") || all[len(all)-1] != everythingEnded {
		t.Errorf("%q", all)
	}
}

// The server must be ready before the client is read: the tap shows what waits, once, and when the session continues.
func TestTapOfSessionThatWaitsForServer(t *testing.T) {
	r := newRig(t, setup{Profile: "whisperlive"})
	tap := r.startTap(tap.Options{First: 1, Text: 100})
	client, server := r.Session()
	client.SendBytes(client.Encode(true, frame.Text, []byte(`{"uid": "a"}`)), client.Encode(true, frame.Binary, []byte("audio 1")),
		client.Encode(true, frame.Binary, []byte("audio 2")))
	server.Expect(frame.Text, `{"uid": "a"}`)
	server.Send(frame.Ping, "1")
	server.Expect(frame.Pong, "1")
	server.Send(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
	client.Expect(frame.Text, `{"uid": "a", "message": "SERVER_READY"}`)
	server.Expect(frame.Binary, "audio 1")
	server.Expect(frame.Binary, "audio 2")
	_ = client.Close()
	_ = server.Close()
	all := tap.rest()
	if want := []string{
		"session began", `frame client text 12 “{"uid": "a"}”`, "verdict client passed", "verdict client paused", "frame backend ping 1",
		"frame proxy to backend pong 1", `frame backend text 39 “{"uid": "a", "message": "SERVER_READY"}”`, "verdict backend passed",
		"verdict backend resumed",
	}; !inOrder(all, want) {
		t.Errorf("%q\nlacks, in this order,\n%q", all, want)
	}
	for _, word := range []string{"frame client binary 7"} {
		n := 0
		for _, e := range all {
			if e == word {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%q is there %d times: %q", word, n, all)
		}
	}
}

// A session that moves since its server is full is watched on the next one, and the first connection's fate is shown, too.
func TestTapOfSessionThatMoves(t *testing.T) {
	r := newRig(t, setup{Profile: "whisperlive", More: []*wstest.Server{{}}, Queue: 1, Loops: 2, Balance: pool.RoundRobin})
	r.AllReady(1, r.Backends...)
	tap := r.startTap(tap.Options{First: 1, Text: 100})
	client := r.Connect(wstest.UpgradeRequest("/v1/test"))
	client.ExpectUpgrade()
	client.Send(frame.Text, `{"uid": "a"}`)
	tap.expect("session began", `frame client text 12 “{"uid": "a"}”`, "verdict client passed", "verdict client paused")
	peers := []*wstest.Peer{r.Scripts[0].Take(), r.Scripts[1].Take()}
	served := make(chan *wstest.Peer, 1)
	for _, p := range peers {
		go func() {
			if _, payload, err := p.Next(); err == nil && string(payload) == `{"uid": "a"}` {
				served <- p
			}
		}()
	}
	(<-served).Send(frame.Text, `{"status": "WAIT"}`)
	second := <-served
	tap.expect(`frame backend text 18 “{"status": "WAIT"}”`, "verdict backend dropped", "verdict backend moved busy", "verdict backend paused")
	all := []string{tap.next()}
	for all[len(all)-1] != `frame proxy to backend text 12 “{"uid": "a"}”` {
		all = append(all, tap.next())
	}
	if !inOrder(all, []string{"session moving busy", "session moved", `frame proxy to backend text 12 “{"uid": "a"}”`}) ||
		!slices.Contains(all, "connection discarded full") {
		t.Errorf("%q", all)
	}
	second.Send(frame.Text, `{"message": "SERVER_READY"}`)
	client.Expect(frame.Text, `{"message": "SERVER_READY"}`)
	_ = client.Close()
	for _, p := range peers {
		_ = p.Close()
	}
	if all := tap.rest(); !inOrder(all, []string{`frame backend text 27 “{"message": "SERVER_READY"}”`, everythingEnded}) {
		t.Errorf("%q", all)
	}
}

// A tap also shows where a session continues whose server was lost.
func TestTapOfSessionThatFailsOver(t *testing.T) {
	r := newFailoverRig(t, "vosk", 2, setup{})
	tap := r.startTap(tap.Options{First: 1, Text: 100})
	client, server, n := r.began()
	server.Reset()
	next := r.Scripts[1-n].Take()
	continues(client, next)
	all := []string{tap.next()}
	for all[len(all)-1] != "session moved" {
		all = append(all, tap.next())
	}
	if !inOrder(all, []string{"session moving backend connection lost: connection reset by peer", "session moved"}) {
		t.Errorf("%q", all)
	}
	_ = client.Close()
}

// A reader that does not keep up misses events and hears how many; the session does not notice. Texts count against the bound, too.
func TestTapThatIsTooSlow(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	client := r.Join()
	slow := r.tapRunning(4096)
	slow.expect("session relaying")
	text := strings.Repeat("x", 4096)
	const rounds = 300 // two texts each: more than 1 MiB
	for range rounds {
		client.Ask(text)
	}
	r.on(func(*Session) {}) // the last event is there
	events, more, err := slow.tap.Next(wstest.Context(t))
	if err != nil || !more {
		t.Fatal(more, err)
	}
	frames, missed := 0, uint64(0)
	for _, e := range events {
		if e.Event == "frame" {
			frames++
		}
		missed += e.Count
	}
	if frames != tap.MaxText/4096 || frames+int(missed) != 2*rounds || events[len(events)-1].Event != "missed" {
		t.Errorf("%d frames are shown and %d missed; want %d in all, %d of them shown", frames, missed, 2*rounds, tap.MaxText/4096)
	}
	client.Ask("and on")
	slow.expect("frame client text 6 “and on”", "frame backend text 6 “and on”") // nothing more is missed
	client.CloseNormally()
}

// A client that waits can be tapped. The tap ends if it leaves; another shows its session from the beginning.
func TestTapOfWaitingClient(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	holder := r.Join()
	var id record.ID
	for name, leaves := range map[string]bool{"leaves": true, "is served": false} {
		client := r.Queued()
		former := id
		wstest.Eventually(t, "the client is shown", func() bool { // a little after it is in the queue; the one before may still be
			for _, d := range r.sessions.List() {
				if d.State == StateWaiting && d.ID.Number > id.Number {
					id = d.ID
				}
			}
			return id != former
		})
		tap := r.startTap(tap.Options{ID: id, Text: 10})
		if leaves {
			_ = client.Close()
			tap.expect("end the client got no session")
			continue
		}
		holder.CloseNormally()
		client.ExpectUpgrade()
		client.Ask(name)
		tap.expect("session began", "frame client text 9 “is served”")
		client.CloseNormally()
		tap.rest()
		holder = r.Join()
	}
}

// There is no tap of a session that is not there, and there are 16 taps at most. A tap takes the sessions that fit, and no more than it
// was asked for.
func TestTapsAreBounded(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Cap: 4, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(4)
	for name, id := range map[string]record.ID{"number": {Process: r.Shared.Process, Number: 1 << 40}, "process": {Process: record.Process{'x'}, Number: 1}} {
		if _, err := r.sessions.Tap(tap.Options{ID: id}); !errors.Is(err, tap.ErrNoSession) {
			t.Errorf("unknown %s: %v", name, err)
		}
	}
	backend := r.Backend.Name()
	two := r.startTap(tap.Options{First: 2, Service: "test", Backend: backend, Client: "127.0.0.1"})
	var others []*tapped
	for _, o := range []tap.Options{{Service: "other"}, {Backend: "other"}, {Client: "127.0.0.2"}, {Client: "127.0.0.1:1"}} {
		o.First = 1
		others = append(others, r.startTap(o))
	}
	for len(others)+1 < tap.Max {
		others = append(others, r.startTap(tap.Options{First: 1, Service: "other"}))
	}
	if _, err := r.sessions.Tap(tap.Options{First: 1}); !errors.Is(err, tap.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	var clients []*wstest.Peer
	for range 3 {
		clients = append(clients, r.Connect(wstest.UpgradeRequest("/v1/test")))
		clients[len(clients)-1].ExpectUpgrade()
	}
	two.expect("session began", "session began")
	shown := 0
	for _, d := range r.sessions.List() {
		shown += d.Taps
	}
	if shown != 2 {
		t.Errorf("%d sessions say that they are tapped; want 2", shown)
	}
	for _, c := range clients {
		c.CloseNormally()
	}
	if all := two.rest(); all[len(all)-1] != everythingEnded {
		t.Errorf("%q", all)
	}
	for _, o := range others {
		o.tap.End("enough")
		o.expect("end enough")
		o.tap.Close()
	}
	two.tap.Close()
	if all, seeking := r.sessions.taps.Counts(); all != 0 || seeking != 0 {
		t.Errorf("%d taps seek sessions, and there are %d", seeking, all)
	}
}

// When a tap ends, the session has its own handlers again, whatever it is doing, and its connection, too.
func TestNothingIsLeftOfTap(t *testing.T) {
	if limitAll {
		t.Skip("limits split frames that arrive together, and have a handler of their own")
	}
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	client := r.Join()
	plain := func() (plain bool) {
		r.on(func(s *Session) {
			_, plainClient := s.client.Handler().(*clientSide)
			_, plainBackend := s.leg.conn.Stream().Handler().(*backendSide)
			plain = plainClient && plainBackend && s.tap == nil
		})
		return plain
	}
	first, second := r.tapRunning(10), r.tapRunning(3)
	first.expect("session relaying")
	second.expect("session relaying")
	client.Ask("hello")
	first.expect("frame client text 5 “hello”", "frame backend text 5 “hello”")
	second.expect("frame client text 5 “hel” …", "frame backend text 5 “hel” …")
	first.tap.Close()
	client.Ask("world")
	second.expect("frame client text 5 “wor” …")
	if plain() {
		t.Error("the other tap has ended, too")
	}
	second.tap.Close()
	wstest.Eventually(t, "the session has its own handlers", plain)
	client.Ask("and on")
	r.sessions.EndTaps()
	if _, err := r.sessions.Tap(tap.Options{First: 1}); err == nil {
		t.Error("a tap begins while the proxy shuts down")
	}
	client.CloseNormally()
}

// A panic in a tapped session ends that session and its taps, and shows them what happened.
func TestTapOfPanic(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}, Recovers: func(*panics.Guard) {}})
	client := r.Join()
	tap := r.tapRunning(0)
	tap.expect("session relaying")
	r.on(func(s *Session) { s.leg.down.to = nil })
	client.Send(frame.Text, "boom")
	all := tap.rest()
	if !inOrder(all, []string{"frame client text 4 “” …", "session proxy ended 1011 internal error", everythingEnded}) ||
		!slices.Contains(all, "connection discarded internal error") {
		t.Errorf("%q", all)
	}
	wstest.Eventually(t, "the connection is replaced", func() bool { return r.Backend.Stats().Idle == 1 })
}
