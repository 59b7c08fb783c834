package metrics

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Values of the label result.
const (
	moved    = "moved"
	notMoved = "not_moved"
)

// ofFailover returns the metrics of sessions that outlive their backends.
func ofFailover() []family {
	return []family{
		served.counter("failovers_total",
			"Sessions that left the backend, or were to, by cause and result: moved, or not_moved (they ended or stayed).",
			func(b *meter.BackendTotals, put put) {
				for c, n := range b.Failovers {
					put(float64(n.Moved), meter.Cause(c).String(), moved)
					put(float64(n.NotMoved), meter.Cause(c).String(), notMoved)
				}
			}, "cause", "result"),
		served.counter("unassured_sessions_total",
			"Sessions that no other backend could continue any longer: window (over replay-window), memory (replay-memory full), format "+
				"(audio cannot be sent again) or message (over 1 MiB).",
			func(b *meter.BackendTotals, put put) {
				for why, n := range b.Unrecoverable {
					put(float64(n), meter.Unrecoverable(why).String())
				}
			}, "reason"),
		served.counter("backend_stalls_total", "Sessions on which the backend gave no sign of work for stall-timeout.",
			func(b *meter.BackendTotals, put put) { put(float64(b.Stalls)) }),
		served.histogram("failover_seconds", "Time from the loss of the backend to the client's first result from the next one.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Failover }),
		backend.gauge("session_lag_seconds",
			"Largest lag of the backend's sessions: age of the oldest unanswered audio or message.",
			func(b *api.Backend, put put) { put.positive(b.LagSeconds) }),
		backend.gauge("session_lateness_seconds", "Lateness of results in 95 % of sessions, which lag-limit limits. Absent if in time or unknown.",
			func(b *api.Backend, put put) { put.positive(b.LatenessSeconds) }),
		backend.gauge("session_owed_seconds", "Longest time for which a result has surely been owed.",
			func(b *api.Backend, put put) { put.positive(b.OwedSeconds) }),
		backend.gauge("first_reply_owed_seconds", "Median time for which sessions have waited for their first reply. Absent where most have had it.",
			func(b *api.Backend, put put) { put.positive(b.FirstReplyOwedSeconds) }),
		backend.gauge("overdue_sessions",
			"Sessions that have waited for a result for over 8 s, and four times what nearly all first replies took.",
			func(b *api.Backend, put put) {
				n := 0
				if o := b.Overdue; o != nil {
					n = o.Sessions + o.Unreplied
				}
				put(float64(n))
			}),
		gauge("replay_memory_bytes", "Memory in use for failover and reconnect. Absent if no service has them.",
			func(s *Snapshot, put put) {
				if s.Replay != nil {
					put(float64(s.Replay.MemoryBytes))
				}
			}),
		gauge("replay_memory_limit_bytes", "Maximum of replay_memory_bytes: the setting replay-memory.",
			func(s *Snapshot, put put) {
				if s.Replay != nil {
					put(float64(s.Replay.LimitBytes))
				}
			}),
	}
}
