package admission

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// A crowd that is turned away gets some lines in the log, and one that counts the rest.
func TestRefusalsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Text // a timer may write to it
		var r refusals
		r.init(slog.New(slog.NewTextHandler(&out, nil)))
		refuse := func(status, times int) {
			for range times {
				r.log(&record.Refused{At: time.Now(), Status: status})
			}
		}
		expect := func(lines int, last string) {
			t.Helper()
			synctest.Wait()
			text := out.Take()
			if got := strings.Count(text, "\n"); got != lines || !strings.HasSuffix(strings.TrimSuffix(text, "\n"), last) {
				t.Errorf("%d lines, want %d, the last with %s:\n%s", got, lines, last, text)
			}
		}
		refuse(503, 1000)
		expect(linesAtOnce, "status=503 reason=\"\"")
		refuse(404, 3) // they are not left out for the others' sake
		expect(3, "status=404 reason=\"\"")
		time.Sleep(time.Second)
		refuse(503, 1000)
		refuse(404, 50)
		expect(linesPerSecond+linesAtOnce, "status=404 reason=\"\"")
		time.Sleep(reportLeftOut)
		expect(1, `level=INFO msg="refused clients left out of the log" count=2000 by_status="404: 30, 503: 1970"`)
		time.Sleep(time.Hour)
		expect(0, "")
		refuse(503, linesAtOnce+7)
		r.lines.close()
		expect(linesAtOnce+1, "count=7 by_status=\"503: 7\"")
		refuse(503, 1) // a handshake that ends late starts no timer
		time.Sleep(time.Hour)
		expect(0, "")
	})
}

// A log of warnings has none of it, and they are not counted.
func TestRefusalsAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	var r refusals
	r.init(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	for range 100 {
		r.log(&record.Refused{At: time.Now(), Status: 404})
	}
	if r.lines.close(); out.Len() > 0 || len(r.lines.leftOut) > 0 {
		t.Errorf("%s, %v", &out, r.lines.leftOut)
	}
}

func TestRequestID(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"a"}, "a"},
		{[]string{"AZaz09-._~:/+=@"}, "AZaz09-._~:/+=@"},
		{[]string{strings.Repeat("x", 128)}, strings.Repeat("x", 128)},
		{[]string{strings.Repeat("x", 129)}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{"a,b"}, ""},
		{[]string{"two words"}, ""},
		{[]string{"a\nb"}, ""},
		{[]string{"\x1b[31m"}, ""},
		{[]string{`a"b`}, ""},
		{[]string{"ä"}, ""},
		{[]string{"\xff"}, ""},
	} {
		if got := requestID(requestWith(http.Header{requestIDHeader: c.values})); got != c.want {
			t.Errorf("%.140q: %q; want %q", c.values, got, c.want)
		}
	}
}

// requestWith returns a request with that header.
func requestWith(header http.Header) *handshake.Request {
	return &handshake.Request{Request: &http.Request{Header: header}}
}

// Whatever path a client asks for, the line about it stays one line of printable text that is not too long.
func TestHostilePath(t *testing.T) {
	long := strings.Repeat("\xff\n\x1b\u009b", 16<<10) // 80 KiB
	var out bytes.Buffer
	var r refusals
	r.init(slog.New(slog.NewTextHandler(&out, nil)))
	r.log(&record.Refused{Path: shortened(long), Reason: "x", Status: 404})
	if line := out.String(); strings.IndexByte(line, '\n') != len(line)-1 || len(line) > 2048 || strings.ContainsAny(line, "\x1b\u009b") || !utf8.ValidString(line) {
		t.Errorf("%d bytes: %.300q", len(line), line)
	}
}
