package demo

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTerminal runs the demonstration on a terminal of 80 columns and 24 lines: the picture fits, so that it can be redrawn, and ends
// with what to try.
func TestTerminal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := screen{redrawn: cancel}
	err := Run(ctx, Options{
		Clients: 3, Servers: 3, Duration: time.Minute, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Program: "bin/wsbouncer", Out: &out, Terminal: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if shown := strings.TrimRight(escapes.ReplaceAllString(line, ""), "\n"); len([]rune(shown)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(shown)), shown)
		}
	}
	pictures := up.Split(out.String(), -1)
	if len(pictures) < 2 {
		t.Fatalf("the picture was not redrawn:\n%s", out.String())
	}
	picture := pictures[1]
	if end := strings.Index(picture, "streams finished"); end >= 0 { // the last picture is followed by the summary
		picture = picture[:strings.LastIndex(picture[:end], "\n\n")+1]
	}
	if n := strings.Count(picture, "\n"); n > 23 {
		t.Errorf("the picture has %d lines:\n%s", n, picture)
	}
	if !invitation.MatchString(escapes.ReplaceAllString(picture, "")) {
		t.Errorf("the picture does not end with what to try:\n%s", picture)
	}
}

// screen keeps what is written, and calls redrawn when it has got a second picture.
type screen struct {
	bytes.Buffer
	redrawn func()
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	n, err := s.Buffer.Write(b)
	if up.Match(s.Bytes()) {
		s.redrawn()
	}
	return n, err
}

var (
	escapes    = regexp.MustCompile(`\x1b\[\d*[AK]`)
	up         = regexp.MustCompile(`\x1b\[\d+A`)
	invitation = regexp.MustCompile(`  dashboard  http://127\.0\.0\.1:\d+/
  try in another terminal
    bin/wsbouncer top --admin 127\.0\.0\.1:\d+
    bin/wsbouncer status --admin 127\.0\.0\.1:\d+
    bin/wsbouncer session ls --admin 127\.0\.0\.1:\d+
$`)
)
