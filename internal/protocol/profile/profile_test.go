package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		reuse Reuse
	}{{"one-shot", OneShot}, {"echo", Lockstep}} {
		p, err := Named(c.name)
		if err != nil || p.Name != c.name || p.Reuse != c.reuse || p.Summary == "" {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
		again, _ := Named(c.name)
		if again != p {
			t.Errorf("%s: another profile each time", c.name)
		}
	}
	for _, name := range []string{"", "Echo", "one shot", "nonsense"} {
		p, err := Named(name)
		if err == nil || p != nil {
			t.Errorf("%q: %+v, %v", name, p, err)
			continue
		}
		for _, allowed := range append(Names(), `"`+name+`"`) {
			if !strings.Contains(err.Error(), allowed) {
				t.Errorf("%q: %q does not say %s", name, err, allowed)
			}
		}
	}
}

// The default profile is the first, and it never reuses.
func TestDefault(t *testing.T) {
	p, err := Named(Names()[0])
	if err != nil || p.Reuse != OneShot {
		t.Errorf("%+v, %v", p, err)
	}
}

// Each name exists once, and has its file.
func TestNames(t *testing.T) {
	names := Names()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			t.Errorf("%s is listed twice", name)
		}
	}
	files, err := builtInFiles.ReadDir("builtin")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(names, strings.TrimSuffix(file.Name(), ".yaml")) {
			t.Errorf("builtin/%s has no name among %v", file.Name(), names)
		}
	}
	if len(files) != len(names) {
		t.Errorf("%d names and %d files", len(names), len(files))
	}
}

// Whole messages are all that the profile echo counts by; one-shot does not even do that.
func TestCounts(t *testing.T) {
	const yes, no = true, false
	for _, c := range []struct {
		what                 string
		traffic              Traffic
		lockstep             Then
		plausibleForLockstep bool
	}{
		{"nothing", Traffic{0, 0, no, no}, Ready, yes},
		{"one answered", Traffic{1, 1, no, no}, Ready, yes},
		{"many answered", Traffic{1 << 40, 1 << 40, no, no}, Ready, yes},
		{"one to come", Traffic{1, 0, no, no}, Resetting, yes},
		{"many to come", Traffic{100, 3, no, no}, Resetting, yes},
		{"the last under way", Traffic{2, 1, no, yes}, Resetting, yes},
		{"one under way, others to come", Traffic{5, 1, no, yes}, Resetting, yes},
		{"half a message", Traffic{0, 0, yes, no}, Broken, yes},
		{"half a message behind others", Traffic{2, 2, yes, no}, Broken, yes},
		{"half a message being answered", Traffic{2, 2, yes, yes}, Broken, yes},
		{"half a message, others to come", Traffic{2, 0, yes, no}, Broken, yes},
		{"half a message, answered", Traffic{0, 1, yes, no}, Broken, yes},
		{"answer to nothing", Traffic{0, 1, no, no}, Broken, no},
		{"half an answer to nothing", Traffic{0, 0, no, yes}, Broken, no},
		{"one too many", Traffic{3, 4, no, no}, Broken, no},
		{"half a one too many", Traffic{3, 3, no, yes}, Broken, no},
		{"two for half a message", Traffic{0, 2, yes, no}, Broken, no},
		{"one and a half for half a message", Traffic{0, 1, yes, yes}, Broken, no},
	} {
		begin := func(name string) *Boundary {
			p, err := Named(name)
			if err != nil {
				t.Fatal(err)
			}
			b := New(p)
			b.Dialed()
			b.Begin(1)
			return &b
		}
		if got := begin("echo").End(c.traffic).Then; got != c.lockstep {
			t.Errorf("%s: %v; want %v", c.what, got, c.lockstep)
		}
		if got := begin("echo").Plausible(c.traffic); got != c.plausibleForLockstep {
			t.Errorf("%s: plausible %v; want %v", c.what, got, c.plausibleForLockstep)
		}
		// A one-shot connection serves one session: the server may send anything, and nothing makes the connection reusable.
		if got := begin("one-shot").End(c.traffic).Then; got != Broken {
			t.Errorf("%s, one-shot: %v", c.what, got)
		}
		if !begin("one-shot").Plausible(c.traffic) {
			t.Errorf("%s, one-shot: not plausible", c.what)
		}
	}
}

// The texts of results are found at the paths of client.text: in their order, in lists, with escapes, and in MessagePack as in JSON.
func TestTextsIn(t *testing.T) {
	p := mustParse(t, `profiles: {p: {client: {text: ["items[].text", "all[0].text", text]}}}`)
	json := `{"text": "a \u00e4", "items": [{"text": "one"}, {"text": 2}, {"other": "x"}, {"text": ""}], "all": [{"text": "first"}, {"text": "second"}]}`
	packed, err := msgp.AppendIntf(nil, map[string]any{
		"text": "a ä", "items": []any{map[string]any{"text": "one"}, map[string]any{"text": 2}, map[string]any{"text": ""}}, "all": []any{map[string]any{"text": "first"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"one", "", "first", "a ä"}
	if got := p.Script().TextsIn(frame.Text, []byte(json)); !slices.Equal(got, want) {
		t.Errorf("JSON: %q; want %q", got, want)
	}
	if got := p.Script().TextsIn(frame.Binary, packed); !slices.Equal(got, want) {
		t.Errorf("MessagePack: %q; want %q", got, want)
	}
	for _, broken := range []string{"", "{", json + "}", json[:len(json)-1]} {
		if got := p.Script().TextsIn(frame.Text, []byte(broken)); got != nil {
			t.Errorf("%q: %q; want none", broken, got)
		}
	}
}

// The word none turns off what a profile inherits in each of its mappings.
func TestNoneResetsMappings(t *testing.T) {
	for _, said := range []string{
		"end: {timeout: 1s}", "leave: {send: bye}", "tag: {path: a}", "reset: {settle: 1ms}", "keepalive: {ping: 1s}", "timeouts: {ready: 1s}",
		"limits: {age: 1m}", "variant: {max: 2}", "failover: {pace: 2}", "tell: {moved: hello}", "client: {rate: 8000}",
	} {
		key, _, _ := strings.Cut(said, ":")
		list, err := Parse("f.yaml", []byte("profiles: {a: {"+said+"}, b: {from: a, "+key+": none}}"))
		if err != nil {
			t.Errorf("%s: %v", said, err)
			continue
		}
		if inherited, reset := string(list[0].YAML()), string(list[1].YAML()); !strings.Contains(inherited, key) || strings.Contains(reset, key) {
			t.Errorf("%s: %s\nand with none: %s", said, inherited, reset)
		}
	}
}
