//go:build unix

package accesslog

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// pipe makes a named pipe.
func pipe(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "access.log")
	must(t, syscall.Mkfifo(path, 0o600))
	return path
}

// onPipe starts a log that writes to a named pipe. It needs the real clock, as deadlines of pipes do.
func onPipe(t *testing.T, path string) (*Log, *messages) {
	t.Helper()
	m := new(messages)
	l := Start(Options{Path: path, Format: JSON, Log: slog.New(slog.NewTextHandler(m, nil))})
	t.Cleanup(l.Close)
	return l, m
}

// A named pipe without a reader holds nothing up, not even the end.
func TestPipeWithoutReader(t *testing.T) {
	l, m := onPipe(t, pipe(t))
	l.Add(entry(1))
	wstest.Eventually(t, "the log says so", func() bool { return m.count("cannot be written") == 1 })
	l.Close()
	m.expect(t, 1, "lacks the last lines")
}

// A reader gets whole lines, however slowly it reads and whatever the pipe could take at a time.
func TestPipeWithSlowReader(t *testing.T) {
	path := pipe(t)
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	l, m := onPipe(t, path)
	const lines = 3000 // more than the pipe takes
	for n := range lines {
		e := entry(n)
		e.Path = "/" + strings.Repeat("x", 200)
		l.Add(e)
	}
	wstest.Eventually(t, "the pipe is full", func() bool { return m.count("cannot be written") == 1 })
	var got bytes.Buffer
	must(t, reader.SetReadDeadline(time.Now().Add(wstest.Timeout)))
	for buf := make([]byte, 32<<10); bytes.Count(got.Bytes(), []byte{'\n'}) < lines; {
		n, err := reader.Read(buf)
		must(t, err)
		got.Write(buf[:n])
	}
	l.Close()
	must(t, reader.Close())
	n := 0
	for line := range strings.Lines(got.String()) {
		var e Entry
		must(t, json.Unmarshal([]byte(line), &e))
		if want := entry(n).ID; e.ID != want {
			t.Fatalf("line %d is of %s", n, e.ID)
		}
		n++
	}
	if n != lines {
		t.Errorf("%d lines", n)
	}
}

// When the pipe is replaced by a file, the file does not begin with the rest of a line that the pipe could not take.
func TestCutLine(t *testing.T) {
	path := pipe(t)
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	defer reader.Close()
	l, m := onPipe(t, path)
	const lines = 3000
	for n := range lines {
		e := entry(n)
		e.Path = "/" + strings.Repeat("x", 203)
		l.Add(e)
	}
	wstest.Eventually(t, "the pipe is full", func() bool { return m.count("cannot be written") == 1 })
	must(t, os.Remove(path))
	l.Reopen()
	wstest.Eventually(t, "the file has the last line", func() bool {
		text, _ := os.ReadFile(path)
		return strings.Contains(string(text), entry(lines-1).ID)
	})
	l.Close()
	text, err := os.ReadFile(path)
	must(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		var e Entry
		must(t, json.Unmarshal([]byte(line), &e))
		n++
	}
	c := counts(l)
	if c.leftOut != 1 || c.written != lines-1 || n < lines/2 {
		t.Errorf("%d lines in the file, %+v", n, c)
	}
}
