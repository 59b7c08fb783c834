package faults

import (
	"context"
	"log/slog"
	"sync"
)

// entry is what the proxy's log says of a session that has ended.
type entry struct {
	backend string
	code    int
	reason  string
}

// journal is the proxy's log: it keeps what is said of sessions, by the client's address (in their order, since ports are used
// again), and the lines about backends.
type journal struct {
	mu       sync.Mutex
	sessions map[string][]entry // guarded by mu
	lines    []string           // guarded by mu
}

func newJournal() *journal { return &journal{sessions: make(map[string][]entry)} }

// session returns the entry of a client's session.
func (j *journal) session(c *client) (entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := j.sessions[c.address()]
	if len(entries) <= c.before {
		return entry{}, false
	}
	return entries[c.before], true
}

// others returns all lines that are not about one session.
func (j *journal) others() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines[:len(j.lines):len(j.lines)]
}

// Enabled implements [slog.Handler].
func (j *journal) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements [slog.Handler].
func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j }

// WithGroup implements [slog.Handler].
func (j *journal) WithGroup(string) slog.Handler { return j }

// Handle implements [slog.Handler].
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	values := make(map[string]slog.Value)
	line := r.Time.Format("15:04:05.000 ") + r.Message
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		line += " " + a.String()
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.Message == "session ended" {
		client := values["client"].String()
		j.sessions[client] = append(j.sessions[client], entry{
			values["backend"].String(), int(values["code"].Int64()), values["reason"].String(),
		})
	} else {
		j.lines = append(j.lines, line)
	}
	return nil
}
