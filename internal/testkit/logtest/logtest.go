// Package logtest captures log lines for tests.
package logtest

import (
	"context"
	"log/slog"
)

// Line is a line of the log.
type Line struct {
	Level   slog.Level
	Message string
	Attrs   map[string]slog.Value
}

// Capture is a [slog.Handler] that keeps the lines. Lines for which the channel has no room are dropped.
type Capture struct{ Lines chan Line }

// Enabled implements [slog.Handler].
func (c *Capture) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements [slog.Handler].
func (c *Capture) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup implements [slog.Handler].
func (c *Capture) WithGroup(string) slog.Handler { return c }

// Handle implements [slog.Handler].
func (c *Capture) Handle(_ context.Context, r slog.Record) error {
	line := Line{r.Level, r.Message, make(map[string]slog.Value)}
	r.Attrs(func(a slog.Attr) bool { line.Attrs[a.Key] = a.Value; return true })
	select {
	case c.Lines <- line:
	default: // a test that makes this many does not read them
	}
	return nil
}
