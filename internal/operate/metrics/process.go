package metrics

func ofProcess() []family {
	return []family{
		gauge("build_info", "Always 1. The label is the running version of wsbouncer.",
			func(s *Snapshot, put put) { put(1, s.Version) }, "version"),
		gauge("uptime_seconds", "Time since the proxy started.",
			func(s *Snapshot, put put) { put(s.UptimeSeconds) }),
		gauge("draining", "1 while the proxy shuts down: it is not ready, and lets sessions finish. Otherwise 0.",
			func(s *Snapshot, put put) { put(toFloat(s.Draining)) }),
		counter("internal_errors_total",
			"Bugs in the proxy that ended a session or connection, but not the process. The log has the stack.",
			func(s *Snapshot, put put) { put(float64(s.InternalErrors)) }),
		counter("access_log_lines_total", "Lines written to the access log.",
			func(s *Snapshot, put put) { put(float64(s.AccessLog.Lines)) }),
		counter("access_log_lines_left_out_total",
			"Lines that the access log lacks, because its file could not be written, or not fast enough.",
			func(s *Snapshot, put put) { put(float64(s.AccessLog.LeftOut)) }),
	}
}
