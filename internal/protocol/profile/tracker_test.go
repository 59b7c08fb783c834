package profile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// timed is a profile of a server that sends the times of its results.
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

// A client may do several tasks over one connection. Each has its own clock and numbers, whichever servers did the former ones.
func TestTrackerTasks(t *testing.T) {
	k := track(t, "profiles: {p: {from: dashscope}}")
	result := func(id, begin, end int) string {
		return fmt.Sprintf(`{"payload":{"output":{"sentence":{"sentence_id":%d,"begin_time":%d,"end_time":%d,"sentence_end":true}}}}`, id, begin, end)
	}
	task := func(id string) {
		k.client(frame.Text, `{"header":{"action":"run-task","task_id":"`+id+`"},"payload":{"parameters":{"format":"pcm","sample_rate":8000}}}`)
		k.same(event("task-started", id))
		k.client(frame.Binary, strings.Repeat("a", 16000))
		k.same(result(1, 0, 250))
		if k.die(); k.Whole() != "" {
			t.Fatal(k.Whole())
		}
		k.server(event("task-started", id), "")
		k.server(result(1, 0, 500), result(2, 250, 750))
		k.client(frame.Text, finishTask(id))
		k.server(result(2, 500, 750), result(3, 750, 1000))
		k.same(event("task-finished", id))
		k.answeredTo(k.Received())
	}
	k.Begin(Leg{})
	task("1")
	if resent := k.die(); len(resent) != 0 || len(k.resent) != 0 {
		t.Errorf("resent of a task that is done: %+v, %+v", resent, k.resent)
	}
	task("2")
	task("3")
	if e := k.come(frame.Text, `{"header":{"action":"run-task"}}`); k.Whole() != "" || e.Kind != EntryConfiguration {
		t.Errorf("%+v: %s", e, k.Whole())
	}
	k.client(frame.Text, finishTask("4"))
	if k.client(frame.Binary, "aa"); k.Whole() == "" {
		t.Error("two tasks at a time can be taken over")
	}
}

// A client of FunASR's realtime server may do one recording after the other, whichever servers do them. Each has its own clock; settings stay.
func TestTrackerTurns(t *testing.T) {
	for _, moves := range []bool{false, true} {
		k := track(t, "profiles: {p: {from: funasr-realtime}}")
		sentence := func(begin, end int) string { return fmt.Sprintf(`{"sentences":[{"start":%d,"end":%d}]}`, begin, end) }
		k.Begin(Leg{})
		k.client(frame.Text, "HOTWORDS:one")
		k.same(`{"event":"hotwords_set"}`)
		for _, c := range []struct{ start, stop string }{{"START", "STOP"}, {"start", "stop"}} {
			k.client(frame.Text, c.start)
			k.same(`{"event":"started"}`)
			k.client(frame.Binary, strings.Repeat("a", 32000))
			k.same(sentence(0, 500))
			if moves {
				k.die()
				k.server(`{"event":"started"}`, "")
				k.server(`{"event":"hotwords_set"}`, "")
				k.server(sentence(0, 500), `{"sentences":[{"start":0,"end":500},{"start":500,"end":1000}]}`)
			}
			k.client(frame.Text, c.stop)
			k.same(`{"event":"stopped"}`)
			if k.answeredTo(k.Received()); k.Whole() != "" {
				t.Fatal(k.Whole())
			}
		}
		k.die()
		k.server(`{"event":"started"}`, "")
		k.server(`{"event":"hotwords_set"}`, "")
		k.client(frame.Text, "START")
		k.same(`{"event":"started"}`)
		k.client(frame.Text, "HOTWORDS:two")
		k.same(`{"event":"hotwords_set"}`)
	}
}

// A server that replies to each message owes replies also where they say themselves what they answer, and to what the client has had from another one.
func TestTrackerRepliesWithTimes(t *testing.T) {
	k := track(t, `profiles: {p: {reuse: lockstep, stateless: true, failover: {verdict: visible, why: x, stall: replies,
		audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}, configure: {messages: {json: {type: start}}}, hide: {messages: {json: {type: ready}}},
		answered: {messages: {json: {text: "*"}}, by: time, times: end, unit: s}, partial: {json: {partial: "*"}}}}}`)
	second := strings.Repeat("a", 32000)
	owes := func(n int, behind time.Duration) {
		t.Helper()
		if got, _, ok := k.Behind(); k.Unanswered() != n || got != behind || !ok {
			t.Errorf("%d replies are owed, the oldest for what was said %v ago, %v; want %d, %v", k.Unanswered(), got, ok, n, behind)
		}
	}
	hears := func(message, want string) {
		t.Helper()
		if j := k.server(message, want); !j.Sign {
			t.Errorf("%s is no sign that the server works", message)
		}
	}
	k.Begin(Leg{})
	k.client(frame.Text, `{"type":"start"}`)
	hears(`{"type":"ready"}`, `{"type":"ready"}`)
	for range 3 {
		k.client(frame.Binary, second)
	}
	owes(3, 2*time.Second)
	hears(`{"partial":"a"}`, `{"partial":"a"}`)
	hears(`{"text":"a","end":1.5}`, `{"text":"a","end":1.5}`)
	owes(1, 0)
	k.answeredTo(48000)
	if resent := k.die(); len(resent) != 2 {
		t.Errorf("resent: %+v", resent)
	}
	owes(3, 1500*time.Millisecond)
	hears(`{"type":"ready"}`, "")
	hears(`{"partial":"b"}`, `{"partial":"b"}`)
	hears(`{"text":"b","end":1.0}`, `{"text":"b","end":1.0}`)
	owes(0, 0)
	if j := k.same(`{"partial":"c"}`); !j.Sign || k.Unanswered() != 0 || k.Whole() != "" {
		t.Errorf("%+v, %d replies are owed, %q", j, k.Unanswered(), k.Whole())
	}
}

// A client that has had one kind of message from a server gets another kind from the next one.
func TestHiddenKinds(t *testing.T) {
	for _, c := range []struct{ profile, first, second string }{
		{"whisperlive", `{"uid":"u","message":"SERVER_READY"}`, `{"uid":"u","language":"en"}`},
		{"realtimestt", `{"type":"hello"}`, `{"type":"ready"}`},
	} {
		k := track(t, "profiles: {p: {from: "+c.profile+"}}")
		k.Begin(Leg{})
		k.client(frame.Text, `{"uid":"u"}`)
		k.same(c.first)
		k.die()
		k.server(c.first, "")
		k.same(c.second)
		k.die()
		k.server(c.first, "")
		k.server(c.second, "")
	}
}

// A server's answer to what the client says after a move is no greeting.
func TestUpdatedAfterMove(t *testing.T) {
	const update, updated = `{"type":"session.update"}`, `{"type":"session.updated"}`
	k := track(t, "profiles: {p: {from: nvidia-realtime}}")
	k.Begin(Leg{})
	k.same(`{"type":"session.created"}`)
	k.client(frame.Text, update)
	k.same(updated)
	k.die()
	k.server(`{"type":"session.created"}`, "")
	k.server(updated, "")
	k.client(frame.Text, update)
	k.same(updated)
}

// The answer to a request that was sent again is no answer to the client's end message.
func TestTrackerAcknowledgements(t *testing.T) {
	const listening = `{"state":"listening"}`
	k := track(t, "profiles: {p: {from: watson}}")
	k.Begin(Leg{})
	k.client(frame.Text, `{"action":"start","content-type":"audio/l16;rate=8000"}`)
	k.same(listening)
	k.client(frame.Binary, strings.Repeat("a", 16000))
	k.client(frame.Text, `{"action":"stop"}`)
	k.die()
	k.server(listening, "")
	if k.answeredTo(0); len(k.configuration) != 1 {
		t.Errorf("configuration: %+v", k.configuration)
	}
	k.same(listening)
	k.answeredTo(16000)
	if k.LastWord(frame.InternalError) || !k.LastWord(frame.PolicyViolation) {
		t.Error("wrong last word")
	}
}

// An end message that its own answer names is not sent again, although it is the client's last: nothing of the session is open then.
func TestTrackerEndAnswered(t *testing.T) {
	for _, c := range []struct {
		profile      string
		says         []string
		end          string
		before, last string // what the server answers
	}{
		{
			"vllm-realtime",
			[]string{`{"type":"session.update"}`, `{"type":"input_audio_buffer.commit"}`, `{"type":"input_audio_buffer.append","audio":"aaaa"}`},
			`{"type":"input_audio_buffer.commit","final":true}`, `{"type":"transcription.delta","delta":"one"}`, `{"type":"transcription.done","text":"one"}`,
		},
		{"realtimestt", []string{`{"type":"start"}`, "\x00\x00\x00\x00"}, `{"type":"finalize"}`, `{"type":"final","text":"one"}`, `{"type":"completion"}`},
	} {
		k := track(t, "profiles: {p: {from: "+c.profile+"}}")
		k.Begin(Leg{})
		for _, message := range c.says {
			k.client(op(message), message)
		}
		end := k.client(frame.Text, c.end)
		if j := k.same(c.before); j.Answer || k.Done(end) {
			t.Errorf("%s: a session may leave its server before %s", c.profile, c.last)
		}
		if j := k.same(c.last); !j.Answer || !k.Done(end) {
			t.Errorf("%s: %s does not answer the end message", c.profile, c.last)
		}
		if resent := k.die(); len(resent) != 0 {
			t.Errorf("%s: %+v are sent again", c.profile, resent)
		}
	}
}

// The end message is sent again if another answer than its own covers all audio.
func TestTrackerEndNotAnswered(t *testing.T) {
	k := track(t, strings.Replace(timed, "answered: [", "answered: [{messages: {json: {type: done}}, by: marker, marker: {text: END}}, ", 1)+"    end: {client: {text: END}, server: stays}\n")
	k.Begin(Leg{})
	k.client(frame.Binary, strings.Repeat("a", 32000))
	end := k.client(frame.Text, "END")
	if k.same(`{"n":0,"start":0.00,"duration":1.00,"final":true}`); k.Done(end) {
		t.Error("a final result of all audio answers the end message")
	}
}

// All audio but a margin is answered when an utterance ends.
func TestTrackerUtterance(t *testing.T) {
	k := track(t, "profiles: {p: {from: funasr}}")
	k.Begin(Leg{})
	k.client(frame.Text, `{"mode":"2pass","chunk_size":[5,10,5]}`)
	k.client(frame.Text, `{"hotwords":"a","chunk_size":[6]}`)
	audio := strings.Repeat("a", 32000)
	k.client(frame.Binary, audio)
	k.same(`{"mode":"2pass-online","text":"a"}`)
	if j := k.same(`{"mode":"2pass-offline","text":"a"}`); !j.Final || !j.Sign {
		t.Errorf("%+v", j)
	}
	k.answeredTo(32000 - 25600)
	k.Begin(Leg{From: k.Answered()})
	for op, payload := range k.Configuration() {
		if op != frame.Text || string(payload) != `{"mode":"2pass","chunk_size":[6],"hotwords":"a"}` {
			t.Errorf("%v %s", op, payload)
		}
	}
	k.server(`{"mode":"2pass-online","text":"a"}`, "")
	k.CaughtUp()
	k.same(`{"mode":"2pass-online","text":"b"}`)
}

// Audio is answered up to the time in a result, less a margin where the times are late.
func TestTrackerLateTimes(t *testing.T) {
	k := track(t, `profiles: {p: {from: vosk, failover: {answered: {messages: {json: {text: "*"}}, by: time, times: end, unit: s, margin: 500ms}}}}`)
	k.Begin(Leg{})
	k.client(frame.Binary, strings.Repeat("a", 32000))
	k.same(`{"text":"a","end":0.4}`)
	k.answeredTo(0)
	k.same(`{"text":"b","end":1.5}`)
	k.answeredTo(16000)
}

// The former server's final results stay before what another one says, in a list of the length that clients know.
func TestTrackerPrepends(t *testing.T) {
	k := track(t, "profiles: {p: {from: whisperlive, failover: {prepend: {most: 3}}}}")
	k.Begin(Leg{})
	k.client(frame.Text, `{"uid":"u"}`)
	k.same(`{"uid":"u","message":"SERVER_READY"}`)
	k.client(frame.Binary, strings.Repeat("a", 4*64000))
	k.same(`{"uid":"u", "segments": [ {"start":"0.000","end":"1.500","completed":true} , {"start":"1.500","end":"2.000","completed":false}]}`)
	k.answeredTo(96000)
	k.same(`{"uid":"u","segments":[{"start":"1.500","end":"2.100","completed":false}]}`)
	k.answeredTo(96000)
	k.same(`{"segments":[{"start":"0.000","end":"1.500","completed":true},{"start":"1.500","end":"2.100","completed":true}]}`)
	k.die()
	k.server(`{"uid":"u","message":"SERVER_READY"}`, "")
	k.server(`{"segments":[]}`, `{"segments":[{"start":"0.000","end":"1.500","completed":true},{"start":"1.500","end":"2.100","completed":true}]}`)
	k.server(`{"segments":[{"start":"0.000","end":"0.900","completed":true},{"start":"0.900","end":"1.000","completed":false}] }`,
		`{"segments":[{"start":"1.500","end":"2.100","completed":true},{"start":"2.100","end":"3.000","completed":true},{"start":"3.000","end":"3.100","completed":false}] }`)
	k.answeredTo(192000)
	k.die()
	k.server(`{"segments":[{"start":"0.000","end":"0.500","completed":false}]}`,
		`{"segments":[{"start":"1.500","end":"2.100","completed":true},{"start":"2.100","end":"3.000","completed":true},{"start":"3.000","end":"3.500","completed":false}]}`)
}

// Times of a connection that served sessions before are those of a new one.
func TestTrackerContinues(t *testing.T) {
	k := track(t, "profiles: {p: {from: vosk}}")
	k.Begin(Leg{Heard: 16000}) // a second
	k.client(frame.Binary, strings.Repeat("a", 1600))
	k.server(`{"result" : [{"conf" : 1.000000,"end" : 1.050000,"start" : 1.010000,"word" : "a"}],"text" : "a"}`,
		`{"result" : [{"conf" : 1.000000,"end" : 0.050000,"start" : 0.010000,"word" : "a"}],"text" : "a"}`)
	if k.Heard() != 1600 {
		t.Errorf("heard: %d", k.Heard())
	}
	k.die() // on a new connection
	k.client(frame.Binary, strings.Repeat("a", 1600))
	k.server(`{"result" : [{"end" : 0.050000}],"text" : "a"}`, `{"result" : [{"end" : 0.150000}],"text" : "a"}`)
}

// A server that dies before it greets leaves the greeting to the next one. What that one says later in the same words is no greeting.
func TestTrackerGreetedLate(t *testing.T) {
	s := track(t, "profiles: {p: {from: watson}}")
	s.Begin(Leg{})
	s.client(frame.Text, `{"action": "start", "content-type": "audio/l16;rate=16000", "timestamps": true}`)
	s.die()
	s.same(`{"state": "listening"}`)
	s.client(frame.Binary, "audio")
	s.client(frame.Text, `{"action": "stop"}`)
	s.same(`{"state": "listening"}`)
}

// Settings stay for a connection's later requests, and each start is answered once.
func TestTrackerRequests(t *testing.T) {
	const start, stop, listening = `{"action":"start","content-type":"audio/l16;rate=16000","timestamps":true}`, `{"action":"stop"}`, `{"state":"listening"}`
	for _, again := range []bool{false, true} {
		k := track(t, "profiles: {p: {from: watson}}")
		k.Begin(Leg{})
		k.client(frame.Text, start)
		k.same(listening)
		for range 2 {
			k.client(frame.Binary, "audio!")
			k.client(frame.Text, stop)
			k.same(listening)
			if again {
				k.client(frame.Text, start)
			}
			k.client(frame.Binary, "more audio")
			k.die()
			n := 0
			for _, payload := range k.Configuration() {
				if n++; string(payload) != start {
					t.Errorf("configured with %s", payload)
				}
			}
			if n != 1 || k.Whole() != "" {
				t.Fatalf("%d messages configure the next server; %q", n, k.Whole())
			}
			if again {
				k.same(listening)
			} else {
				k.server(listening, "")
			}
			k.die()
			k.server(listening, "")
		}
	}
}

// What Encode writes, DecodeEntry reads: each field, at its limits too.
func TestEntryEncoding(t *testing.T) {
	if n := reflect.TypeFor[Entry]().NumField(); n != 7 {
		t.Errorf("an entry has %d fields: encode the new one, and draw it below", n)
	}
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{
			Kind:   EntryKind(rapid.IntRange(int(EntryOther), int(EntryEnd)).Draw(t, "kind")),
			marks:  rapid.Bool().Draw(t, "marks"),
			number: rapid.Uint32().Draw(t, "number"),
			From:   Position(rapid.Int64Range(0, maxEntryTo-maxEntryAudio).Draw(t, "from")),
		}
		e.replied, e.counted = rapid.Bool().Draw(t, "replied"), rapid.Bool().Draw(t, "counted")
		e.To = e.From + Position(rapid.Int64Range(0, maxEntryAudio).Draw(t, "audio"))
		var b [EntrySize]byte
		e.Encode(b[:])
		if got := DecodeEntry(b[:]); got != e {
			t.Fatalf("got %+v, expected %+v", got, e)
		}
	})
	for _, e := range []Entry{{From: 1}, {To: maxEntryAudio + 1}, {From: -1, To: 1}, {From: maxEntryTo, To: maxEntryTo + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was encoded", e)
				}
			}()
			e.Encode(make([]byte, EntrySize))
		}()
	}
}

// A session with more audio than an entry can say is not taken over.
func TestTooMuchAudio(t *testing.T) {
	p, err := Named("vosk")
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]Position{"in all": maxEntryTo - 99, "in one message": 0} {
		tracker := NewTracker(p, "")
		tracker.received = before
		size := 100
		if before == 0 {
			size = maxEntryAudio + 1
		}
		e := tracker.ClientMessage(frame.Binary, nil, size)
		if tracker.Whole() != "the client sent too much audio" || e.Kind != EntryOther {
			t.Errorf("%s: %q, %+v", name, tracker.Whole(), e)
		}
		e.Encode(make([]byte, EntrySize))
	}
}

// What a server says before it ends a session at an age is not its last word, whatever else matches it; another leg knows nothing of it.
func TestGoAway(t *testing.T) {
	for name, says := range map[string]string{
		"openai-realtime": `{"type":"error","event_id":"1","error":{"type":"invalid_request_error","code":"session_expired","message":"..."}}`,
		"soniox":          `{"tokens":[],"error_code":503,"error_message":"Cannot continue request (code 1). Please restart the request."}`,
		"assemblyai":      `{"type":"Error","error_code":3008,"error":"Session Expired: Maximum session duration exceeded"}`,
		"whisperlive":     `{"uid":"u","message":"DISCONNECT"}`,
	} {
		k := NewTracker(mustParse(t, "profiles: {p: {from: "+name+"}}"), "intent=transcription")
		k.Begin(Leg{})
		if j := k.ServerMessage(frame.Text, []byte(`{"type":"other"}`)); j.GoAway {
			t.Errorf("%s: any message says that the session ends", name)
		}
		if !k.LastWord(3008) {
			t.Errorf("%s: a close with 3008 is not the last word", name)
		}
		if j := k.ServerMessage(frame.Text, []byte(says)); !j.GoAway || !j.Pass {
			t.Errorf("%s: %+v", name, j)
		}
		for _, code := range []frame.CloseCode{frame.NormalClosure, frame.GoingAway, 3008} {
			if k.LastWord(code) {
				t.Errorf("%s: a close with %v is the last word after that", name, code)
			}
		}
		k.Begin(Leg{})
		if !k.LastWord(3008) {
			t.Errorf("%s: what one server has said holds for the next", name)
		}
	}
	k := NewTracker(mustParse(t, "profiles: {p: {from: soniox}}"), "")
	k.Begin(Leg{})
	if j := k.ServerMessage(frame.Text, []byte(`{"tokens":[],"error_code":400,"error_message":"..."}`)); j.GoAway || !k.LastWord(frame.NormalClosure) {
		t.Errorf("another error: %+v", j)
	}
}
