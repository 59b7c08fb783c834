package settings

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// Log is a log whose level and format can change while it is used.
type Log struct {
	*slog.Logger
	// Level is the lowest level that is logged. It may be changed at any time; Set does, too.
	Level  *slog.LevelVar
	asJSON atomic.Bool
}

// LogLevels are the names of the levels, the one that logs the most first.
var LogLevels = []string{"debug", "info", "warn", "error"}

// NewLog returns a log with the level and format of loaded settings.
func NewLog(w io.Writer, s *Settings) *Log {
	l := &Log{Level: new(slog.LevelVar)}
	l.Set(s)
	options := &slog.HandlerOptions{Level: l.Level, ReplaceAttr: inSeconds}
	l.Logger = slog.New(&formats{slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options), &l.asJSON})
	return l
}

// inSeconds logs durations as seconds, with the unit in the key: waited_seconds=1.5. By default, slog writes 1.5s as text and
// a number of nanoseconds as JSON.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		seconds := float64(a.Value.Duration().Round(time.Microsecond)) / float64(time.Second) // Seconds() makes 3.7800000000000002 of 3.78 s
		return slog.Float64(a.Key+"_seconds", seconds)
	}
	return a
}

// Set changes the level and the format, also of loggers that were derived before.
func (l *Log) Set(s *Settings) {
	var level slog.Level
	if level.UnmarshalText([]byte(s.LogLevel)) == nil { // the names of levels are slog's
		l.Level.Set(level)
	}
	l.asJSON.Store(s.LogFormat == "json")
}

// formats is a handler that logs each record in the format that is set when it arrives.
type formats struct {
	text, json slog.Handler
	asJSON     *atomic.Bool
}

func (f *formats) now() slog.Handler {
	if f.asJSON.Load() {
		return f.json
	}
	return f.text
}

// Enabled implements [slog.Handler].
func (f *formats) Enabled(ctx context.Context, level slog.Level) bool {
	return f.now().Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (f *formats) Handle(ctx context.Context, r slog.Record) error { return f.now().Handle(ctx, r) }

// WithAttrs implements [slog.Handler].
func (f *formats) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &formats{f.text.WithAttrs(attrs), f.json.WithAttrs(attrs), f.asJSON}
}

// WithGroup implements [slog.Handler].
func (f *formats) WithGroup(name string) slog.Handler {
	return &formats{f.text.WithGroup(name), f.json.WithGroup(name), f.asJSON}
}
