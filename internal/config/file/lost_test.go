package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// inBubble is a test in which time is not waited for. The time of files is the real one, and so in the future there.
func inBubble(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// A file that is gone, or in which nothing is said, is a store that fails, not a configuration without services. No change may build
// on it, and it stays as it is.
func TestLost(t *testing.T) {
	const write = `write "services: {}" if this is intended`
	for name, c := range map[string]struct {
		text string // none: the file is removed
		says string
	}{
		"removed":         {"", "no longer exists"},
		"whitespace":      {" \n\n", write},
		"comments":        {"# services: {}\n", write},
		"document":        {"---\n", write},
		"null":            {"null\n", write},
		"section":         {"services:\n", write},
		"all sections":    {"services:\nbackends: ~\nprofiles:\n", write},
		"zero bytes":      {"\x00", write}, // in place of nothing, see below
		"no YAML":         {"services: {", "invalid YAML"},
		"list of nothing": {"services: []\n", "found a list; expected a mapping"},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			s, path := written(t, small)
			if _, err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			var err error
			switch c.text {
			case "":
				err = os.Remove(path)
			case "\x00":
				err = os.Truncate(path, 0)
			default:
				edit(t, path, c.text)
			}
			if err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			snapshot, err := s.Load(t.Context())
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("loading: %v, %v; want %q", snapshot, err, c.says)
			}
			if errors.Is(err, config.ErrMissing) != (c.text == "") {
				t.Errorf("missing: %v", err)
			}
			if _, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
				{Verb: config.Add, Kind: config.KindService, Name: "mt", Values: config.Values{"path": "/mt"}},
			}}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("changing it: %v; want %q", err, c.says)
			}
			if after, err := os.ReadFile(path); string(after) != string(before) || errors.Is(err, fs.ErrNotExist) != (c.text == "") {
				t.Errorf("the file became %q, %v", after, err)
			}
			edit(t, path, small)
			if _, err := s.Load(t.Context()); err != nil {
				t.Errorf("after it was put back: %v", err)
			}
		}))
	}
}

// A configuration without services must be meant: an empty mapping says so. What the store writes does.
func TestNoServices(t *testing.T) { synctest.Test(t, testNoServices) }

func testNoServices(t *testing.T) {
	for _, text := range []string{"services: {}\n", "services: {}\nbackends: {}\n", "backends: {}\n", "profiles: {}\nservices:\n", "{}\n"} {
		s, _ := written(t, text)
		if snapshot, err := s.Load(t.Context()); err != nil || len(snapshot.Content().Services) != 0 {
			t.Errorf("%q: %v, %v", text, snapshot, err)
		}
	}
	s, path := written(t, "services:\n  stt: {path: /v1}\n")
	if _, err := s.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
		{Verb: config.Remove, Kind: config.KindService, Name: "stt"},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, again := range []*Store{s, opened(t, path)} {
		if snapshot, err := again.Load(t.Context()); err != nil || len(snapshot.Content().Services) != 0 {
			t.Errorf("after the last service was removed: %v, %v", snapshot, err)
		}
	}
}

// An empty file can be replaced as a whole by a command: that is what commands do that see its version in the history.
func TestEmptyReplaced(t *testing.T) { synctest.Test(t, testEmptyReplaced) }

func testEmptyReplaced(t *testing.T) {
	s, _ := written(t, "")
	_, err := s.Load(t.Context())
	if !errors.As(err, new(config.Problems)) {
		t.Fatalf("loading it: %v", err)
	}
	revisions, err := s.History(t.Context(), 1)
	if err != nil || len(revisions) != 1 {
		t.Fatalf("the history: %v, %v", revisions, err)
	}
	content := config.NewContent()
	content.Services["stt"] = config.DefaultService()
	if _, err := s.Apply(t.Context(), config.Change{Who: "x", Expect: revisions[0].Version, Content: &content}); err != nil {
		t.Errorf("replacing it: %v", err)
	}
}

// A place that had a configuration before is not new because the file is missing.
func TestKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	s, err := Open(path, config.Options{Known: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrMissing) {
		t.Errorf("without a file: %v", err)
	}
	edit(t, path, small)
	if _, err := s.Load(t.Context()); err != nil {
		t.Errorf("with a file: %v", err)
	}
}

// loading is a Load that has begun.
type loading struct {
	snapshot *config.Snapshot
	err      error
}

func load(t *testing.T, s *Store) <-chan loading {
	done := make(chan loading, 1)
	go func() {
		snapshot, err := s.Load(t.Context())
		done <- loading{snapshot, err}
	}()
	synctest.Wait()
	return done
}

const (
	before = "services:\n  old: {path: /old}\n"
	after  = "# The speech recognisers\nservices:\n  stt: {path: /v1}\n  mt:\n    path: /mt\nbackends:\n  gpu-1:\n    service: stt\n" +
		"    url: ws://10.0.0.1:27000/asr\n    connections: 320\n    labels:\n      zone: abc\n  gpu-2: {service: mt, url: ws://10.0.0.2:27000/}\n"
)

// TestRewrittenInPlace has a writer stop for a moment behind each byte of a file that it writes in place. None of what is there
// meanwhile counts, whether the file was known before or is looked at for the first time, and neither does a file that is gone
// for a moment.
func TestRewrittenInPlace(t *testing.T) {
	for _, known := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		valid := 0
		for n := -1; n < len(after); n++ {
			synctest.Test(t, func(t *testing.T) {
				edit(t, path, before)
				s, err := Open(path, config.Options{Known: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if known {
					if first := <-load(t, s); first.err != nil {
						t.Fatal(first.err)
					}
				}
				if n < 0 {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else {
					edit(t, path, after[:n])
					if _, err := s.snapshot([]byte(after[:n])); err == nil {
						valid++
					}
				}
				done := load(t, s)
				time.Sleep(s.settler.gap / 2)
				edit(t, path, after)
				if got := <-done; got.err != nil || len(got.snapshot.Content().Backends) != 2 {
					t.Errorf("with %d bytes, known %v: %+v, %v", n, known, got.snapshot, got.err)
				}
			})
		}
		if valid < 50 {
			t.Errorf("only %d of the %d halves are valid by themselves: this test has nothing to find", valid, len(after))
		}
	}
}

// A watcher says nothing of what is there for a moment, and loads what it says at last.
func TestWatchedWhileWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, path := written(t, before)
		defer s.Close()
		watcher := s.Watch(t.Context())
		drain := func() (n int) {
			time.Sleep(time.Second)
			synctest.Wait()
			for {
				select {
				case <-watcher:
					n++
				default:
					return n
				}
			}
		}
		drain()
		for range 3 {
			for n := range len(after) + 1 {
				edit(t, path, after[:n])
				if n%10 == 0 {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
			}
			edit(t, path, before)
			time.Sleep(defaultPoll / 2)
			if n := len(watcher); n != 0 {
				t.Fatal("a watcher was told of a file that was being written")
			}
			drain()
		}
		edit(t, path, after)
		if n := drain(); n != 1 {
			t.Errorf("a change was told %d times", n)
		}
	})
}

// A file that grows with every look does not count; after a while that is said, and when the writer is done it counts.
func TestKeepsGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, path := written(t, before)
		defer s.Close()
		if first := <-load(t, s); first.err != nil {
			t.Fatal(first.err)
		}
		text := before
		grow := func() {
			text += "# more\n"
			edit(t, path, text)
		}
		grow()
		done := load(t, s)
		var got loading
		for begun := time.Now(); got.err == nil && time.Since(begun) < time.Minute; {
			time.Sleep(10 * time.Millisecond)
			grow()
			select {
			case got = <-done:
				if got.err == nil {
					t.Fatalf("it counts while it grows: %v", got.snapshot)
				}
			default:
			}
		}
		if got.err == nil || !strings.Contains(got.err.Error(), "keeps changing") {
			t.Errorf("while it grows: %v", got.err)
		}
		if got := <-load(t, s); got.err != nil {
			t.Errorf("when it is whole: %v", got.err)
		}
	})
}

// At the start a file that has not been touched for a while counts at once, and so does one that a command wrote.
func TestFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, path := written(t, before)
		defer s.Close()
		begun := time.Now()
		if first := <-load(t, s); first.err != nil || time.Since(begun) != s.settler.gap {
			t.Errorf("a file that is new: %v after %v", first.err, time.Since(begun))
		}
		if err := os.Chtimes(path, time.Time{}, begun.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		again := opened(t, path)
		defer again.Close()
		begun = time.Now()
		if first := <-load(t, again); first.err != nil || time.Since(begun) != 0 {
			t.Errorf("a file that is old: %v after %v", first.err, time.Since(begun))
		}
		if _, err := again.Apply(t.Context(), config.Change{Who: "x", Mutations: []config.Mutation{
			{Verb: config.Add, Kind: config.KindService, Name: "mt", Values: config.Values{"path": "/mt"}},
		}}); err != nil {
			t.Fatal(err)
		}
		third := opened(t, path)
		defer third.Close()
		for _, s := range []*Store{again, third} {
			if first := <-load(t, s); first.err != nil || len(first.snapshot.Content().Services) != 2 || time.Since(begun) != 0 {
				t.Errorf("a file that a command wrote: %+v after %v", first, time.Since(begun))
			}
		}
	})
}

// What is no file that can be read fails, and says so.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string) error
		says  string
	}{
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
		"loop":      {func(path string) error { return os.Symlink(path, path) }, "too many"},
		"nowhere":   {func(path string) error { return os.Symlink(path+".none", path) }, "no longer exists"},
		"denied": {func(path string) error {
			if os.Geteuid() == 0 {
				return errors.ErrUnsupported
			}
			return os.WriteFile(path, []byte(small), 0o000)
		}, "permission denied"},
		"too large": {func(path string) error {
			if err := os.WriteFile(path, []byte("#"), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, MaxFile+1) // a hole
		}, "4194305 bytes: use at most 4194304"},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			s, path := written(t, small)
			if _, err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(path); err != nil {
				t.Skip("not possible here:", err)
			}
			snapshot, err := s.Load(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("loading: %v, %v; want %q", snapshot, err, c.says)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			edit(t, path, small)
			if _, err := s.Load(t.Context()); err != nil {
				t.Errorf("after it was put back: %v", err)
			}
		}))
	}
}
