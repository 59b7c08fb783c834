package metrics

import "github.com/wsbouncer/wsbouncer/internal/stats"

func ofProcess() []family {
	return []family{
		gauge("build_info", "Always 1. The label tells the version of wsbouncer that runs.",
			func(s *stats.Stats, put put) { put(1, s.Version) }, "version"),
		gauge("uptime_seconds", "Time since the proxy was started.",
			func(s *stats.Stats, put put) { put(s.UptimeSeconds) }),
		gauge("draining", "1 while the proxy is shutting down: it takes no clients and lets sessions finish. Otherwise 0.",
			func(s *stats.Stats, put put) { put(truth(s.Draining)) }),
		counter("internal_errors_total", "Mistakes in the proxy that were recovered from: each has ended a session or a connection. The log has the stack.",
			func(s *stats.Stats, put put) { put(float64(s.InternalErrors)) }),
	}
}
