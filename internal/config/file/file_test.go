package file

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

const small = "services:\n  stt: {path: /v1}\nbackends:\n  gpu-1: {service: stt, url: ws://a/, connections: 32}\n"

// written opens a store in a file with that text.
func written(t *testing.T, text string) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	edit(t, path, text)
	return opened(t, path), path
}

func opened(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// edit writes a file as an editor does that knows nothing of the store.
func edit(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func caps(n int) config.Change {
	return config.Change{Who: "x", Mutations: []config.Mutation{
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"connections": strconv.Itoa(n)}},
	}}
}

// awaiting returns a function that waits until what a watched store holds satisfies a condition.
func awaiting(t *testing.T, s *Store) func(what string, ok func(*config.Snapshot, error) bool) {
	watcher := s.Watch(t.Context())
	return func(what string, ok func(*config.Snapshot, error) bool) {
		t.Helper()
		timeout := time.After(30 * time.Second)
		for {
			select {
			case <-watcher:
				if ok(s.Load(t.Context())) {
					return
				}
			case <-timeout:
				t.Fatalf("%s was not seen", what)
			}
		}
	}
}

// has returns whether a snapshot has n connections for gpu-1.
func has(n int) func(*config.Snapshot, error) bool {
	return func(s *config.Snapshot, err error) bool {
		if err != nil {
			return false
		}
		b, _ := s.Backend("gpu-1")
		return b.Connections == n
	}
}

// TestEdited follows what an editor makes of the file: valid, broken, removed, replaced.
func TestEdited(t *testing.T) {
	s, path := written(t, small)
	until := awaiting(t, s)
	until("the file", has(32))
	edit(t, path, strings.Replace(small, "32", "48", 1))
	until("a change of the same size", has(48))
	edit(t, path, strings.Replace(small, "conn", "con", 1))
	until("an error", func(_ *config.Snapshot, err error) bool {
		return err != nil && strings.Contains(err.Error(), path+":4:")
	})
	edit(t, path, small)
	until("that it was put right", has(32))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	until("that it was removed", func(_ *config.Snapshot, err error) bool { return errors.Is(err, config.ErrMissing) })
	next := path + ".new"
	edit(t, next, strings.Replace(small, "32", "7", 1))
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	until("another file in its place", has(7))
}

// TestEditedBetweenChanges makes sure that what an editor did is in the history and can be brought back.
func TestEditedBetweenChanges(t *testing.T) {
	s, path := written(t, small)
	first, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), caps(40)); err != nil {
		t.Fatal(err)
	}
	edit(t, path, strings.Replace(small, "32", "48", 1))
	_, err = s.Apply(t.Context(), config.Change{Who: "bob", Expect: first.Version(), Mutations: caps(64).Mutations})
	var conflict *config.ConflictError
	if !errors.As(err, &conflict) || len(conflict.Since) != 2 || !strings.Contains(conflict.Since[0].String(), "(an editor): backend gpu-1: connections 40 -> 48") {
		t.Errorf("the conflict is %v", err)
	}
	edited, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), caps(64)); err != nil {
		t.Fatal(err)
	}
	revisions, err := s.History(t.Context(), 10)
	var got []string
	for _, r := range revisions {
		got = append(got, r.String())
	}
	want := "x: backend gpu-1: connections 48 -> 64|(an editor): backend gpu-1: connections 40 -> 48|x: backend gpu-1: connections 32 -> 40|" +
		"(an editor): service stt: added (path /v1); backend gpu-1: added (service stt, url ws://a/, connections 32)"
	if err != nil || strings.Join(got, "|") != want {
		t.Errorf("the history is\n%s\n%v, and should be\n%s", strings.Join(got, "|"), err, want)
	}
	for version, connections := range map[string]int{first.Version(): 32, edited.Version(): 48} {
		if content, err := s.At(t.Context(), version); err != nil || content.Backends["gpu-1"].Connections != connections {
			t.Errorf("version %s: %v, %v", version, content.Backends["gpu-1"], err)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s, path := written(t, small)
	for n := range keptRecords + 5 {
		if _, err := s.Apply(t.Context(), caps(100+n)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(path + ".history/*")
	revisions, reading := s.History(t.Context(), 1000)
	if err != nil || reading != nil || len(names) != keptRecords || len(revisions) != keptRecords {
		t.Errorf("%d files and %d revisions are kept, %v, %v", len(names), len(revisions), err, reading)
	}
	if last := revisions[0].String(); last != "x: backend gpu-1: connections 203 -> 204" {
		t.Errorf("the last revision is %s", last)
	}
}

// TestBrokenFile makes sure that an invalid file is not overwritten except on purpose.
func TestBrokenFile(t *testing.T) {
	s, path := written(t, small+"    state: off\n")
	if _, err := s.Apply(t.Context(), caps(48)); err == nil || !strings.Contains(err.Error(), "correct the file first") {
		t.Errorf("changing it: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(data), "state: off\n") {
		t.Errorf("the file is %s, %v", data, err)
	}
	content := configtest.Small()
	data, _ := os.ReadFile(path)
	if _, err := s.Apply(t.Context(), config.Change{Who: "x", Expect: version(data), Content: &content}); err != nil {
		t.Errorf("replacing it: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	s, path := written(t, small)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context()); err != nil {
		t.Errorf("reading it: %v", err)
	}
	if _, err := s.Apply(t.Context(), caps(48)); !errors.Is(err, config.ErrReadOnly) {
		t.Errorf("writing it: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != small {
		t.Errorf("the file is %s, %v", data, err)
	}
}

// TestWrite covers what must survive a change: permissions, a link; and that nothing else is left in the directory.
func TestWrite(t *testing.T) {
	directory := t.TempDir()
	target := filepath.Join(directory, "real.yaml")
	edit(t, target, small)
	if err := os.Chmod(target, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(directory, "link.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no links here:", err)
	}
	s := opened(t, link)
	if _, err := s.Apply(t.Context(), caps(48)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode became %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(directory)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "link.yaml link.yaml.history real.yaml real.yaml.lock" {
		t.Errorf("the directory has %s, %v", got, err)
	}
}

// TestProfileThatIsNoYAML must not break the file.
func TestProfileThatIsNoYAML(t *testing.T) {
	s, path := written(t, small)
	for _, text := range []string{"a: 'open", "a\n]", "x: {", "a: b: c"} {
		_, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
			{Verb: config.Add, Kind: config.KindProfile, Name: "own", Values: config.Values{"yaml": text}},
		}})
		if err == nil || !strings.Contains(err.Error(), "cannot write the change as YAML") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != small {
		t.Errorf("the file is %s, %v", data, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	directory := t.TempDir()
	for path, says := range map[string]string{
		filepath.Join(directory, "none", "c.yaml"): "configuration directory",
		directory: "is a directory: use a file",
	} {
		s, err := Open(path, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
