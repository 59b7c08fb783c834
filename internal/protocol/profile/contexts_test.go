package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// sayIn is a client's message of a context, and doneIn the server's last one.
func sayIn(id, text string) string { return fmt.Sprintf(`{"context_id":%q,"transcript":%q}`, id, text) }
func doneIn(id string) string      { return fmt.Sprintf(`{"type":"done","context_id":%q}`, id) }

// speakIn has a session say something in each of these contexts, one after the other, and returns how many messages have reached its client.
func (l *line) speakIn(ids ...string) (reached int) {
	for _, id := range ids {
		l.client(frame.Text, sayIn(id, "a"))
		before := len(l.passed)
		l.server(doneIn(id))
		reached += len(l.passed) - before
	}
	return reached
}

// spoken returns a connection that has served a session with these contexts.
func spoken(t *testing.T, ids ...string) *line {
	t.Helper()
	l := builtin(t, "cartesia")
	l.begin()
	l.speakIn(ids...)
	l.want("end", l.end(), Ready, NoReason)
	return l
}

// What a client says without the id of one of its contexts may begin something on the server of which the boundary knows nothing, such as the
// default context of elevenlabs-tts, whose text the next client would hear.
func TestStrayMessages(t *testing.T) {
	for _, c := range []struct {
		profile string
		op      frame.Opcode
		message string
	}{
		{"elevenlabs-tts", frame.Text, `{"text":"secret "}`},
		{"elevenlabs-tts", frame.Text, `{"close_socket":true}`},
		{"elevenlabs-tts", frame.Text, `{"context_id":"2","voice_settings":{}}`},
		{"elevenlabs-tts", frame.Binary, `{"context_id":"2","text":"secret "}`},
		{"cartesia", frame.Text, `{"Context_Id":"2","Transcript":"secret"}`},
		{"cartesia", frame.Text, `{"context":{"context_id":"2"},"transcript":"secret"}`},
		{"cartesia", frame.Text, `{"context_id":"2","cancel":true}`},
		{"cartesia", frame.Text, `{}`},
		{"cartesia", frame.Text, `x`},
		{"cartesia", frame.Binary, sayIn("2", "secret")},
		{"cartesia", frame.Binary, strings.Repeat("x", 2<<20)},
	} {
		l := builtin(t, c.profile)
		l.begin()
		l.client(c.op, c.message)
		l.want(c.profile+": "+c.message[:1], l.end(), Broken, Unclean)
	}

	// What comes for a context that has ended may begin it again.
	l := builtin(t, "cartesia")
	l.begin()
	l.speakIn("1")
	l.client(frame.Text, `{"context_id":"1","continue":true}`)
	l.want("behind the end", l.end(), Broken, Unclean)

	// An answer in a context of which the boundary knows nothing: it has not seen that one begin.
	l = builtin(t, "cartesia")
	l.begin()
	l.client(frame.Text, sayIn("1", "a"))
	l.server(doneIn("2"))
	l.server(doneIn("1"))
	l.want("another context", l.end(), Broken, Unclean)
}

// On a used connection, a session that does not begin with the id of a new context would get no answer: it gets another connection.
func TestStrayBeginning(t *testing.T) {
	for _, c := range []struct {
		op      frame.Opcode
		message string
		pass    Pass
	}{
		{frame.Text, `{"transcript":"a"}`, Drop},
		{frame.Text, `{"context_id":2,"transcript":"a"}`, Drop},
		{frame.Text, `{"context_id":"2","context_id":"3","transcript":"a"}`, Drop},
		{frame.Text, `{"context_id":"\ud800","transcript":"a"}`, Drop},
		{frame.Text, sayIn(strings.Repeat("2", 300), "a"), Drop},
		{frame.Text, sayIn("2", strings.Repeat("a", 2<<20)), Keep},
		{frame.Binary, "a", Keep},
	} {
		l := spoken(t, "1")
		l.begin()
		l.want(c.message[:1], l.client(c.op, c.message), Elsewhere, OtherSettings)
		if l.pass != c.pass || len(l.passed) > 0 {
			t.Errorf("%.50s: %v, passed %q", c.message, l.pass, l.passed)
		}
		l.want("end", l.end(), Ready, NoReason)
	}

	// One that has begun in fragments cannot move.
	l := spoken(t, "1")
	l.begin()
	half := strings.Repeat("a", 1<<19)
	l.message(FromClient, frame.Text, false, []string{half, half})
	if s := l.message(FromClient, frame.Continuation, false, []string{half}); s.Then != Broken || s.Close != frame.MessageTooBig || len(l.passed) > 0 {
		t.Errorf("in fragments: %+v, passed %d", s, len(l.passed))
	}
}

// However many contexts a session has, at a time or one after the other, all that is said in them reaches its client, and ids that the former session
// had are known exactly.
func TestManyContexts(t *testing.T) {
	var former, ids []string
	for i := range 100 {
		former, ids = append(former, fmt.Sprint("former", i)), append(ids, fmt.Sprint("own", i))
	}
	l := spoken(t, former...)
	l.begin()
	if n := l.speakIn(ids...); n != len(ids) {
		t.Errorf("one after the other: %d answers of %d", n, len(ids))
	}
	l.want("end", l.end(), Ready, NoReason)

	l = spoken(t, "1")
	l.begin()
	for _, id := range ids {
		l.client(frame.Text, sayIn(id, "a"))
	}
	l.passed = nil
	for _, id := range ids {
		l.server(doneIn(id))
	}
	if len(l.passed) != len(ids) {
		t.Errorf("at a time: %d answers of %d", len(l.passed), len(ids))
	}
	l.want("end", l.end(), Ready, NoReason)

	// More than are remembered cost the connection, and nothing else.
	l = spoken(t, "1")
	l.begin()
	for i := range 3 * maxTags {
		if id := fmt.Sprint(i, "x"); l.speakIn(id) != 1 {
			t.Fatalf("no answer in context %d", i)
		}
	}
	l.want("end", l.end(), Broken, Unclean)
}

// A client that begins a context again before the server has ended the first one has two: the first last message does not show that the server
// has ended both. The next client would find it still speaking.
func TestContextTwice(t *testing.T) {
	for profile, say := range map[string][]string{
		"cartesia":       {`{"context_id":"1","transcript":"a","continue":false}`, `{"context_id":"1","transcript":"b","continue":true}`, doneIn("1")},
		"elevenlabs-tts": {`{"context_id":"1","text":"a","close_context":true}`, `{"context_id":"1","text":"b"}`, `{"contextId":"1","isFinal":true}`},
	} {
		for _, early := range []bool{false, true} {
			l := builtin(t, profile)
			l.begin()
			l.client(frame.Text, say[0])
			if early {
				l.client(frame.Text, say[1])
				l.server(say[2])
				l.want(profile+": before the end", l.end(), Broken, Unclean)
				continue
			}
			l.server(say[2])
			l.client(frame.Text, say[1])
			l.server(say[2])
			l.want(profile+": behind it", l.end(), Ready, NoReason)
		}
	}
}

// A session with an id of any session before gets another connection or, when it is too late for that, ends: the server may still have that context.
func TestFormerContexts(t *testing.T) {
	l := spoken(t, "1")
	l.begin()
	l.speakIn("2")
	l.want("end", l.end(), Ready, NoReason)
	l.begin()
	l.want("of the first session", l.client(frame.Text, sayIn("1", "a")), Elsewhere, OtherSettings)
	l.want("end", l.end(), Ready, NoReason)
	l.begin()
	l.speakIn("3")
	if s := l.client(frame.Text, sayIn("1", "a")); s.Then != Broken || s.Reason != OtherSettings || s.Close != frame.TryAgainLater {
		t.Errorf("too late: %+v", s)
	}
}

// Programs escape what is not ASCII, or slashes, in their own ways. It is the same id.
func TestEscapedContexts(t *testing.T) {
	for _, c := range [][2]string{{`caf\u00e9`, `café`}, {`café`, `caf\u00E9`}, {`a\/b`, `a/b`}, {`\ud83d\ude00`, `😀`}, {`\u0061`, `a`}} {
		l := spoken(t, "1")
		l.begin()
		l.client(frame.Text, `{"context_id":"`+c[0]+`","transcript":"a"}`)
		l.passed = nil
		l.server(`{"type":"chunk","context_id":"` + c[1] + `"}`)
		l.server(`{"type":"done","context_id":"` + c[1] + `"}`)
		if len(l.passed) != 2 {
			t.Errorf("%q: %q", c, l.passed)
		}
		l.want("end", l.end(), Ready, NoReason)
		l.begin()
		l.want("again", l.client(frame.Text, `{"context_id":"`+c[1]+`","transcript":"a"}`), Elsewhere, OtherSettings)
	}
}
