package profile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// says returns what a Step sends.
func says(s Step) (texts []string) {
	for i := range s.Send {
		texts = append(texts, string(s.Send[i].Append(nil, testToken)))
	}
	return texts
}

// A server whose client has left in the middle gets the profile's leave message, and its last word is awaited.
func TestLeave(t *testing.T) {
	l := builtin(t, "sherpa-onnx") // one-shot, since it has a doubt
	l.begin()
	l.client(frame.Binary, "audio")
	l.server(`{"text":"a"}`)
	if !l.b.Leaves(l.traffic) || l.b.Ended() {
		t.Error("the client is not in the middle")
	}
	l.beginServerMessage(`{"text":`)
	s := l.end()
	l.want("end", s, Leaving, Served)
	if got := says(s); !slices.Equal(got, []string{"Done"}) || s.Timer != 5*time.Second {
		t.Errorf("sends %q, timer %v", got, s.Timer)
	}
	for _, rest := range []func(...string) Step{l.endServerMessage, l.server} {
		if l.want("a result", rest(`"Done!"}`), Continue, NoReason); l.pass != Drop {
			t.Errorf("a result: %v", l.pass)
		}
	}
	l.want("the last word", l.server("Done!"), Broken, Left)

	l = builtin(t, "sherpa-onnx")
	l.begin()
	l.client(frame.Binary, "audio")
	l.end()
	l.want("no last word", l.b.Timer(true), Broken, LeaveTimeout)
	l = builtin(t, "sherpa-onnx")
	l.begin()
	l.client(frame.Binary, "audio")
	l.want("end", l.end(), Leaving, Served)
	l.want("without the wait", l.end(), Broken, Served)
}

// A session that has ended, that has not begun, or that cannot be ended in order, ends as before.
func TestNoLeave(t *testing.T) {
	for name, c := range map[string]struct {
		profile string
		play    func(l *line)
		then    Then
		reason  Reason
	}{
		"the client has sent nothing":  {"sherpa-onnx", func(*line) {}, Broken, Served},
		"the client was cut off":       {"sherpa-onnx", func(l *line) { l.traffic.Sent, l.traffic.SendingMessage = 3, true }, Broken, Cut},
		"the server has said its last": {"sherpa-onnx", func(l *line) { l.client(frame.Text, "Done"); l.server("x"); l.server("Done!") }, Broken, Served},
		"the server has closed":        {"sherpa-onnx", func(l *line) { l.client(frame.Text, "a"); l.b.Closed(1000) }, Broken, Served},
		"the server is not ready":      {"speechmatics", func(l *line) { l.client(frame.Text, "{}") }, Broken, Served},
		"the profile knows no end":     {"kyutai", func(l *line) { l.client(frame.Text, "a") }, Broken, Served},
		"the reset ends the session":   {"vosk", func(l *line) { l.client(frame.Binary, "a"); l.server("{}") }, Resetting, NoReason},
		"no task is open":              {"dashscope", func(l *line) { l.client(frame.Text, "{}") }, Broken, Unclean},
		"its last word, and then more": {"sherpa-onnx", func(l *line) { l.client(frame.Text, "Done"); l.server("Done!"); l.client(frame.Binary, "a") }, Leaving, Served},
		"an unexpected last word":      {"sherpa-onnx", func(l *line) { l.client(frame.Binary, "a"); l.server("Done!") }, Leaving, Served},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Named(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			l, s := dialed(t, p)
			if s.Then != Ready {
				l.message(FromServer, frame.Binary, true, []string{"ready"})
			}
			l.begin()
			c.play(l)
			if got := l.b.Leaves(l.traffic); got != (c.then == Leaving) {
				t.Errorf("leaves: %v", got)
			}
			l.want("end", l.end(), c.then, c.reason)
		})
	}
}

// For a client that has sent its end message and vanishes, the proxy sends nothing, but the server's last word is awaited.
func TestLeaveBehindTheEnd(t *testing.T) {
	l := builtin(t, "sherpa-onnx")
	l.begin()
	l.client(frame.Binary, "audio")
	l.client(frame.Text, "Done")
	if !l.b.Ended() || !l.b.Leaves(l.traffic) {
		t.Error("the client has not ended, or the server owes nothing")
	}
	s := l.end()
	if l.want("end", s, Leaving, Served); len(s.Send) > 0 {
		t.Errorf("sends %q", says(s))
	}
	l.want("the last word", l.server("Done!"), Broken, Left)
}

// The number of binary messages is right, whatever else the client has sent.
func TestLeaveCounts(t *testing.T) {
	l := builtin(t, "speechmatics")
	l.begin()
	l.client(frame.Text, `{"message":"StartRecognition"}`)
	l.server(`{"message":"RecognitionStarted"}`)
	for range 3 {
		l.client(frame.Binary, "au", "dio")
		l.client(frame.Text, `{"message":"SetRecognitionConfig"}`)
	}
	if got, want := says(l.end()), []string{`{"message": "EndOfStream", "last_seq_no": 3}`}; !slices.Equal(got, want) {
		t.Errorf("sends %q; want %q", got, want)
	}
}

// Each open task is ended by its own id, and awaited.
func TestLeaveTasks(t *testing.T) {
	for _, reuse := range []string{"tagged", "one-shot"} {
		l := idling(t, mustParse(t, "profiles: {p: {from: dashscope, reuse: "+reuse+"}}"))
		l.begin()
		for _, id := range []string{"1", "b"} {
			l.client(frame.Text, runTask(id))
		}
		l.client(frame.Binary, "audio")
		got := says(l.end())
		if len(got) != 2 || !strings.Contains(got[0], `"task_id": "1"`) || !strings.Contains(got[1], `"task_id": "b"`) {
			t.Fatalf("%s: sends %q", reuse, got)
		}
		l.want("one result", l.server(event("result-generated", "1")), Continue, NoReason)
		l.want("one is done", l.server(event("task-finished", "1")), Continue, NoReason)
		l.want("both are", l.server(event("task-finished", "b")), Broken, Left)
	}
}

// Long messages are not read for the sake of an orderly end only: audio may be text.
func TestLeaveReadsNoAudio(t *testing.T) {
	l, _ := dialed(t, mustNamed(t, "vllm-realtime"))
	l.server(`{"type":"session.created"}`)
	l.begin()
	for length, want := range map[int64]bool{maxEndMessage: true, maxEndMessage + 1: false} {
		if s := l.b.Frame(FromClient, frame.Text, length, true); s.Feed != want {
			t.Errorf("%d bytes: read %v; want %v", length, s.Feed, want)
		}
	}
	if l.b.Inspect(FromServer)&(1<<frame.Text) != 0 {
		t.Error("the server's messages are read before the client's end")
	}
}

func mustNamed(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a profile says about leaving must make sense.
func TestLeaveRefused(t *testing.T) {
	for yaml, want := range map[string]string{
		"leave: {until: close, timeout: 1s}":                  "t.yaml:1:23: leave needs a message: set leave: {send: ...}",
		"leave: {until: {text: x}}":                           "leave needs a message",
		"end: {client: {text: x}}, leave: {send: x}":          "leave.until: close waits for the server's close, but by end.server the connection stays open",
		"leave: {send: x$tag}":                                "$tag in leave.send stands for a task's id: set tag",
		"from: dashscope, leave: {send: x, until: {text: a}}": "with reuse: tagged, leave.send ends a task: use $tag in it",
		"leave: {send: x, timeout: 0}":                        "leave.timeout is 0: use a duration such as 5s",
		"leave: {send: x$token}":                              "$token stands for a number that is sent with the reset",
		"leave: {send: x, until: {text: $token}}":             "$token stands for a number that is sent with the reset",
		"leave: {send: x, untill: close}":                     `unknown key "untill": did you mean "until"?`,
		"leave: {send: x, until: {count: 2}}":                 `unknown key "count"`,
		"leave: {send: x, until: {close: 1000}}":              `unknown key "close"`,
		"leave: 5s":                                           "expected a mapping with the keys send, until, timeout",
	} {
		_, err := Parse("t.yaml", []byte("profiles: {p: {"+yaml+"}}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", yaml, err, want)
		}
	}
	for _, yaml := range []string{"leave: none", "from: deepgram, leave: none", "leave: {send: x}", "from: sherpa-onnx, leave: {timeout: 1s}"} {
		p := mustParse(t, "profiles: {p: {"+yaml+"}}")
		if again := mustParse(t, string(p.YAML())); string(again.YAML()) != string(p.YAML()) {
			t.Errorf("%s: printed again: %s", yaml, again.YAML())
		}
	}
}
