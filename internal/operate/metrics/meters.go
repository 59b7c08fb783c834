package metrics

import "github.com/wsbouncer/wsbouncer/internal/ground/meter"

// ofMeters returns the metrics of what was counted for each backend while it served sessions.
func ofMeters() []family {
	backend := each[meter.BackendTotals]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []meter.BackendTotals { return s.Meters.Backends },
		names:    func(b *meter.BackendTotals) []string { return []string{b.Service, b.Backend} },
	}
	times := func(name, help string, of func(*meter.Times) *meter.Distribution) family {
		return histogram(name, help, func(s *Snapshot, put putDistribution) {
			for i := range s.Meters.Backends {
				b := &s.Meters.Backends[i]
				put(of(&b.Times), b.Service, b.Backend)
			}
		}, "service", "backend")
	}
	return []family{
		backend.counter("backend_sessions_total",
			"Sessions started on the backend. A session that moves to another backend counts where it started.",
			func(b *meter.BackendTotals, put put) { put(float64(b.Begun)) }),
		backend.counter("backend_sessions_ended_total",
			"Sessions ended on the backend, by who ended them (client, backend or proxy), the close code of the client's "+
				"connection, and the class of the reason.",
			putEnds, "by", "code", "class"),
		backend.counter("backend_orderly_ends_total",
			"Sessions whose client left in the middle, and that the proxy ended on the backend as the protocol wants it, by result: "+
				"completed, timed_out, lost, or skipped (too many at a time).",
			func(b *meter.BackendTotals, put put) {
				for i, n := range b.Orderly {
					put(float64(n), meter.OrderlyEnd(i).String())
				}
			}, "result"),
		backend.counter("backend_relayed_frames_total", "WebSocket data frames relayed, by the side that sent them.",
			func(b *meter.BackendTotals, put put) {
				put(float64(b.Relayed.FramesFromClients), fromClients)
				put(float64(b.Relayed.FramesFromBackends), fromBackends)
			}, "direction"),
		backend.counter("backend_relayed_bytes_total", "Payload bytes in the relayed data frames, by the side that sent them.",
			func(b *meter.BackendTotals, put put) {
				put(float64(b.Relayed.BytesFromClients), fromClients)
				put(float64(b.Relayed.BytesFromBackends), fromBackends)
			}, "direction"),
		times("session_wait_seconds", "How long clients waited for their connection, from their request on; only those that got one.",
			func(t *meter.Times) *meter.Distribution { return &t.Wait }),
		times("session_first_reply_seconds",
			"Time from the client's first message to the first data that the backend sent after it.",
			func(t *meter.Times) *meter.Distribution { return &t.FirstReply }),
		times("session_duration_seconds", "How long the sessions that have ended lasted.",
			func(t *meter.Times) *meter.Distribution { return &t.Session }),
		times("backend_dial_seconds", "How long it took to open a connection, up to the backend's greeting; without dials that failed.",
			func(t *meter.Times) *meter.Distribution { return &t.Dial }),
		times("backend_reset_seconds", "How long it took to reset a connection after a session; without resets that failed.",
			func(t *meter.Times) *meter.Distribution { return &t.Reset }),
		times("canary_seconds", "Time from the first audio of a canary to its first result; without canaries that got none.",
			func(t *meter.Times) *meter.Distribution { return &t.Canary }),
		times("backend_ping_seconds", "Time from a ping to its pong.",
			func(t *meter.Times) *meter.Distribution { return &t.Ping }),
	}
}

// usualEnds are shown also before they occur, so that Prometheus sees them grow.
var usualEnds = []meter.End{
	meter.NewEnd(meter.Client, 1000, meter.Normal, 0),
	meter.NewEnd(meter.Client, 1006, meter.ClientLeft, 0),
	meter.NewEnd(meter.Server, 1011, meter.BackendFailed, 0),
}

func putEnds(b *meter.BackendTotals, put put) {
	seen := 0
	for i := range b.Ends {
		e := &b.Ends[i]
		put(float64(e.Sessions), e.By.String(), e.Code(), e.Class.String())
		for j := range usualEnds {
			if e.SameAs(&usualEnds[j]) {
				seen |= 1 << j
			}
		}
	}
	for j := range usualEnds {
		if e := &usualEnds[j]; seen>>j&1 == 0 {
			put(0, e.By.String(), e.Code(), e.Class.String())
		}
	}
}
