package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// timed is a profile of a server that tells the times of its results.
const timed = `
profiles:
  p:
    failover:
      verdict: full
      audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}
      configure: [{messages: {json: {type: start}}, resend: last}]
      answered: [{messages: {json: {final: true}}, by: time, times: [start, duration], unit: s}]
      partial: {json: {final: false}}
      shift: [{path: start, unit: s}, {path: "words[].end", unit: s}]
      renumber: [{path: n, first: 0}]
      hide: [{messages: {json: {type: ready}}, most: 1}]
      stall: speech
`

// tracking is a session's tracker, with what a caller keeps.
type tracking struct {
	*Tracker
	t       testing.TB
	entries []Entry
}

func track(t testing.TB, yaml string) *tracking {
	t.Helper()
	return &tracking{Tracker: NewTracker(mustParse(t, yaml), ""), t: t}
}

// client reports a message of the client, and that it was sent.
func (t *tracking) client(op frame.Opcode, payload string) Entry {
	t.t.Helper()
	e := t.come(op, payload)
	t.Sent(e)
	return e
}

// come reports a message of the client that is not sent yet.
func (t *tracking) come(op frame.Opcode, payload string) Entry {
	t.t.Helper()
	var b []byte
	if t.NeedsPayload(op, len(payload)) {
		if t.InspectsClient()&(1<<op) == 0 {
			t.t.Fatalf("NeedsPayload and InspectsClient contradict for %v", op)
		}
		b = []byte(payload)
	}
	e := t.ClientMessage(op, b, len(payload))
	t.entries = append(t.entries, e)
	return e
}

// server presents a message of the server, and expects what the client gets: empty for nothing.
func (t *tracking) server(payload, want string) Judgement {
	t.t.Helper()
	j := t.ServerMessage(frame.Text, []byte(payload))
	if got := string(j.Payload); got != want || j.Pass != (want != "") {
		t.t.Errorf("%s\nreaches the client as %q (%v), want\n%s", payload, got, j.Pass, want)
	}
	return j
}

// same is server for a message that the client gets as it is.
func (t *tracking) same(payload string) Judgement { t.t.Helper(); return t.server(payload, payload) }

// die moves the session to another server, and sends it what it needs.
func (t *tracking) die() (resent []Entry) {
	t.Begin(Leg{From: t.Answered()})
	for range t.Configuration() {
		t.Sent(Entry{Kind: EntryConfiguration})
	}
	for _, e := range t.entries {
		if t.Resend(e) {
			t.Sent(e)
			resent = append(resent, e)
		}
	}
	t.CaughtUp()
	return resent
}

func (t *tracking) answeredTo(want Position) {
	t.t.Helper()
	if got := t.Answered(); got != want {
		t.t.Errorf("answered up to %d, want %d", got, want)
	}
}

// Times, numbers and greetings of a second server continue those of the first.
func TestTrackerMoves(t *testing.T) {
	k := track(t, timed)
	k.Begin(Leg{})
	k.client(frame.Text, `{"type":"start"}`)
	k.same(`{"type":"ready"}`)
	second := strings.Repeat("a", 32000)
	k.client(frame.Binary, second)
	k.client(frame.Binary, second)
	k.same(`{"n":0,"start":0.00,"duration":0.5,"final":false}`)
	k.same(`{"n":0,"start":0.00,"duration":1.25,"final":true,"words":[{"end":1.2}]}`)
	k.answeredTo(40000)
	k.same(`{"n":1,"start":1.25,"duration":0.5,"final":false}`)

	if resent := k.die(); len(resent) != 1 || resent[0].From != 32000 {
		t.Errorf("resent: %+v", resent)
	}
	k.server(`{"type":"ready"}`, "")
	k.server(`{"n":0,"start":0.00,"duration":0.75,"final":true,"words":[{"end":0.5},{"end":1}]}`,
		`{"n":1,"start":1.25,"duration":0.75,"final":true,"words":[{"end":1.75},{"end":2.25}]}`)
	k.answeredTo(64000)
	k.same(`{"type":"ready"}`) // the client asked for this one
	if k.Whole() != "" {
		t.Error(k.Whole())
	}
}

// A client of Vosk gets one reply for each of its messages, whatever servers die.
func TestTrackerLockstep(t *testing.T) {
	k := track(t, "profiles: {p: {from: vosk}}")
	const config = `{"config" : {"sample_rate" : 8000}}`
	k.Begin(Leg{})
	k.client(frame.Text, config)
	partial, final := func(i int) string { return fmt.Sprintf(`{"partial" : "%d"}`, i) }, func(i int) string { return fmt.Sprintf(`{"text" : "%d"}`, i) }
	audio := strings.Repeat("a", 1600)
	for i := range 6 {
		k.client(frame.Binary, audio)
		switch i {
		case 2:
			k.same(final(i))
		case 5: // not replied
		default:
			k.same(partial(i))
		}
	}
	k.answeredTo(3 * 1600)
	if k.Unanswered() != 1 {
		t.Errorf("%d replies are owed", k.Unanswered())
	}
	if resent := k.die(); len(resent) != 3 {
		t.Errorf("resent: %+v", resent)
	}
	k.server(partial(3), "")
	k.same(final(4))         // the client has had a partial result in its place
	k.server(partial(5), "") // so it does not get this one
	k.client(frame.Binary, audio)
	k.same(partial(6))
	k.answeredTo(5 * 1600)
	if f, rate, _ := k.Format(); f != S16LE || rate != 8000 {
		t.Errorf("format: %v, %d", f, rate)
	}
}
