package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The answer's layout is the real server's, which some clients take apart by hand.
func TestVoskLayout(t *testing.T) {
	d := newVoskDialogue()
	pcm := tone(sound{100 * ms, 0}, sound{200 * ms, 9000})
	got := string(answerOf(d, frame.Binary, pcm).payload)
	if want := "{\n  \"partial\" : \"speech-200ms-14dB\"\n}"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	got = string(answerOf(d, frame.Text, []byte(voskReset)).payload)
	want := `{
  "result" : [{
      "conf" : 1.000000,
      "end" : 0.100000,
      "start" : 0.100000,
      "word" : "utterance-1"
    }, {
      "conf" : 1.000000,
      "end" : 0.300000,
      "start" : 0.100000,
      "word" : "speech-200ms-14dB"
    }, {
      "conf" : 1.000000,
      "end" : 0.300000,
      "start" : 0.300000,
      "word" : "heard-300ms-SUM"
    }],
  "text" : "utterance-1 speech-200ms-14dB heard-300ms-SUM"
}`
	if sum := fmt.Sprintf("%08x", newSum(pcm)); strings.ReplaceAll(got, sum, "SUM") != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// The clock keeps running over resets; the words begin anew.
func TestVoskTimesGoOn(t *testing.T) {
	d := newVoskDialogue()
	times := func(r reply) (list string) {
		var said struct {
			Result []struct {
				Start, End float64
				Word       string
			}
		}
		if err := json.Unmarshal(r.payload, &said); err != nil {
			t.Fatal(err)
		}
		for _, w := range said.Result {
			word, _, _ := strings.Cut(w.Word, "-")
			list += fmt.Sprintf("%s %.2f %.2f ", word, w.Start, w.End)
		}
		return list
	}
	audio := tone(sound{100 * ms, 0}, sound{200 * ms, 9000})
	for _, want := range []string{
		"utterance 0.10 0.10 speech 0.10 0.30 heard 0.30 0.30 ",
		"utterance 0.40 0.40 speech 0.40 0.60 heard 0.60 0.60 ",
	} {
		answerOf(d, frame.Binary, audio)
		r := answerOf(d, frame.Text, []byte(voskReset))
		if got := times(r); got != want || !strings.Contains(string(r.payload), `"utterance-1"`) {
			t.Errorf("got %s; want %s", got, want)
		}
	}
	marked := func(seq uint16) []byte { return AppendMark(nil, Mark{Session: 7, Seq: seq, Pause: true}, 200) } // 100 ms
	if got := times(answerOf(d, frame.Binary, marked(1))); !strings.Contains(got, "s7:1 0.60 0.70 ") {
		t.Errorf("marks: got %s", got)
	}
	if got := times(answerOf(d, frame.Binary, marked(2))); !strings.Contains(got, "s7:2 0.70 0.80 ") {
		t.Errorf("marks of the next utterance: got %s", got)
	}
}

func TestVoskDialogue(t *testing.T) {
	speech := string(tone(sound{200 * ms, 9000}))
	pause := string(tone(sound{500 * ms, 0}))
	const spoken = "text: utterance-1 speech-200ms-14dB"
	type step struct{ say, want string } // what begins with { is text, all else audio
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"eof before audio", []step{{voskEOF, "text: , close 1000"}}},
		{"reset before audio", []step{{voskReset, "text: "}, {voskEOF, "text: , close 1000"}}},
		{"no audio in a message", []step{{"", "partial: "}}},
		{"eof ends the utterance", []step{{speech, "partial: speech-200ms-14dB"}, {voskEOF, spoken + " heard-200ms, close 1000"}}},
		{"a pause ends the utterance", []step{{speech + pause, spoken + " heard-600ms"}, {pause, "partial: "}, {voskEOF, "text: , close 1000"}}},
		{"two utterances in a message", []step{{
			speech + pause + speech + pause,
			spoken + " heard-600ms utterance-2 speech-200ms-14dB heard-1300ms",
		}}},
		{"reset begins anew", []step{
			{speech, "partial: speech-200ms-14dB"},
			{voskReset, spoken + " heard-200ms"},
			{pause, "partial: "},
			{speech, "partial: speech-200ms-14dB"},
			{voskReset, spoken + " heard-700ms"},
			{voskReset, "text: "},
		}},
		{"a configuration has no answer", []step{{`{"config" : {"sample_rate" : 8000}}`, ""}, {speech, "partial: speech-400ms-14dB"}}},
		{"a later configuration is ignored", []step{
			{"", "partial: "},
			{`{"config" : {"sample_rate" : 8000}}`, ""},
			{speech, "partial: speech-200ms-14dB"},
		}},
		{"the sample rate survives a reset", []step{
			{`{"config" : {"sample_rate" : 8000}}`, ""},
			{voskReset, "text: "},
			{`{"config" : {"sample_rate" : 16000}}`, ""},
			{speech, "partial: speech-400ms-14dB"},
		}},
		{"other blanks in a command", []step{{`{"eof":1}`, "close 1011"}}},
		{"a command as binary is audio", []step{{"\x00" + voskEOF, "partial: "}}},
		{"unreadable configuration", []step{{`{"config" : `, "close 1011"}}},
		{"impossible sample rate", []step{{`{"config" : {"sample_rate" : 0}}`, "close 1011"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newVoskDialogue()
			for i, s := range test.steps {
				kind := frame.Binary
				if strings.HasPrefix(s.say, "{") {
					kind = frame.Text
				}
				if got := unsummed.ReplaceAllString(summary(t, answerOf(d, kind, []byte(s.say))), "$1"); got != s.want {
					t.Errorf("step %d: got %q; want %q", i, got, s.want)
				}
			}
		})
	}
}

func TestVoskWithoutWords(t *testing.T) {
	d := newVoskDialogue()
	answerOf(d, frame.Text, []byte(`{"config" : {"words" : false}}`))
	answerOf(d, frame.Binary, tone(sound{200 * ms, 9000}))
	if got := string(answerOf(d, frame.Text, []byte(voskEOF)).payload); strings.Contains(got, "result") {
		t.Errorf("got %s", got)
	}
}

// summary says in a line what a reply is.
func summary(t *testing.T, r reply) string {
	t.Helper()
	var parts []string
	if r.kind != frame.Continuation {
		parts = append(parts, line(t, string(r.payload)))
	}
	if r.closing != 0 {
		parts = append(parts, "close "+r.closing.String())
	}
	return strings.Join(parts, ", ")
}

// line says in a line what an answer of a Vosk server is.
func line(t *testing.T, answer string) string {
	t.Helper()
	var parsed struct{ Partial, Text *string }
	if err := json.Unmarshal([]byte(answer), &parsed); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	if parsed.Partial != nil {
		return "partial: " + *parsed.Partial
	}
	return "text: " + *parsed.Text
}

// stream sends audio in chunks, each after the answer to the last, and returns the answers with text in them: with the
// last, that to the ending command.
func stream(t *testing.T, c *websocket.Conn, pcm []byte, chunk int, end string) (finals []string) {
	t.Helper()
	take := func() {
		if l := line(t, hearText(t, c)); strings.HasPrefix(l, "text: ") && l != "text: " {
			finals = append(finals, strings.TrimPrefix(l, "text: "))
		}
	}
	for part := range slices.Chunk(pcm, chunk) {
		say(t, c, websocket.MessageBinary, part)
		take()
	}
	say(t, c, websocket.MessageText, []byte(end))
	take()
	return finals
}

// All chunk sizes give the same transcript, over connections that are used again as well as over fresh ones.
func TestVoskServer(t *testing.T) {
	pcm := recording(t)
	for name, o := range map[string]Options{
		"at once":      {Protocol: Vosk},
		"with latency": {Protocol: Vosk, Latency: 50 * time.Microsecond, Jitter: 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, o)
			want := stream(t, dial(t, s), pcm, 3200, voskEOF)
			if len(want) != 3 {
				t.Fatalf("%d utterances in the recording: %q", len(want), want)
			}
			reused := dial(t, s)
			for _, chunk := range []int{640, 1024, 3200, 6400, 12000, len(pcm)} {
				once := dial(t, s)
				got := stream(t, once, pcm, chunk, voskEOF)
				again := stream(t, reused, pcm, chunk, voskReset)
				if chunk == len(pcm) { // then one answer has them all
					got, again = []string{strings.Join(got, " ")}, []string{strings.Join(again, " ")}
					want = []string{strings.Join(want, " ")}
				}
				if !slices.Equal(got, want) || !slices.Equal(again, want) {
					t.Errorf("chunks of %d: got %q, after resets %q; want %q", chunk, got, again, want)
				}
				_, _, err := once.Read(wstest.Context(t))
				if code := websocket.CloseStatus(err); code != websocket.StatusNormalClosure {
					t.Errorf("after eof: %v; want a close with 1000", err)
				}
			}
		})
	}
}

// Every message gets one answer, in order, however fast they come.
func TestVoskAnswersEachMessage(t *testing.T) {
	s := start(t, Options{Protocol: Vosk, Latency: time.Millisecond, Jitter: time.Millisecond})
	c := dial(t, s)
	const n = 300
	sent := make(chan error, 1)
	go func() {
		err := c.Write(wstest.Context(t), websocket.MessageText, []byte(`{"config" : {"sample_rate" : 16000}}`))
		for range n {
			err = errors.Join(err, c.Write(wstest.Context(t), websocket.MessageBinary, tone(sound{20 * ms, 9000})))
		}
		sent <- err
	}()
	for i := 1; i <= n; i++ {
		want := fmt.Sprintf("partial: speech-%dms-14dB", 20*i)
		if i == 1 {
			want = "partial: "
		}
		if got := line(t, hearText(t, c)); got != want {
			t.Fatalf("answer %d: %q; want %q", i, got, want)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// answerOf returns the one reply of a dialogue to a message; an empty one when there is none.
func answerOf(d dialogue, kind frame.Opcode, message []byte) reply {
	v := newVoice(NastyOptions{})
	d.hear(v, kind, message)
	v.misbehave()
	if len(v.said) == 0 {
		return reply{}
	}
	return v.said[0]
}

// newVoice returns a voice for a dialogue without a server.
func newVoice(n NastyOptions) *voice {
	return &voice{nasty: &n, dice: rand.New(rand.NewPCG(1, 2)), place: func() bool { return true }}
}

// Vosk's recogniser keeps audio that it has not decoded over a reset that comes right after an utterance has ended, and only
// then.
func TestVoskKeepsUndecodedAudio(t *testing.T) {
	s := start(t, Options{Protocol: Vosk})
	c := dial(t, s)
	converse(t, c, 7, `
		> audio 1 x30 pause x10
		< "text" : "(.* )?s7:1"
		> {"reset" : 1}
		< "text" : ""
	`)
	converse(t, c, 8, `
		> audio 1 x20
		< "partial" : "(.* )?s7:1 s8:1"
		> {"reset" : 1}
		< s7:1 s8:1
	`)
	converse(t, c, 9, `
		> audio 1 x20
		< "partial" : "s9:1"
	`)
}
