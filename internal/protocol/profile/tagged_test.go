package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

func runTask(id string) string {
	return fmt.Sprintf(`{"header":{"action":"run-task","task_id":%q}}`, id)
}

func finishTask(id string) string {
	return fmt.Sprintf(`{"header":{"action":"finish-task","task_id":%q}}`, id)
}

func event(name, id string) string {
	return fmt.Sprintf(`{"header":{"event":%q,"task_id":%q}}`, name, id)
}

// taskDone returns a connection that has served a session with one task.
func taskDone(t testing.TB, id string) *line {
	t.Helper()
	l := builtin(t, "dashscope")
	l.begin()
	l.client(frame.Text, runTask(id))
	l.client(frame.Binary, "audio")
	l.client(frame.Text, finishTask(id))
	l.server(event("task-finished", id))
	l.want("end", l.end(), Ready, NoReason)
	return l
}

// Only what bears the tag of one of the session's own tasks reaches it.
func TestTags(t *testing.T) {
	for _, c := range []struct {
		message string
		passes  bool
		reason  Reason // why no other session follows
	}{
		{event("result-generated", "2"), true, NoReason},
		{event("result-generated", "1"), false, NoReason},
		{event("result-generated", "3"), false, Unclean}, // a task that nobody has begun
		{`{"header":{"event":"result-generated"}}`, false, Unsolicited},
		{`{"header":{"event":"result-generated","task_id":"2","task_id":"1"}}`, false, Unsolicited},
		{`{"header":{"event":"result-generated","task_id":"\u0032"}}`, true, NoReason},
		{"not JSON", false, Unsolicited},
	} {
		l := taskDone(t, "1")
		l.begin()
		l.client(frame.Text, runTask("2"))
		l.passed = nil
		l.server(c.message)
		if passed := len(l.passed) == 1; passed != c.passes {
			t.Errorf("%s: passed: %v", c.message, passed)
		}
		l.client(frame.Text, finishTask("2"))
		l.server(event("task-finished", "2"))
		then := Broken
		if c.reason == NoReason {
			then = Ready
		}
		l.want(c.message, l.end(), then, c.reason)
	}
}

// What bears no tag may be the session's own or another's: it is neither shown nor dropped without a word, but ends the session.
func TestUntagged(t *testing.T) {
	for _, c := range []struct {
		op      frame.Opcode
		message string
	}{
		{frame.Binary, "audio"},
		{frame.Text, `{"header":{"event":"result-generated"}}`},
		{frame.Text, `{"header":{"event":"task-failed"}}`},
		{frame.Text, event("result-generated", "2") + strings.Repeat(" ", 1<<16)},
	} {
		l := taskDone(t, "1")
		l.begin()
		l.client(frame.Text, runTask("2"))
		l.passed = nil
		l.want(c.message[:5], l.message(FromServer, c.op, true, []string{c.message}), Foreign, Unsolicited)
		if len(l.passed) > 0 {
			t.Errorf("%.40s reaches the client", c.message)
		}

		// In the first session it can only be the session's own, and no other session must come after it.
		l = builtin(t, "dashscope")
		l.begin()
		l.client(frame.Text, runTask("1"))
		l.passed = nil
		l.want(c.message[:5], l.message(FromServer, c.op, true, []string{c.message}), Continue, NoReason)
		if len(l.passed) != 1 {
			t.Errorf("%.40s does not reach the client", c.message)
		}
		l.client(frame.Text, finishTask("1"))
		l.server(event("task-finished", "1"))
		if s := l.end(); s.Then != Broken {
			t.Errorf("%.40s: the connection is %v for the next session", c.message, s.Then)
		}
	}
}

// A long message in fragments, of which only the first was short enough to have its tag looked for, does not reach another session either.
func TestUntaggedInFragments(t *testing.T) {
	l := taskDone(t, "1")
	l.begin()
	l.client(frame.Text, runTask("2"))
	l.passed = nil
	l.want("of the former task", l.message(FromServer, frame.Text, true, []string{event("result-generated", "1"), strings.Repeat(" ", 1<<16)}), Foreign, Unsolicited)
	if len(l.passed) > 0 {
		t.Errorf("%.80q reaches the client", l.passed)
	}
}

// In a connection's first session, every message belongs to that session.
func TestTagsOfFirstSession(t *testing.T) {
	l := builtin(t, "dashscope")
	l.begin()
	l.client(frame.Text, runTask("1"))
	l.passed = nil
	for _, message := range []string{event("x", "2"), "not JSON"} {
		l.server(message)
	}
	if len(l.passed) != 2 {
		t.Errorf("passed: %q", l.passed)
	}
}

// A session with a tag of the former session's gets another connection, or, when it is too late for that, is its last.
func TestTagAgain(t *testing.T) {
	l := taskDone(t, "1")
	l.begin()
	l.want("first", l.client(frame.Text, runTask("1")), Elsewhere, OtherSettings)
	if o := l.b.Opening(); string(o.Payload) != runTask("1") || len(l.passed) > 0 {
		t.Errorf("opening: %+v; passed: %q", o, l.passed)
	}
	l.want("end", l.end(), Ready, NoReason)

	l.begin()
	l.client(frame.Text, runTask("2"))
	l.client(frame.Text, finishTask("2"))
	l.server(event("task-finished", "2"))
	l.want("too late", l.client(frame.Text, runTask("1")), Broken, OtherSettings)
}

// Tasks whose tags say too little prevent reuse.
func TestTasksUnclean(t *testing.T) {
	for _, c := range []struct {
		what string
		says []string
	}{
		{"the same twice at a time", []string{runTask("1"), runTask("1")}},
		{"no tag", []string{`{"header":{"action":"run-task"}}`}},
		{"a tag that is no text", []string{`{"header":{"action":"run-task","task_id":1}}`}},
		{"half a character", []string{`{"header":{"action":"run-task","task_id":"\ud800"}}`}},
		{"a text of no task", []string{`{}`}},
		{"a text behind a task's end", []string{runTask("1"), finishTask("1"), event("task-finished", "1"), finishTask("1")}},
		{"two tags", []string{`{"header":{"action":"run-task","task_id":"1","task_id":"2"}}`}},
		{"two actions", []string{`{"header":{"action":"x","action":"run-task","task_id":"1"}}`}},
	} {
		l := builtin(t, "dashscope")
		l.begin()
		for _, message := range c.says {
			if strings.Contains(message, `"event"`) {
				l.server(message)
			} else {
				l.client(frame.Text, message)
			}
		}
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			l.client(frame.Text, finishTask(id))
			l.server(event("task-finished", id))
		}
		l.want(c.what, l.end(), Broken, Unclean)
	}

	// One after the other, and the same again when it is done, is fine.
	l := builtin(t, "dashscope")
	l.begin()
	for i := range 7 {
		id := fmt.Sprint(i % 6)
		l.client(frame.Text, runTask(id))
		l.client(frame.Text, finishTask(id))
		l.server(event("task-finished", id))
	}
	l.want("one after the other", l.end(), Ready, NoReason)
}

// If a client leaves before its tasks are done, or sends something after its last one, the connection is Broken. If the profile says so,
// the boundary waits for the tasks instead.
func TestTaskLeftEarly(t *testing.T) {
	l := builtin(t, "dashscope")
	l.begin()
	l.client(frame.Text, runTask("1"))
	l.client(frame.Text, finishTask("1"))
	l.want("not done", l.end(), Leaving, LeftEarly)

	l = builtin(t, "dashscope")
	l.begin()
	l.client(frame.Text, runTask("1"))
	l.client(frame.Text, finishTask("1"))
	l.server(event("task-finished", "1"))
	l.client(frame.Binary, "audio")
	l.want("audio behind the end", l.end(), Broken, LeftEarly)

	p := mustParse(t, "profiles: {p: {from: dashscope, early: reset}}")
	l = idling(t, p)
	l.begin()
	l.client(frame.Text, runTask("1"))
	l.client(frame.Text, runTask("2"))
	l.want("reset", l.end(), Resetting, NoReason)
	for _, message := range []string{event("task-finished", "3"), event("task-finished", "1"), event("task-finished", "1")} {
		if l.want(message, l.server(message), Continue, NoReason); l.pass != Drop {
			t.Errorf("%s: %v", message, l.pass)
		}
	}
	l.want("the last one", l.server(event("task-finished", "2")), Ready, NoReason)
}

// After a failed task, the server closes the connection: no other session may get it.
func TestTaskFailed(t *testing.T) {
	for _, failure := range []string{event("task-failed", "1"), `{"header":{"event":"task-failed"}}`} {
		l := builtin(t, "dashscope")
		l.begin()
		l.client(frame.Text, runTask("1"))
		l.client(frame.Text, finishTask("1"))
		l.passed = nil
		if l.server(failure); len(l.passed) != 1 {
			t.Errorf("%s does not reach the client", failure)
		}
		l.server(event("task-finished", "1"))
		l.want(failure, l.end(), Broken, TaskFailed)

		l = idling(t, mustParse(t, "profiles: {p: {from: dashscope, early: reset}}"))
		l.begin()
		l.client(frame.Text, runTask("1"))
		l.end()
		l.want(failure+" while resetting", l.server(failure), Broken, TaskFailed)
	}
}

// What a client asks for twice, of a context that has ended or never was, or of one that has failed, is no debt of the server.
func TestAskedOfContexts(t *testing.T) {
	closing, final := `{"context_id":"1","close_context":true}`, `{"contextId":"1","isFinal":true}`
	text := `{"context_id":"1","text":"a"}`
	flush, end := `{"context_id":"1","transcript":"a","continue":true,"flush":true}`, `{"context_id":"1","transcript":"a","continue":false}`
	for _, c := range []struct {
		profile string
		said    []string // by the client, and by the server
		owed    int
	}{
		{"elevenlabs-tts", []string{text, closing}, 1},
		{"elevenlabs-tts", []string{text, closing, closing}, 1},
		{"elevenlabs-tts", []string{text, closing, closing, final}, 0},
		{"elevenlabs-tts", []string{text, closing, final, closing}, 0},
		{"elevenlabs-tts", []string{text, final, closing}, 0},
		{"elevenlabs-tts", []string{closing}, 0},
		{"elevenlabs-tts", []string{text, closing, `{"contextId":"2","isFinal":true}`}, 1},
		{"elevenlabs-tts", []string{text, closing, final, text, closing}, 1},
		{"cartesia", []string{flush, end}, 2},
		{"cartesia", []string{flush, end, `{"type":"flush_done","context_id":"1"}`}, 1},
		{"cartesia", []string{flush, end, doneIn("1")}, 0},
		{"cartesia", []string{flush, end, `{"type":"error","context_id":"1"}`}, 0},
		{"cartesia", []string{flush, `{"context_id":"2","transcript":"a","continue":false}`, `{"type":"error","context_id":"1"}`}, 1},
		{"cartesia", []string{flush, `{"context_id":"2","transcript":"a","continue":false}`, `{"type":"error"}`}, 0},
		{"cartesia", []string{flush, `{"type":"error"}`, flush}, 1},
		{"cartesia", []string{flush, `{"context_id":"1","cancel":true}`}, 0},
		{"cartesia", []string{flush, end, `{"context_id":"1","cancel":true}`}, 0},
	} {
		k := track(t, "profiles: {p: {from: "+c.profile+"}}")
		k.Begin(Leg{})
		for _, message := range c.said {
			if strings.Contains(message, `"type"`) || strings.Contains(message, `"contextId"`) {
				k.same(message)
			} else {
				k.client(frame.Text, message)
			}
		}
		if n := k.Unanswered(); n != c.owed {
			t.Errorf("%s: %q: the server owes %d answers, want %d", c.profile, c.said, n, c.owed)
		}
	}
}

// Where another server can continue a session, answers are to markers in their order, whatever contexts they belong to.
func TestAskedAndAnswered(t *testing.T) {
	k := track(t, `profiles: {p: {reuse: tagged, tag: {start: {json: {a: "*"}}, path: a, done: {json: {done: true}}}, end: {client: {text: bye}}, failover: {verdict: visible,
		why: it, audio: {messages: {opcode: binary}, encoding: u8, rate: 8000}, stall: asked, answered: {messages: {json: {b: "*"}}, by: marker, marker: {json: {c: "*"}}}}}}`)
	k.Begin(Leg{})
	k.client(frame.Text, `{"a":"1"}`)
	k.client(frame.Binary, "aaaa")
	if k.client(frame.Text, `{"a":"1","c":1}`); k.Unanswered() != 1 {
		t.Errorf("the server owes %d answers, want 1", k.Unanswered())
	}
	k.same(`{"a":"1","b":1}`)
	if k.answeredTo(4); k.Unanswered() != 0 || k.Whole() != "" {
		t.Errorf("the server owes %d answers, want 0: %q", k.Unanswered(), k.Whole())
	}
}

// A context is begun by the first message with its id, and continued by the others until its last message.
func TestContexts(t *testing.T) {
	say := func(id, text string) string { return fmt.Sprintf(`{"context_id":%q,"transcript":%q}`, id, text) }
	done := func(id string) string { return fmt.Sprintf(`{"type":"done","context_id":%q}`, id) }
	for _, c := range []struct {
		said []string // by the client, and by the server
		want Then
	}{
		{[]string{say("1", "a"), say("1", "b"), done("1")}, Ready},
		{[]string{say("1", "a"), say("2", "b"), say("1", "c"), done("1"), done("2")}, Ready},
		{[]string{say("1", "a"), say("2", "b"), say("1", "c"), done("1")}, Broken},
		{[]string{say("1", "a"), say("1", "b"), `{"context_id":"1","cancel":true}`}, Broken},
		{[]string{say("1", "a"), done("1"), say("1", "b")}, Broken},
		{[]string{say("1", "a"), done("1"), say("1", "b"), done("1")}, Ready},
		{[]string{say("1", "a"), `{"type":"error","context_id":"1"}`, done("1")}, Broken},
	} {
		l := builtin(t, "cartesia")
		l.begin()
		for _, message := range c.said {
			if strings.Contains(message, `"type"`) {
				l.server(message)
			} else {
				l.client(frame.Text, message)
			}
		}
		if s := l.end(); s.Then != c.want {
			t.Errorf("%q: %v, want %v", c.said, s.Then, c.want)
		}
	}
}
