package acme

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// logCore passes certmagic's log on, at level debug: [Manager.note] logs what operators need to know.
type logCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// Enabled implements [zapcore.Core].
func (c *logCore) Enabled(zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slog.LevelDebug)
}

// With implements [zapcore.Core].
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{log: c.log, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements [zapcore.Core].
func (c *logCore) Check(entry zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return to.AddCore(entry, c)
	}
	return to
}

// Write implements [zapcore.Core].
func (c *logCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(values)
	}
	c.log.Debug("acme: "+entry.Message, "level", entry.Level.String(), "fields", values.Fields)
	return nil
}

// Sync implements [zapcore.Core].
func (c *logCore) Sync() error { return nil }
