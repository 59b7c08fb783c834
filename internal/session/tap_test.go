package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// tapped is a tap that a test reads.
type tapped struct {
	t      testing.TB
	tap    *Tap
	events []string // what it has shown and the test has not expected yet
	done   bool
}

// startTap starts a tap.
func (r *rig) startTap(o TapOptions) *tapped {
	r.t.Helper()
	tap, err := r.server.Tap(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(tap.Close)
	return &tapped{t: r.t, tap: tap}
}

// tapRunning taps the only session there is, which runs.
func (r *rig) tapRunning(text int) *tapped {
	r.t.Helper()
	var id ID
	r.on(func(s *Session) { id = s.record.ID })
	return r.startTap(TapOptions{ID: id, Text: text})
}

// line is an event as tests write it.
func line(e TapEvent) string {
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
	if e.Event == tapFrame {
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
	r := newRig(t, setup{profile: "vosk"})
	tap := r.startTap(TapOptions{First: 1, Service: "test", Client: "127.0.0.1", Text: 20})
	client, server := r.session()
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
