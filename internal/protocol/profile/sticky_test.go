package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A connection serves only sessions with the same sticky settings.
func TestSticky(t *testing.T) {
	const a, b = `{"config" : {"sample_rate" : 8000}}`, `{"config" : {"sample_rate" : 16000}}`
	for _, c := range []struct {
		first, second string
		ok            bool
	}{
		{a, a, true},
		{a, b, false},
		{a, a + " ", false}, // a blank may matter to the server
		{a, "", false},
		{"", a, false},
		{"", "", true},
		{"", `{"eof" : 0}`, true},
	} {
		l := builtin(t, "vosk")
		voskSession(l, c.first)
		l.server(voskFinal)
		l.server(voskPartial)
		l.want("reset", l.server(voskFinal), Ready, NoReason)
		l.begin()
		var s Step
		if c.second != "" {
			s = l.client(frame.Text, c.second)
		} else {
			s = l.client(frame.Binary, "audio")
		}
		if c.ok {
			if l.want(c.first+c.second, s, Continue, NoReason); len(l.passed) != 1 {
				t.Errorf("%s, %s: %d messages passed", c.first, c.second, len(l.passed))
			}
			continue
		}
		l.want(c.first+c.second, s, Elsewhere, OtherSettings)
		if len(l.passed) > 0 {
			t.Errorf("%s, %s: something passed", c.first, c.second)
		}
		if o := l.b.Opening(); string(o.Payload) != c.second || (o.Opcode == frame.Text) != (c.second != "") {
			t.Errorf("%s, %s: opening %+v", c.first, c.second, o)
		}
		l.want("end", l.end(), Ready, NoReason) // for a session that fits
		l.begin()
		if c.first != "" {
			l.want("the same again", l.client(frame.Text, c.first), Continue, NoReason)
		}
	}
}

// A first message that is longer than all settings sets nothing, and one that is too long to match may, whether or not the format of audio is looked for
// in it.
func TestStickyLong(t *testing.T) {
	long := `{"config":{}}` + strings.Repeat(" ", 100)
	for _, c := range []struct {
		sticky string
		reused bool
	}{{"sticky: {text: A}", true}, {"sticky: {json: {config: \"*\"}}, limits: {message: 100}", false}} {
		for _, reads := range []bool{false, true} {
			for _, frames := range [][]string{{long}, {long[:1], long[1:]}, {"", long}} {
				p := mustParse(t, `profiles: {p: {reuse: lockstep, reset: {send: R}, `+c.sticky+`,
					failover: {audio: {messages: {opcode: binary}, encoding: s16le, rate: {default: 16000, message: rate}}}}}`)
				l := idling(t, p)
				l.begin()
				if formats := NewFormats(p, ""); reads {
					l.b.ReadFormats(&formats)
				}
				what := fmt.Sprintf("%s, %q, format read: %v", c.sticky, frames, reads)
				if l.want(what, l.client(frame.Text, frames...), Continue, NoReason); strings.Join(l.passed, "") != long {
					t.Errorf("%s: %q passed", what, l.passed)
				}
				l.server("answer")
				if !c.reused && !(reads && len(frames) > 1) {
					l.want(what, l.end(), Broken, Unclean)
					continue
				}
				l.want(what, l.end(), Resetting, NoReason)
				l.want(what, l.server("answer"), Ready, NoReason)
			}
		}
	}
}

// A message that may have changed settings, or that the boundary cannot read, prevents reuse.
func TestUnclean(t *testing.T) {
	for _, c := range []struct{ profile, first, then string }{
		{"vosk", "", `{"config" : {}}`},
		{"vosk", `{"config" : {}}`, `{"config" : {}}`},
		{"watson", `{"action":"start"}`, `{"action":"start"}`},
		{"watson", `{"action":"start"}`, `{"action":"stop","x":NaN}`},
		{"watson", `{"action":"start"}`, `{"action":"x","action":"start"}`},
		{"watson", `{"action":"start"}`, `{`},
		{"watson", `{"action":"start"}`, `{"action":"stop"}` + strings.Repeat(" ", 1<<16)},
		{"watson", `{"action":"start","x":NaN}`, ""},
		{"watson", `{"action":"x","action":"start"}`, ""},
	} {
		l := builtin(t, c.profile)
		l.begin()
		if c.first != "" {
			l.client(frame.Text, c.first)
		} else {
			l.client(frame.Binary, "audio")
		}
		if c.then != "" {
			l.client(frame.Text, c.then)
		}
		if want := 1 + min(len(c.then), 1); len(l.passed) != want {
			t.Errorf("%+v: %d messages passed", c, len(l.passed))
		}
		l.want(c.first+" "+c.then[:min(len(c.then), 40)], l.end(), Leaving, Unclean)
		l.want("without the wait", l.end(), Broken, Unclean)
	}
}
