package relay

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A session has a line when it begins, and one when it ends. Both, and the admin API, have the names that its client gave it.
func TestLinesOfASession(t *testing.T) {
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(1)
	p, response := r.Request(wstest.UpgradeRequest("/v1/test", "X-Request-Id: r-1", "Traceparent: "+valid))
	id := response.Header.Get(record.IDHeader)
	if d := r.described(p); d.RequestID != "r-1" || d.TraceID() != traceID {
		t.Errorf("described %+v", d)
	}
	p.Ask("hello")
	p.SendClose(4001, "bye")
	p.ExpectClose(4001, "bye")
	_ = p.Close()
	var started logtest.Line
	for started.Message != "session started" {
		started = <-r.Log.Lines
	}
	ended := r.Record()
	if started.Level != slog.LevelDebug {
		t.Errorf("the beginning is logged at %v", started.Level)
	}
	for _, attrs := range []map[string]slog.Value{started.Attrs, ended} {
		for name, want := range map[string]string{
			"id": id, "service": "test", "path": "/v1/test", "backend": r.Script.Target().URL, "connection": r.Script.Target().URL + "/1",
			"client": p.LocalAddr().String(), "request_id": "r-1", "trace_id": traceID,
		} {
			if got := attrs[name].String(); got != want || want == "" {
				t.Errorf("%s is %q; want %q", name, got, want)
			}
		}
	}
	if arrived := ended["arrived"].Time(); time.Since(arrived) > wstest.Timeout {
		t.Errorf("arrived %v", arrived)
	}
	if records, _ := r.sessions.Ended(0); len(records) != 1 || records[0].RequestID != "r-1" {
		t.Errorf("remembered: %+v", records)
	}
}

// A session whose client calls it nothing valid has no such names in its lines, and what the client sent is nowhere.
func TestInvalidNamesAreIgnored(t *testing.T) {
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}})
	p := r.Join("X-Request-Id: s3cret s3cret", "Traceparent: 00-s3cret", "Authorization: Bearer s3cret")
	p.Ask("s3cret")
	p.SendClose(1000, "")
	p.ExpectClose(1000, "")
	_ = p.Close()
	a := r.Record()
	for name, value := range a {
		if name == "request_id" || name == "trace_id" || strings.Contains(value.String(), "s3cret") {
			t.Errorf("%s=%v", name, value)
		}
	}
}

// Whatever texts a peer chooses, a line stays one line of printable text that is not too long.
func TestHostileTexts(t *testing.T) {
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}})
	p := r.Join()
	const reason = "\n2026 level=ERROR msg=forged \x1b[2J\u009b31m\u2028\u202e\x00\""
	p.SendClose(4002, reason)
	p.ExpectClose(4002, reason)
	_ = p.Close()
	const shown = "\uFFFD2026 level=ERROR msg=forged \uFFFD[2J\uFFFD31m\uFFFD\uFFFD\uFFFD\""
	if got := r.Record()["reason"].String(); got != shown {
		t.Errorf("reason %q; want %q", got, shown)
	}

	long := strings.Repeat("\xff\n\x1b\u009b", 16<<10) // 80 KiB
	record := record.Record{Path: printable.Text(long, 256), Service: &route.Service{Name: "test"}, Reason: long, Code: frame.InternalError}
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler {
			return slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})
		},
		"json": func(b *bytes.Buffer) slog.Handler {
			return slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})
		},
	} {
		for _, write := range []func(*slog.Logger){
			func(log *slog.Logger) { record.Log(log) },
			func(log *slog.Logger) { record.LogStart(log) },
		} {
			var out bytes.Buffer
			write(slog.New(handler(&out)))
			line := out.String()
			if strings.IndexByte(line, '\n') != len(line)-1 || len(line) > 2048 || strings.ContainsAny(line, "\x1b\u009b") || !utf8.ValidString(line) {
				t.Errorf("%s: %d bytes: %.300q", name, len(line), line)
			}
			if name == "json" && !json.Valid(out.Bytes()) {
				t.Errorf("no JSON: %.300q", line)
			}
		}
	}
}
