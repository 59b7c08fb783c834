package metrics

func ofAuthentication() []family {
	return []family{
		counter("auth_results_total",
			"Clients that had to authenticate, by the method that decided (none: no method of the service could judge what the client "+
				"gave) and its result: accepted, refused, or failed, if the method does not work.",
			func(s *Snapshot, put put) {
				for _, r := range s.Authentication.Results {
					put(float64(r.Count), r.Method, r.Result)
				}
			}, "method", "result"),
		counter("auth_blocked_total", "Clients that got 429 because authentication had failed too often from their address.",
			func(s *Snapshot, put put) { put(float64(s.Authentication.Blocked)) }),
		gauge("auth_blocked_addresses", "Addresses from which authentication has failed too often, so that their clients get 429 now.",
			func(s *Snapshot, put put) { put(float64(s.Authentication.Suspects)) }),
	}
}
