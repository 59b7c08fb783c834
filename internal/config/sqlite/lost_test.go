package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/tables"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

func setConnections(n int) config.Change {
	return config.Change{Who: "x", Mutations: []config.Mutation{
		{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{"connections": strconv.Itoa(n)}},
	}}
}

// connectionsOf returns the cap of gpu-1 that a store loads.
func connectionsOf(t *testing.T, s config.Store) int {
	t.Helper()
	now, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := now.Backend("gpu-1")
	return b.Connections
}

// backup writes another database with that cap of gpu-1, and returns its file.
func backup(t *testing.T, connections int) string {
	t.Helper()
	s, path := opened(t)
	configtest.Fill(t, s)
	if _, err := s.Apply(t.Context(), setConnections(connections)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func unixOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open is not deleted or replaced there")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return data
}

// Where there was a configuration before, a file that is not there, empty or without our tables is no new database: nothing
// is made, and nothing that lies around is touched.
func TestOpenKnown(t *testing.T) {
	directory := t.TempDir()
	at := func(name string, make func(path string) error) string {
		path := filepath.Join(directory, name)
		must(t, make(path))
		return path
	}
	empty := at("empty.db", func(path string) error { return os.WriteFile(path, nil, 0o600) })
	left := at("left.db", func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.WriteFile(path+"-wal", []byte("what was written last"), 0o600))
	})
	bare := at("bare.db", func(path string) error { return query(t, path, "CREATE TABLE a (b)", "DROP TABLE a", "VACUUM") })
	other := at("other.db", func(path string) error { return query(t, path, "CREATE TABLE customers (a)") })
	text := at("text.db", func(path string) error {
		return os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600)
	})
	none := filepath.Join(directory, "none.db")
	gone := at("gone.db", func(path string) error { return os.WriteFile(path+"-wal", []byte("what was written last"), 0o600) })
	for path, want := range map[string]struct {
		is   error
		says string
	}{
		none:  {config.ErrMissing, "none.db no longer exists"},
		gone:  {config.ErrMissing, "gone.db no longer exists"},
		empty: {config.ErrMissing, "empty.db is empty (0 bytes)"},
		left:  {config.ErrMissing, "left.db is empty (0 bytes)"},
		bare:  {config.ErrMissing, "bare.db has no tables"},
		other: {config.ErrSchema, "other.db belongs to another program"},
		text:  {nil, "is not a SQLite database or is damaged"},
	} {
		before, wal := read(t, path), read(t, path+"-wal")
		err := used(t, path, config.Options{Known: true})
		if err == nil || !strings.Contains(err.Error(), want.says) || want.is != nil && !errors.Is(err, want.is) {
			t.Errorf("%s: %v; want %s", path, err, want.says)
		}
		if !bytes.Equal(read(t, path), before) || !bytes.Equal(read(t, path+"-wal"), wal) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}

	// Tables that were never written to are not a configuration, either. A restored configuration is one.
	made := filepath.Join(directory, "made.db")
	if _, _, err := Migrate(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	s, err := Open(made, config.Options{Known: true})
	must(t, err)
	defer s.Close()
	if _, err := s.Load(t.Context()); !errors.Is(err, config.ErrMissing) || !strings.Contains(err.Error(), "tables are new") {
		t.Errorf("new tables: %v", err)
	}
	restored, err := Open(backup(t, 48), config.Options{Known: true})
	must(t, err)
	defer restored.Close()
	if n := connectionsOf(t, restored); n != 48 {
		t.Errorf("restored: %d", n)
	}
}

// What becomes of a file while a store uses it: it fails, refuses changes, which would be lost, and makes nothing. When there
// is a database again it continues with that.
func TestLostInUse(t *testing.T) {
	unixOnly(t)
	garbage := []byte(strings.Repeat("no database ", 1000))
	replaced := func(t *testing.T, path string, prepare func(other string) error) {
		other := filepath.Join(t.TempDir(), "other.db")
		must(t, prepare(other))
		must(t, os.Rename(other, path))
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		is    error
		says  string
	}{
		"deleted": {func(t *testing.T, path string) { must(t, os.Remove(path)) }, config.ErrMissing, "no longer exists"},
		"deleted with the files beside it": {func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				must(t, os.Remove(path+suffix))
			}
		}, config.ErrMissing, "no longer exists"},
		"truncated": {func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, config.ErrMissing, "is empty (0 bytes)"},
		"emptied": {func(t *testing.T, path string) {
			replaced(t, path, func(other string) error { return os.WriteFile(other, nil, 0o600) })
		}, config.ErrMissing, "is empty (0 bytes)"},
		"garbage": {func(t *testing.T, path string) {
			replaced(t, path, func(other string) error { return os.WriteFile(other, garbage, 0o600) })
		}, nil, "is not a SQLite database or is damaged"},
		"another program's": {func(t *testing.T, path string) {
			replaced(t, path, func(other string) error { return query(t, other, "CREATE TABLE services (a)") })
		}, config.ErrSchema, "belongs to another program"},
		"newer schema": {func(t *testing.T, path string) {
			replaced(t, path, func(other string) error {
				if _, _, err := Migrate(t.Context(), other); err != nil {
					return err
				}
				return query(t, other, "INSERT INTO schema_version (version_id, is_applied) VALUES (999, 1)")
			})
		}, config.ErrSchema, "use a newer wsbouncer"},
		"made anew": {func(t *testing.T, path string) {
			replaced(t, path, func(other string) error {
				_, _, err := Migrate(t.Context(), other)
				return err
			})
		}, config.ErrMissing, "tables are new"},
		"directory": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o700))
		}, nil, "is a directory: use a file"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := opened(t)
			configtest.Fill(t, s)
			must(t, s.Close()) // so that the -wal has nothing to restore a truncated file from
			s = opener(path)(t, config.Options{})
			defer s.Close()
			if _, err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if name != "truncated" { // for all others there is something
				if _, err := s.Apply(t.Context(), setConnections(33)); err != nil {
					t.Fatal(err)
				}
			}
			c.spoil(t, path)
			_, loading := s.Load(t.Context())
			var before []byte
			if name != "directory" {
				before = read(t, path)
			}
			_, writing := s.Apply(t.Context(), setConnections(7))
			_, reading := s.History(t.Context(), 1)
			for i, err := range []error{loading, writing, reading} {
				if i == 2 && name == "made anew" || i == 2 && name == "newer schema" {
					continue // its history can be read
				}
				if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("call %d: %v; want %s", i, err, c.says)
				}
			}
			if name != "directory" && !bytes.Equal(read(t, path), before) {
				t.Error("the file was written to")
			}
			if name != "directory" {
				must(t, os.Rename(backup(t, 48), path))
			} else {
				must(t, os.Remove(path))
				must(t, os.Rename(backup(t, 48), path))
			}
			if n := connectionsOf(t, s); n != 48 {
				t.Errorf("after a backup was put there: %d", n)
			}
			if _, err := s.Apply(t.Context(), setConnections(50)); err != nil {
				t.Error(err)
			}
			must(t, s.Close())
			again := opener(path)(t, config.Options{})
			defer again.Close()
			if n := connectionsOf(t, again); n != 50 {
				t.Errorf("what was written to the backup became %d", n)
			}
		})
	}
}

// A database that replaces another is followed, even where both have the same version, and what was still beside the old one
// (-wal) goes there, not into the new one.
func TestReplaced(t *testing.T) {
	unixOnly(t)
	s, path := opened(t)
	configtest.Fill(t, s)
	watcher := s.Watch(t.Context())
	aside := filepath.Join(t.TempDir(), "aside.db")
	for round, n := range []int{48, 49} {
		if _, err := s.Apply(t.Context(), setConnections(100+round)); err != nil { // is in the -wal
			t.Fatal(err)
		}
		for ok := true; ok; {
			select {
			case <-watcher:
			case <-time.After(50 * time.Millisecond): // what is told later is loaded once more below, no harm
				ok = false
			}
		}
		other := backup(t, n)
		must(t, os.Rename(path, aside))
		must(t, os.Rename(other, path))
		timeout := time.After(30 * time.Second)
		for seen := 0; seen != n; {
			select {
			case <-watcher:
				if now, err := s.Load(t.Context()); err == nil { // it may have been gone for a moment
					b, _ := now.Backend("gpu-1")
					seen = b.Connections
				}
			case <-timeout:
				t.Fatal("the other database was not seen")
			}
		}
		if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
			if err := query(t, path, "PRAGMA integrity_check"); err != nil {
				t.Error(err)
			}
		}
		old := opener(aside)(t, config.Options{})
		if got := connectionsOf(t, old); got != 100+round {
			t.Errorf("the database that was moved away has %d; its last change said %d", got, 100+round)
		}
		must(t, old.Close())
	}
}

// A change is not confirmed if its file was lost before it was made.
func TestLostMeanwhile(t *testing.T) {
	unixOnly(t)
	for name, lose := range map[string]func(t *testing.T, path string) error{
		"deleted":  func(_ *testing.T, path string) error { return os.Remove(path) },
		"replaced": func(t *testing.T, path string) error { return os.Rename(backup(t, 48), path) },
	} {
		path := filepath.Join(t.TempDir(), "config.db")
		s, err := Open(path, config.Options{})
		must(t, err)
		defer s.Close()
		configtest.Fill(t, s)
		err = s.transact(t.Context(), true, func(tb *tables.Tables) (bool, error) {
			_, written, err := tb.Apply(t.Context(), setConnections(7), nil)
			return written, errors.Join(err, lose(t, path))
		})
		if err == nil || !strings.Contains(err.Error(), "the change may be lost") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An operation that is under way on the old file completes, and others wait for that until their context ends.
func TestReplacedWhileUsed(t *testing.T) {
	unixOnly(t)
	path := filepath.Join(t.TempDir(), "config.db")
	s, err := Open(path, config.Options{})
	must(t, err)
	defer s.Close()
	configtest.Fill(t, s)
	inside, leave := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.transact(context.Background(), false, func(tb *tables.Tables) (bool, error) {
			close(inside)
			<-leave
			_, err := tb.Load(context.Background(), nil)
			return false, err
		})
	}()
	<-inside
	must(t, os.Rename(backup(t, 48), path))
	loaded := make(chan error, 1)
	go func() {
		now, err := s.Load(t.Context())
		if err == nil {
			if b, _ := now.Backend("gpu-1"); b.Connections != 48 {
				err = fmt.Errorf("it has %d", b.Connections)
			}
		}
		loaded <- err
	}()
	close(leave)
	if err := <-ended; err != nil {
		t.Errorf("who was reading: %v", err)
	}
	if err := <-loaded; err != nil {
		t.Errorf("who came later: %v", err)
	}
}

// A user clears away the files beside the database, which look like rubbish. What was written last was in one of them.
func TestWALDeleted(t *testing.T) {
	unixOnly(t)
	s, path := opened(t)
	configtest.Fill(t, s)
	if _, err := s.Apply(t.Context(), setConnections(40)); err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(os.Remove(path+"-wal"), os.Remove(path+"-shm")))
	if n := connectionsOf(t, s); n != 40 {
		t.Errorf("what was written before became %d", n)
	}
	if _, err := s.Apply(t.Context(), setConnections(41)); err != nil {
		t.Error(err)
	}
	other := opener(path)(t, config.Options{})
	defer other.Close()
	if n := connectionsOf(t, other); n != 41 {
		t.Errorf("another process has %d", n)
	}
	if revisions, err := other.History(t.Context(), 10); err != nil || len(revisions) != 3 {
		t.Errorf("the history: %v, %v", revisions, err)
	}
}
