package metrics

func ofLimits() []family {
	return []family{
		counter("limited_total",
			"How often limits were reached: clients were refused (session-limit, session-rate), sessions held back (message-rate, byte-rate) or "+
				"ended (max-message, max-session, idle-timeout). The scope is whose limit it is: process, service, client, key, or tenant.",
			func(s *Snapshot, put put) {
				for _, t := range s.Limits.Totals {
					put(float64(t.Count), t.Limit, t.Scope)
				}
			}, "limit", "scope"),
		gauge("sessions_held_back", "Sessions whose clients are not read at present, since they send more than a limit allows.",
			func(s *Snapshot, put put) { put(float64(s.Limits.HeldBack)) }),
	}
}
