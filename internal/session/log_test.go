package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// fate is how a session ended, according to its record.
type fate struct {
	by         string
	code       frame.CloseCode
	reason     string
	connection string
}

// record waits for the record of the next session that ends.
func (r *rig) record() map[string]slog.Value {
	r.t.Helper()
	for {
		select {
		case line := <-r.log.lines:
			if line.message == "session ended" {
				return line.attrs
			}
		case <-time.After(wstest.Timeout):
			r.t.Fatal("no session ended")
		}
	}
}

// expectRecord waits for the record of the next session that ends, and checks how it did.
func (r *rig) expectRecord(want fate) {
	r.t.Helper()
	a := r.record()
	got := fate{a["by"].String(), frame.CloseCode(a["code"].Int64()), a["reason"].String(), a["connection_fate"].String()}
	if got != want {
		r.t.Errorf("session ended with %+v; want %+v", got, want)
	}
}

// logged is a line of the log.
type logged struct {
	level   slog.Level
	message string
	attrs   map[string]slog.Value
}

// capture keeps the log.
type capture struct{ lines chan logged }

func (c *capture) Enabled(context.Context, slog.Level) bool { return true }
func (c *capture) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *capture) WithGroup(string) slog.Handler            { return c }

func (c *capture) Handle(_ context.Context, r slog.Record) error {
	line := logged{r.Level, r.Message, make(map[string]slog.Value)}
	r.Attrs(func(a slog.Attr) bool { line.attrs[a.Key] = a.Value; return true })
	select {
	case c.lines <- line:
	default: // a test that makes so many does not read them
	}
	return nil
}
