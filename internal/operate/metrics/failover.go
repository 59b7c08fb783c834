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
	counted := each[meter.BackendTotals]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []meter.BackendTotals { return s.Meters.Backends },
		names:    func(b *meter.BackendTotals) []string { return []string{b.Service, b.Backend} },
	}
	backend := each[api.Backend]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []api.Backend { return s.Backends },
		names:    func(b *api.Backend) []string { return []string{b.Service, b.Name} },
	}
	return []family{
		counted.counter("failovers_total",
			"Sessions that left the backend, or were to leave it, in the middle, by cause and result: moved (another backend continued "+
				"them) or not_moved (they ended, or stayed if the backend works).",
			func(b *meter.BackendTotals, put put) {
				for c, n := range b.Failovers {
					put(float64(n.Moved), meter.Cause(c).String(), moved)
					put(float64(n.NotMoved), meter.Cause(c).String(), notMoved)
				}
			}, "cause", "result"),
		counted.counter("unassured_sessions_total",
			"Sessions of services with failover that no other backend could continue any longer, by reason.",
			func(b *meter.BackendTotals, put put) {
				for why, n := range b.Unrecoverable {
					put(float64(n), meter.Unrecoverable(why).String())
				}
			}, "reason"),
		counted.counter("backend_stalls_total", "Sessions on which the backend stalled: it gave no sign of work for the stall-timeout.",
			func(b *meter.BackendTotals, put put) { put(float64(b.Stalls)) }),
		histogram("failover_seconds",
			"Time from the loss of the backend to the first result that the client got from the next one.",
			func(s *Snapshot, put putDistribution) {
				for i := range s.Meters.Backends {
					b := &s.Meters.Backends[i]
					put(&b.Failover, b.Service, b.Backend)
				}
			}, "service", "backend"),
		backend.gauge("session_lag_seconds",
			"The largest lag of the backend's sessions: the age of the oldest audio or message that it has not answered. Absent where all is answered.",
			func(b *api.Backend, put put) {
				if b.LagSeconds > 0 {
					put(b.LagSeconds)
				}
			}),
		backend.gauge("session_lateness_seconds",
			"How late the backend's results come, for 95 % of its sessions: what lag-limit limits. Absent where they come in time, or where that is not known.",
			func(b *api.Backend, put put) {
				if b.LatenessSeconds > 0 {
					put(b.LatenessSeconds)
				}
			}),
		backend.gauge("session_owed_seconds",
			"The longest time for which the backend has surely owed one of its sessions a result. Absent where it owes none, or where that is not known.",
			func(b *api.Backend, put put) {
				if b.OwedSeconds > 0 {
					put(b.OwedSeconds)
				}
			}),
		backend.gauge("first_reply_owed_seconds",
			"For how long the median first reply of the backend's sessions has been owed. Absent where most have had theirs.",
			func(b *api.Backend, put put) {
				if b.FirstReplyOwedSeconds > 0 {
					put(b.FirstReplyOwedSeconds)
				}
			}),
		backend.gauge("overdue_sessions", "Sessions that the backend has owed a result, or their first reply, for far longer than usual.",
			func(b *api.Backend, put put) {
				n := 0
				if o := b.Overdue; o != nil {
					n = o.Sessions + o.Unreplied
				}
				put(float64(n))
			}),
		gauge("replay_memory_bytes", "Memory in use for audio that the next backend of a session may have to get again, and for what clients that come back have missed.",
			func(s *Snapshot, put put) {
				if s.Replay != nil {
					put(float64(s.Replay.MemoryBytes))
				}
			}),
		gauge("replay_memory_limit_bytes", "The most memory that may be used for that: the setting replay-memory.",
			func(s *Snapshot, put put) {
				if s.Replay != nil {
					put(float64(s.Replay.LimitBytes))
				}
			}),
	}
}
