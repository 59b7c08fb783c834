package profile

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const withIDs = `
profiles:
  p:
    reuse: lockstep
    stateless: true
    affinity:
      server: {message: {json: {type: created}}, id: session.id}
      client: {query: [session, s], headers: X-Session, message: {json: {type: resume}}, id: id}`

func noField(string) []string { return nil }

// An id is the same, however it is written in JSON, in a query and in a header.
func TestIDs(t *testing.T) {
	a := mustParse(t, withIDs).Affinity()
	if a.For() != 10*time.Minute {
		t.Errorf("for %v", a.For())
	}
	long := strings.Repeat("x", maxID)
	for _, c := range []struct{ id, json string }{
		{"abc", "abc"},
		{`a"b\c/d`, `a\"b\\c\/d`},
		{"ö😀", "ö\\ud83d\\ude00"},
		{"ö😀", `\u00f6😀`},
		{"a b&c=d+e%", `a b&c=d\u002be%`},
		{"\x00\n", `\u0000\n`},
		{long, long},
		{"", ""},
		{"", `half \ud83d`},
		{"", long + "x"},
		{"", strings.Repeat(`\u0078`, maxID+1)},
	} {
		if id := a.Given(frame.Text, []byte(`{"type":"created","session":{"id":"`+c.json+`"}}`)); id != c.id {
			t.Errorf("%q is given as %q", c.id, id)
		}
		if c.id == "" {
			continue
		}
		if id := a.InRequest("a=b&s="+url.QueryEscape(c.id), noField); id != c.id {
			t.Errorf("%q is %q in a query", c.id, id)
		}
		header := func(name string) []string { return map[string][]string{"X-Session": {c.id}}[name] }
		if id := a.InRequest("session=", header); id != c.id {
			t.Errorf("%q is %q in a header", c.id, id)
		}
	}
}

// What is no id, or may be another one, is none. That includes what is too long to read.
func TestNoIDs(t *testing.T) {
	a := mustParse(t, withIDs).Affinity()
	for _, message := range []string{
		"", "{", "[]", `{"type":"created"}`, `{"type":"created","session":{"id":7}}`, `{"type":"created","session":{"id":{}}}`,
		`{"type":"other","session":{"id":"a"}}`, `{"type":"created","session":{"id":"a","id":"b"}}`, `{"type":"created","session":{"id":"a"}} x`,
		`{"type":"created","session":{"id":"` + strings.Repeat("x", 1<<20) + `"}}`,
		`{"type":"created","session":{"id":"a"},"x":"` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		if id := a.Given(frame.Text, []byte(message)); id != "" {
			t.Errorf("%.60s gives %q", message, id)
		}
	}
	if id := a.Given(frame.Binary, []byte(`{"type":"created","session":{"id":"a"}}`)); id != "" {
		t.Errorf("a binary message gives %q", id)
	}
	for _, query := range []string{"", "session", "session=", "session=%zz", "Session=a", "session=" + strings.Repeat("x", maxID+1)} {
		if id := a.InRequest(query, noField); id != "" {
			t.Errorf("%.60s has %q", query, id)
		}
	}
	if id := a.InRequest("", func(string) []string { return []string{"a", "b"} }); id != "" {
		t.Errorf("two header fields have %q", id)
	}
	for _, name := range []string{"one-shot", "echo"} {
		if p, err := Named(name); err != nil || p.Affinity() != nil {
			t.Errorf("%s: %v, %v", name, p.Affinity(), err)
		}
	}
	list, err := Parse("f.yaml", []byte(withIDs+"\n  q: {from: p, affinity: none}\n  r: {from: p, affinity: {for: 1m}}"))
	if err != nil || list[0].Affinity() == nil || list[1].Affinity() != nil || list[2].Affinity().For() != time.Minute {
		t.Errorf("what is inherited: %v", err)
	}
}

// A client's first message that has an id is held until it is known whether another server is to get it.
func TestGuide(t *testing.T) {
	const resume = `{"type":"resume","id":"a\u0062"}`
	for _, c := range []struct {
		name   string
		frames []string
		op     frame.Opcode
		asked  bool
	}{
		{"whole", []string{resume}, frame.Text, true},
		{"in frames", []string{resume[:5], "", resume[5:]}, frame.Text, true},
		{"another message", []string{`{"type":"start"}`}, frame.Text, false},
		{"binary", []string{resume}, frame.Binary, false},
		{"too long", []string{resume, strings.Repeat(" ", 64<<10)}, frame.Text, false},
		{"too long at once", []string{resume + strings.Repeat(" ", 64<<10)}, frame.Text, false},
	} {
		for _, elsewhere := range []bool{false, true} {
			for _, yaml := range []string{withIDs, withIDs + "\n    limits: {message: 100}\n" +
				"    failover: {audio: {messages: {opcode: binary}, encoding: s16le, rate: {default: 16000, message: rate}}}"} {
				if strings.Contains(yaml, "limits") && strings.HasPrefix(c.name, "too long") {
					continue
				}
				p := mustParse(t, yaml)
				l := idling(t, p)
				l.begin()
				var ids []string
				formats := NewFormats(p, "")
				l.b.ReadFormats(&formats)
				l.b.SetGuide(func(id string) bool {
					ids = append(ids, id)
					return elsewhere
				})
				s := l.client(c.op, c.frames...)
				if asked := len(ids) == 1 && ids[0] == "ab"; asked != c.asked || !c.asked && len(ids) > 0 {
					t.Errorf("%s: asked about %q", c.name, ids)
				}
				whole := strings.Join(c.frames, "")
				if c.asked && elsewhere {
					l.want(c.name, s, Elsewhere, OtherServer)
					if len(l.passed) > 0 || string(l.b.Opening().Payload) != whole {
						t.Errorf("%s: %d messages passed, opening %q", c.name, len(l.passed), l.b.Opening().Payload)
					}
					l.want(c.name+": end", l.end(), Ready, NoReason)
					continue
				}
				if l.want(c.name, s, Continue, NoReason); strings.Join(l.passed, "") != whole {
					t.Errorf("%s: %.80q passed", c.name, l.passed)
				}
				if s := l.client(frame.Text, resume); len(ids) > 1 || s.Then != Continue {
					t.Errorf("%s: asked about the second message", c.name)
				}
			}
		}
	}
}
