package profile

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	watsonStart = `{"action":"start"}`
	watsonStop  = `{"action":"stop"}`
	listening   = `{"state":"listening"}`
)

// watsonStopped returns a connection whose client has ended its session and left, with the last acknowledgement to come.
func watsonStopped(t *testing.T) *line {
	t.Helper()
	l := builtin(t, "watson")
	l.begin()
	l.client(frame.Text, watsonStart)
	l.server(listening)
	l.client(frame.Binary, "audio")
	l.client(frame.Text, watsonStop)
	l.want("end", l.end(), Resetting, NoReason)
	return l
}

// After the acknowledgement, the boundary waits for a time without messages.
func TestSettle(t *testing.T) {
	l := watsonStopped(t)
	l.want("result", l.server(`{"results":[]}`), Continue, NoReason)
	s := l.server(listening)
	if l.want("acknowledgement", s, Resetting, NoReason); s.Timer != 100*time.Millisecond {
		t.Errorf("settles for %v", s.Timer)
	}
	l.want("quiet", l.b.Timer(true), Ready, NoReason)

	l = watsonStopped(t)
	l.server(listening)
	l.want("late message", l.server(`{"results":[]}`), Broken, LateMessage)

	l = watsonStopped(t)
	l.server(listening)
	l.want("within a header", l.b.Timer(false), Broken, LateMessage)
}

// For quiet, a late message is waited out, up to the limit.
func TestSettleQuiet(t *testing.T) {
	p := mustParse(t, "profiles: {p: {from: sherpa-onnx, unsafe: quiet, reset: {settle: 1s, timeout: 3s}}}")
	settling := func() *line {
		l := idling(t, p)
		l.begin()
		l.client(frame.Binary, "audio")
		if s := l.end(); s.Then != Resetting || len(s.Send) != 1 {
			t.Fatalf("end: %+v", s)
		}
		l.want("acknowledgement", l.server("Done!"), Resetting, NoReason)
		return l
	}
	l := settling()
	l.want("quiet", l.b.Timer(true), Ready, NoReason)

	l = settling()
	s := l.server("late")
	if l.want("late", s, Continue, NoReason); l.pass != Drop || s.Timer != time.Second {
		t.Errorf("late: %+v, %v", s, l.pass)
	}
	l.beginServerMessage("very ")
	if s := l.b.Timer(false); s.Then != Continue || s.Timer != time.Second {
		t.Errorf("half a message: %+v", s)
	}
	l.server("late")
	l.want("quiet at last", l.b.Timer(true), Ready, NoReason)

	l = settling()
	for range 3 {
		l.want("late", l.server("late"), Continue, NoReason)
	}
	l.want("never quiet", l.server("late"), Broken, ResetTimeout)
}

// Acknowledgements that the client's own messages cause are counted, so that none of them passes for the reset's.
func TestAcknowledgementsCounted(t *testing.T) {
	l := builtin(t, "watson")
	l.begin()
	l.client(frame.Text, watsonStart)
	l.client(frame.Text, watsonStop)
	if !l.b.Owed(l.traffic) {
		t.Error("Owed is false although an answer is missing")
	}
	l.want("end", l.end(), Resetting, NoReason)
	l.want("of the start", l.server(listening), Continue, NoReason)
	l.want("of the stop", l.server(listening), Resetting, NoReason)

	l = builtin(t, "watson")
	l.begin()
	l.client(frame.Text, watsonStart)
	l.want("of the start", l.server(listening), Continue, NoReason)
	if len(l.passed) != 2 {
		t.Errorf("passed: %q", l.passed)
	}
	l.want("of nothing", l.server(listening), Foreign, Unsolicited)
	if len(l.passed) != 2 {
		t.Errorf("the client gets it: %q", l.passed)
	}
	l.want("end", l.end(), Broken, Unsolicited)
}

// A client that sends something after its end message has not ended its session.
func TestNotEnded(t *testing.T) {
	l := builtin(t, "watson")
	l.begin()
	l.client(frame.Text, watsonStart)
	l.server(listening)
	l.client(frame.Text, watsonStop)
	l.server(listening)
	l.client(frame.Binary, "audio")
	l.want("audio behind the end", l.end(), Leaving, LeftEarly)
}

// A token distinguishes the reset's acknowledgement from all that a client may have caused, and is another for each session.
func TestToken(t *testing.T) {
	p := mustParse(t, "profiles: {p: {from: funasr, unsafe: doubt}}")
	l := idling(t, p)
	for i := range uint64(2) {
		l.traffic = Traffic{}
		l.b.Begin(testToken + i)
		l.client(frame.Text, `{"is_speaking":false,"is_end":true,"wav_name":"x"}`)
		s := l.end()
		if l.want("end", s, Resetting, NoReason); len(s.Send) != 2 {
			t.Fatalf("end: %+v", s)
		}
		digits := []string{"0123456789abcdef", "0123456789abcdf0"}
		if sent := string(s.Send[0].Append(nil, l.b.Token())); !strings.Contains(sent, `"wav_name": "`+digits[i]+`"`) {
			t.Errorf("sent: %s", sent)
		}
		l.want("the client's", l.server(`{"is_end":true,"wav_name":"x"}`), Continue, NoReason)
		l.want("with another token", l.server(`{"is_end":true,"wav_name":"`+digits[1-i]+`"}`), Continue, NoReason)
		l.want("half a token", l.server(`{"is_end":true,"wav_name":"`+digits[i][1:]+`"}`), Continue, NoReason)
		l.want("with the token", l.server(`{"is_end":true,"wav_name":"`+digits[i]+`"}`), Ready, NoReason)
	}
}
