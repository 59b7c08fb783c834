package accesslog

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// No goroutine of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// messages is a log of the process that a test reads.
type messages struct{ logtest.Text }

// count returns how many lines have the text.
func (m *messages) count(text string) int { return len(m.With(text)) }

// linesCounted are the counters of a log at one instant.
type linesCounted struct{ written, leftOut uint64 }

func counts(l *Log) linesCounted {
	c := l.options.Counters
	return linesCounted{c.Written.Load(), c.LeftOut.Load()}
}

func (m *messages) expect(t *testing.T, want int, text string) {
	t.Helper()
	if n := m.count(text); n != want {
		t.Errorf("%d lines with %q; want %d, in\n%s", n, text, want, m.String())
	}
}

// start starts a log at the path, in the bubble of a test.
func start(t *testing.T, path string) (*Log, *messages) {
	m := new(messages)
	l := Start(Options{Path: path, Format: JSON, Log: slog.New(slog.NewTextHandler(m, nil))})
	t.Cleanup(l.Close)
	return l, m
}

// entry returns an entry whose number its id says.
func entry(n int) Entry { return Entry{ID: fmt.Sprintf("q7m2kd4x-%d", n), Status: 101} }

// expectFile checks that the file has the entries with these numbers, a line each, and nothing else.
func expectFile(t *testing.T, path string, numbers ...int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(text)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%v in %q", err, line)
		}
		got = append(got, e.ID)
	}
	for _, n := range numbers {
		want = append(want, entry(n).ID)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s has %q; want %q", filepath.Base(path), got, want)
	}
}

// upTo returns the numbers from one to another.
func upTo(from, to int) (numbers []int) {
	for n := from; n <= to; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// Lines are in the file a second after they were added, and those that were left when the log is closed.
func TestLinesAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		l.Add(entry(1))
		time.Sleep(interval)
		synctest.Wait()
		expectFile(t, path, 1)
		for _, n := range upTo(2, 3000) { // more than a batch, and more than a queue that is kept
			l.Add(entry(n))
		}
		l.Close()
		l.Add(entry(0))
		expectFile(t, path, upTo(1, 3000)...)
		if c := counts(l); c != (linesCounted{3000, 1}) {
			t.Errorf("%+v", c)
		}
		if info, err := os.Stat(path); err != nil || info.Mode()&0o137 != 0 || info.Mode()&0o600 != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		l.Close() // once more changes nothing
		m.expect(t, 0, "")
	})
}

// Many lines are written at once, and need not wait for the second to be over.
func TestManyLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t, path)
		synctest.Wait()
		for _, n := range upTo(1, wakeAt) {
			l.Add(entry(n))
		}
		synctest.Wait()
		expectFile(t, path, upTo(1, wakeAt)...)
	})
}

// An existing file is continued; if a proxy before could not write all of its last line, a new one begins.
func TestExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	for _, c := range []struct{ before, after string }{
		{"", ""},
		{"a\n", "a\n"},
		{"a\nb", "a\nb\n"},
	} {
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			l, _ := start(t, path)
			l.Add(entry(1))
			l.Close()
		})
		if text, err := os.ReadFile(path); err != nil || string(text) != c.after+string(line(1)) {
			t.Errorf("%q becomes %q, %v", c.before, text, err)
		}
	}
}

// line returns the line of such an entry.
func line(n int) []byte {
	e := entry(n)
	return e.appendLine(nil, JSON)
}

// After a file was renamed and a signal came, lines go to a new file.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		l.Add(entry(1))
		time.Sleep(interval)
		synctest.Wait()
		must(t, os.Rename(path, path+".1"))
		l.Add(entry(2))
		time.Sleep(interval)
		synctest.Wait()
		expectFile(t, path+".1", 1, 2) // until the signal
		l.Reopen()
		synctest.Wait()
		l.Add(entry(3))
		l.Close()
		expectFile(t, path+".1", 1, 2)
		expectFile(t, path, 3)
		m.expect(t, 1, "access log opened again")
		m.expect(t, 1, "")
	})
}

// A writer that finds Reopen and Close both called opens the file again before it ends: the last lines belong there.
func TestReopenThenClose(t *testing.T) {
	for range 20 { // select chooses at random
		path := filepath.Join(t.TempDir(), "access.log")
		l := newLog(Options{Path: path, Format: JSON, Log: slog.New(slog.DiscardHandler)})
		must(t, l.open())
		must(t, os.Rename(path, path+".1"))
		l.Reopen()
		close(l.stop)
		l.run()
		expectFile(t, path) // it exists, and is empty
	}
}

// If no new file can be opened, lines still go to the old one.
func TestReopenFails(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "in", "access.log")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		synctest.Wait()
		must(t, os.Rename(filepath.Dir(path), filepath.Join(directory, "out")))
		l.Reopen()
		synctest.Wait()
		l.Add(entry(1))
		time.Sleep(time.Minute)
		synctest.Wait()
		expectFile(t, filepath.Join(directory, "out", "access.log"), 1)
		m.expect(t, 1, "cannot be opened again: writing to the file that it had before")
		m.expect(t, 1, "was moved or removed, and it cannot be opened again")
		must(t, os.Mkdir(filepath.Dir(path), 0o700))
		time.Sleep(quiet + interval)
		synctest.Wait()
		l.Add(entry(2))
		l.Close()
		expectFile(t, path, 2)
		m.expect(t, 1, "opened again, since its file was moved or removed")
		m.expect(t, 3, "")
	})
}

// After the file was opened again by a signal, the next one that is moved and cannot be replaced is reported, too.
func TestReopenFailsAgain(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "in", "access.log")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		synctest.Wait()
		for i, name := range []string{"first", "second"} {
			must(t, os.Rename(filepath.Dir(path), filepath.Join(directory, name)))
			time.Sleep(quiet + interval)
			synctest.Wait()
			m.expect(t, i+1, "was moved or removed, and it cannot be opened again")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			l.Reopen()
			synctest.Wait()
		}
		l.Close()
	})
}

// A file that was removed, without a signal, exists again after a while.
func TestRemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		synctest.Wait()
		must(t, os.Remove(path))
		time.Sleep(quiet - interval)
		if _, err := os.Stat(path); err == nil {
			t.Error("it exists before a signal had time to come")
		}
		time.Sleep(3 * interval)
		synctest.Wait()
		l.Add(entry(1))
		l.Close()
		expectFile(t, path, 1)
		m.expect(t, 1, "moved or removed")
		m.expect(t, 1, "")
	})
}

// While the directory is missing, lines wait; what does not fit is counted. The log reports it once, and once when it ends.
func TestMissingDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		for n := range maxQueued + 3 {
			l.Add(entry(n))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		m.expect(t, 1, "cannot be written")
		must(t, os.Mkdir(filepath.Dir(path), 0o700))
		time.Sleep(interval)
		synctest.Wait()
		expectFile(t, path, upTo(0, maxQueued-1)...)
		m.expect(t, 1, "is written again\" file="+path+" lines_left_out=3")
		m.expect(t, 2, "")
		if c := counts(l); c != (linesCounted{maxQueued, 3}) {
			t.Errorf("%+v", c)
		}
	})
}

// The device behaves as a full disk does.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "access.log")
	must(t, os.Symlink("/dev/full", path))
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, path)
		l.Add(entry(1))
		time.Sleep(time.Hour)
		m.expect(t, 1, "no space left on device")
		must(t, os.Remove(path))
		l.Reopen()
		l.Add(entry(2))
		l.Close()
		expectFile(t, path, 1, 2)
	})
}

// When the log is closed while its file fails, it says how many lines are lost.
func TestCloseWhileFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m := start(t, filepath.Join(t.TempDir(), "missing", "access.log"))
		l.Add(entry(1))
		time.Sleep(interval)
		synctest.Wait()
		l.Add(entry(2))
		l.Close()
		m.expect(t, 1, "lacks the last lines\" file=")
		m.expect(t, 1, " lines=2")
		if c := counts(l); c != (linesCounted{0, 2}) {
			t.Errorf("%+v", c)
		}
	})
}

// A panic costs the lines at hand, and the log continues.
func TestPanic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		m := new(messages)
		log := slog.New(slog.NewTextHandler(m, nil))
		l := Start(Options{Path: path, Format: JSON, Log: log, Guard: panics.NewGuard(log)})
		synctest.Wait()
		l.guarded(func() { // as write does
			l.Add(entry(1))
			l.Add(entry(2))
			l.take()
			panic("in the midst")
		})
		l.Add(entry(3))
		l.Close()
		expectFile(t, path, 3)
		if c := counts(l); c != (linesCounted{1, 2}) {
			t.Errorf("%+v", c)
		}
	})
}

// Goroutines that add while the file is opened again and again lose and double nothing.
func TestManyGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, _ := start(t, path)
	var adding sync.WaitGroup
	for i := range 4 {
		adding.Go(func() {
			for n := range 1000 {
				l.Add(entry(i*1000 + n))
				if n%100 == 0 {
					l.Reopen()
				}
			}
		})
	}
	adding.Wait()
	l.Close()
	text, err := os.ReadFile(path)
	must(t, err)
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		var e Entry
		must(t, json.Unmarshal([]byte(line), &e))
		seen[e.ID] = true
	}
	if n := strings.Count(string(text), "\n"); n != 4000 || len(seen) != 4000 {
		t.Errorf("%d lines, %d entries", n, len(seen))
	}
}

// Adding costs nothing but a copy.
func TestAddAllocatesNothing(t *testing.T) {
	l := &Log{queue: make([]Entry, 0, 1024), wake: make(chan struct{}, 1)}
	e := Entry{ID: "q7m2kd4x-1", Client: origin.Address{AddrPort: netip.MustParseAddrPort("10.0.0.7:51234")}, Session: new(Session)}
	if n := testing.AllocsPerRun(1000, func() { l.Add(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
