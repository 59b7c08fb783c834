package profile

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// mustParse returns the one profile in a YAML text.
func mustParse(t testing.TB, text string) *Profile {
	t.Helper()
	list, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list[len(list)-1]
}

func TestParse(t *testing.T) {
	list, err := Parse("p.yaml", []byte(`
profiles:
  mine:
    from: vosk
    limits: {sessions: 7}
    reset: {timeout: 9s}
  other:
    from: later
    summary: x
  later: {from: mine, replace: none}
  quick: {from: sherpa-onnx, unsafe: quiet}
`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name+" from "+p.From())
	}
	if got, want := strings.Join(names, ", "), "mine from vosk, other from later, later from mine, quick from sherpa-onnx"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	vosk, err := Named("vosk")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list[:3] {
		if p.Reuse != Lockstep || p.Limits.Sessions != 7 || p.Limits.Age != 25*time.Minute || p.spec.reset.timeout != 9*time.Second ||
			len(p.spec.reset.send) != 3 || p.spec.replace != (p.Name == "mine") {
			t.Errorf("%s: %+v", p.Name, p.spec)
		}
	}
	if vosk.Limits.Sessions != 500 || vosk.spec.reset.timeout != 5*time.Second || !vosk.spec.replace {
		t.Errorf("the heirs have changed what they inherit from: %+v", vosk.spec)
	}
	if p := list[3]; p.Reuse != Quiet || p.Reason != "" {
		t.Errorf("%s: %v, %s", p.Name, p.Reuse, p.Reason)
	}
}

// Nothing of what a profile inherits can be switched off only by writing it anew.
func TestParseNone(t *testing.T) {
	p := mustParse(t, `
profiles:
  base:
    reuse: lockstep
    reset: {send: x, until: {text: y}, settle: 1s}
    setup: hello
    greeting: {text: hi}
    ready: {text: go}
    busy: {status: 503}
    end: {client: {text: bye}, server: close}
    replace: reset
    early: discard
    sticky: {contains: s}
    unanswered: {contains: u}
    keepalive: {ping: 1s, send: k, every: 2s, answer: {text: a}}
    variant: {query: [q], allow: {q: [1]}}
    doubt: some
    unsafe: doubt
    subprotocol: s
  bare:
    from: base
    reset: none
    stateless: true
    setup: none
    greeting: none
    ready: none
    busy: none
    end: none
    replace: none
    early: reset
    sticky: none
    unanswered: none
    keepalive: none
    variant: none
    doubt: none
    unsafe: none
    subprotocol: none
`)
	if got, want := string(p.YAML()), "profiles:\n  bare:\n    reuse: lockstep\n    stateless: true\n"; got != want {
		t.Errorf("%s", got)
	}
}

var update = flag.Bool("update", false, "write testdata/refused.txt anew")

// testdata/refused.txt has profiles that are refused, and under each the errors that Parse returns.
func TestRefused(t *testing.T) {
	const file = "testdata/refused.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for section := range strings.SplitSeq(strings.TrimPrefix(string(data), "=== "), "\n=== ") {
		what, rest, _ := strings.Cut(section, "\n")
		yaml, want, ok := strings.Cut(rest, "--- refused\n")
		if !ok {
			t.Fatalf("%s: no line --- refused", what)
		}
		want = strings.TrimSpace(want)
		list, err := Parse("f.yaml", []byte(yaml))
		if err == nil {
			t.Fatalf("%s: not refused, %d profiles", what, len(list))
		}
		for _, problem := range err.(Problems) {
			if problem.Line < 1 || problem.Column < 1 || problem.File != "f.yaml" {
				t.Errorf("%s: place of %+v", what, problem)
			}
		}
		if got := err.Error(); got != want && !*update {
			t.Errorf("%s:\ngot:\n%s\nwant:\n%s", what, got, want)
		}
		fmt.Fprintf(&all, "=== %s\n%s--- refused\n%s\n\n", what, yaml, err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimSuffix(all.String(), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Files may hold bytes that are no text at all.
func TestRefusedBytes(t *testing.T) {
	for _, c := range []struct{ what, yaml, want string }{
		{"not UTF-8", "profiles:\n  é: {setup: \"h\xffi\"}\n", "f.yaml:2:1: invalid UTF-8: YAML must be UTF-8"},
		{"nothing", "", "f.yaml:1:1: the file is empty: use profiles: {name: {...}}"},
		{"zero bytes", "\x00\x00", ""},
	} {
		_, err := Parse("f.yaml", []byte(c.yaml))
		if err == nil || c.want != "" && err.Error() != c.want {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
