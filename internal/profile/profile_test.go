package profile

import (
	"slices"
	"strings"
	"testing"
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

// Each name is there once, and has its file.
func TestNames(t *testing.T) {
	names := Names()
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			t.Errorf("%s is there twice", name)
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

func TestJudge(t *testing.T) {
	const yes, no = true, false
	for _, c := range []struct {
		what                 string
		traffic              Traffic
		lockstep             Verdict
		plausibleForLockstep bool
	}{
		{"nothing", Traffic{0, 0, no, no}, Clean, yes},
		{"one answered", Traffic{1, 1, no, no}, Clean, yes},
		{"many answered", Traffic{1 << 40, 1 << 40, no, no}, Clean, yes},
		{"one to come", Traffic{1, 0, no, no}, Await, yes},
		{"many to come", Traffic{100, 3, no, no}, Await, yes},
		{"the last under way", Traffic{2, 1, no, yes}, Await, yes},
		{"one under way, others to come", Traffic{5, 1, no, yes}, Await, yes},
		{"half a message", Traffic{0, 0, yes, no}, Discard, yes},
		{"half a message behind others", Traffic{2, 2, yes, no}, Discard, yes},
		{"half a message being answered", Traffic{2, 2, yes, yes}, Discard, yes},
		{"half a message, others to come", Traffic{2, 0, yes, no}, Discard, yes},
		{"half a message, answered", Traffic{0, 1, yes, no}, Discard, yes},
		{"answer to nothing", Traffic{0, 1, no, no}, Discard, no},
		{"half an answer to nothing", Traffic{0, 0, no, yes}, Discard, no},
		{"one too many", Traffic{3, 4, no, no}, Discard, no},
		{"half a one too many", Traffic{3, 3, no, yes}, Discard, no},
		{"two for half a message", Traffic{0, 2, yes, no}, Discard, no},
		{"one and a half for half a message", Traffic{0, 1, yes, yes}, Discard, no},
	} {
		lockstep := &Profile{Reuse: Lockstep}
		if got := lockstep.Judge(c.traffic); got != c.lockstep {
			t.Errorf("%s: verdict %v; want %v", c.what, got, c.lockstep)
		}
		if got := lockstep.Plausible(c.traffic); got != c.plausibleForLockstep {
			t.Errorf("%s: plausible %v; want %v", c.what, got, c.plausibleForLockstep)
		}
		// One session per connection: anything may be said, and nothing makes the connection fit for another.
		for _, p := range []*Profile{{Reuse: OneShot}, {}} {
			if got := p.Judge(c.traffic); got != Discard {
				t.Errorf("%s, one-shot: verdict %v", c.what, got)
			}
			if !p.Plausible(c.traffic) {
				t.Errorf("%s, one-shot: not plausible", c.what)
			}
		}
	}
}
