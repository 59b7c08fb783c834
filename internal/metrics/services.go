package metrics

import "github.com/wsbouncer/wsbouncer/internal/stats"

// ofServices are the metrics of services, most of them about their queues.
func ofServices() []family {
	service := each[stats.Service]{
		label: "service",
		all:   func(s *stats.Stats) []stats.Service { return s.Services },
		name:  func(s *stats.Service) string { return s.Name },
	}
	return []family{
		service.gauge("service_info",
			"Always 1. The labels tell the host and path that clients ask for (empty for any), the backends' profile, and how a backend is chosen.",
			func(s *stats.Service, put put) { put(1, s.Host, s.Path, s.Profile, s.Balance) }, "host", "path", "profile", "balance"),
		service.gauge("queue_limit", "Most clients that may wait for a connection at once; 0 when clients do not wait.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Limit)) }),
		service.gauge("queue_waiting", "Clients that wait for a connection at this moment.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Waiting)) }),
		service.gauge("queue_oldest_wait_seconds", "How long the client at the head of the queue has waited; 0 when nobody waits.",
			func(s *stats.Service, put put) { put(s.Queue.OldestSeconds) }),
		service.counter("queue_queued_total", "Clients that had to wait, because no connection was free when they came.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.Queued)) }),
		service.counter("queue_served_total", "Clients that waited and got a connection.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.Served)) }),
		service.counter("queue_timed_out_total", "Clients that waited in vain, for as long as clients may.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.TimedOut)) }),
		service.counter("queue_left_total", "Clients that went away while they waited.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.Left)) }),
		service.counter("queue_turned_away_total", "Clients that were waiting when the proxy shut down.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.TurnedAway)) }),
		service.counter("queue_refused_total", "Clients that the server refused when their own connection was dialed.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.Refused)) }),
		service.counter("queue_full_total", "Clients that could not even wait, because the queue was full or there is none.",
			func(s *stats.Service, put put) { put(float64(s.Queue.Totals.Full)) }),
		service.counter("queue_waited_seconds_total",
			"Time that the clients which got a connection from the queue had waited for it, in all.",
			func(s *stats.Service, put put) { put(s.Queue.Totals.WaitedSeconds) }),
	}
}
