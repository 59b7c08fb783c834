package metrics

import (
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func ofProcess() []family {
	return []family{
		gauge("build_info", "Always 1, with the running version.",
			func(s *Snapshot, put put) { put(1, s.Version) }, "version"),
		gauge("uptime_seconds", "Time since the proxy started.",
			func(s *Snapshot, put put) { put(s.UptimeSeconds) }),
		gauge("draining", "1 while the proxy shuts down and sessions finish.",
			func(s *Snapshot, put put) { put(toFloat(s.Draining)) }),
		counter("internal_errors_total", "Bugs that ended a session or connection. Alert on any: the log has the stack.",
			func(s *Snapshot, put put) { put(float64(s.InternalErrors)) }),
		counter("access_log_lines_total", "Lines written to the access log.",
			func(s *Snapshot, put put) { put(float64(s.AccessLog.Lines)) }),
		counter("access_log_lines_left_out_total", "Lines that the access log lacks: its file failed or was too slow.",
			func(s *Snapshot, put put) { put(float64(s.AccessLog.LeftOut)) }),
	}
}

// ofProblems returns what is wrong. The label of what a problem is about is left out where clients could add names: then services and backends
// are empty.
func ofProblems() []family {
	return []family{
		gauge("problems",
			"Current problems by kind (see docs/troubleshoot.md). level: failure, warning. hurts: clients, clients-soon, operator.",
			func(s *Snapshot, put put) {
				type series struct{ kind, level, hurts, service, backend string }
				n := make(map[series]int)
				for i := range s.Problems {
					p := &s.Problems[i]
					n[series{p.Kind, p.Level, p.Hurts, p.Service, p.Backend}]++
				}
				for v, n := range n {
					put(float64(n), v.kind, v.level, v.hurts, v.service, v.backend)
				}
			}, "kind", "level", "hurts", "service", "backend"),
	}
}

func ofLoops() []family {
	// The type of a loop's statistics belongs to another package, which this one need not import to read its fields.
	each := func(value func(s *Snapshot, i int) float64) func(*Snapshot, put) {
		return func(s *Snapshot, put put) {
			for i := range s.Loops.Loops {
				put(value(s, i), strconv.Itoa(s.Loops.Loops[i].ID))
			}
		}
	}
	return []family{
		gauge("loops_awake", "Event loops awake, which follow the load.",
			func(s *Snapshot, put put) { put(float64(s.Loops.Awake)) }),
		counter("loops_moved_total", "Sessions and idle connections moved between event loops.",
			func(s *Snapshot, put put) { put(float64(s.Loops.Moved)) }),
		histogram("loop_turn_seconds", "Time for which an event loop handled events, and its sessions waited.",
			func(s *Snapshot, put putDistribution) { put(&s.Turns) }),
		gauge("loop_awake", "1 if the event loop is awake.",
			each(func(s *Snapshot, i int) float64 { return toFloat(s.Loops.Loops[i].Awake) }), "loop"),
		gauge("loop_busy_ratio", "Recent share of one processor used by the event loop, from 0 to 1.",
			each(func(s *Snapshot, i int) float64 { return s.Loops.Loops[i].Busy }), "loop"),
		gauge("loop_connections", "Connections on the event loop, to clients and backends.",
			each(func(s *Snapshot, i int) float64 { return float64(s.Loops.Loops[i].Connections) }), "loop"),
	}
}

// configurationStates are the states of the configuration in the statistics.
var configurationStates = []string{"current", "stale", "copied"}

// ofConfiguration returns the metrics of the configuration in force, and of what it has removed from service.
func ofConfiguration() []family {
	return []family{
		gauge("config_info", "Always 1, with the source of the configuration.",
			func(s *Snapshot, put put) { put(1, s.Configuration.Source) }, "source"),
		gauge("config_state",
			"1 for the current state: current, stale (the store fails) or copied (it has failed since startup; a copy on disk is used).",
			func(s *Snapshot, put put) { putState(put, s.Configuration.State, configurationStates...) }, "state"),
		gauge("config_state_since_timestamp_seconds", "Unix time at which config_state began.",
			func(s *Snapshot, put put) { put(unix(s.Configuration.Since)) }),
		gauge("config_applied_timestamp_seconds", "Unix time at which the configuration came into force.",
			func(s *Snapshot, put put) { put(unix(s.Configuration.Applied)) }),
		counter("config_changes_total", "Configurations that came into force.",
			func(s *Snapshot, put put) { put(float64(s.Configuration.Changes)) }),
		counter("config_failures_total", "Failures to read or apply the configuration.",
			func(s *Snapshot, put put) { put(float64(s.Configuration.Failed)) }),
		gauge("leaving_backends", "Removed backends that still have connections.",
			func(s *Snapshot, put put) { put(float64(len(s.Leaving))) }),
		gauge("leaving_connections", "Connections of removed backends.",
			func(s *Snapshot, put put) {
				n := 0
				for _, l := range s.Leaving {
					n += l.Leased + l.Resetting + l.Retiring
				}
				put(float64(n))
			}),
	}
}

// unix returns a time as a metric's value, in seconds since 1970; 0 for never.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// ofTLS returns the metrics of TLS. There are none if no listener speaks TLS.
func ofTLS() []family {
	with := func(read func(*api.TLS, put)) func(*Snapshot, put) {
		return func(s *Snapshot, put put) {
			if s.TLS != nil {
				read(s.TLS, put)
			}
		}
	}
	return []family{
		counter("tls_handshakes_total", "TLS handshakes of clients by result (full, resumed, or why it failed) and version (or none).",
			with(func(t *api.TLS, put put) {
				for _, h := range t.Handshakes {
					put(float64(h.Count), h.Result, h.Version)
				}
			}), "result", "version"),
		gauge("tls_certificate_expiry_timestamp_seconds",
			"Unix time at which a certificate expires. certificate: its file or tls-auto:NAME, with (admin API) for that.",
			with(func(t *api.TLS, put put) {
				for _, c := range t.Certificates {
					if c.State != api.CertificateMissing {
						name := c.File
						if c.Listener != "" {
							name += " (" + c.Listener + ")"
						}
						put(unix(c.NotAfter), name)
					}
				}
			}), "certificate"),
		gauge("tls_files_failed", "1 while files of certificates, keys or authorities are bad and the earlier ones are used.",
			with(func(t *api.TLS, put put) { put(toFloat(t.Failure != "")) })),
		gauge("tls_loaded_timestamp_seconds", "Unix time at which changed certificates were loaded.",
			with(func(t *api.TLS, put put) { put(unix(t.Loaded)) })),
	}
}
