package metrics

import (
	"maps"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
)

func ofSessions() []family {
	return []family{
		gauge("sessions_active", "Sessions whose client is connected now.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Active)) }),
		counter("sessions_total", "Sessions started: clients that got a connection to a backend.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Total)) }),
		counter("sessions_refused_total",
			"Clients refused before a session, by HTTP status.",
			func(s *Snapshot, put put) {
				for status, n := range withZeros(s.Sessions.Refused, 400, 401, 403, 404, 408, 426, 429, 431, 503) {
					put(float64(n), strconv.Itoa(status))
				}
			}, "status"),
		gauge("handshakes_unfinished", "Clients whose TLS handshake, upgrade request or refusal is incomplete.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Handshakes.Unfinished)) }),
		gauge("handshakes_limit", "Maximum of unfinished handshakes: max-handshakes, or a quarter of the file descriptors if less.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Handshakes.Limit)) }),
		counter("handshakes_dropped_total",
			"Unfinished handshakes dropped: the oldest, the oldest of the network with most (address), or for lack of descriptors.",
			func(s *Snapshot, put put) {
				for reason, n := range withZeros(s.Sessions.Handshakes.Dropped, "oldest", "address", "descriptors") {
					put(float64(n), reason)
				}
			}, "reason"),
		gauge("sessions_parked", "Sessions that wait for a client whose connection broke (reconnect).",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Reconnects.Parked)) }),
		gauge("clients_forwarded", "Clients that reach their session at another proxy through this one now.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Reconnects.Forwarding)) }),
		counter("reconnects_total",
			"Clients whose connection broke: lost (the session waits), resumed, expired (too late, or no room), refused (invalid token), "+
				"forwarded or redirected (to the session's proxy).",
			func(s *Snapshot, put put) {
				r := &s.Sessions.Reconnects
				for event, n := range map[string]uint64{
					"lost": r.Lost, "resumed": r.Resumed, "expired": r.Expired, "refused": r.Refused, "forwarded": r.Forwarded, "redirected": r.Redirected,
				} {
					put(float64(n), event)
				}
			}, "event"),
		counter("sessions_ended_total",
			"Sessions ended, by the client's close code. 1005: none. 1006: the client vanished.",
			func(s *Snapshot, put put) {
				ended := make(map[string]uint64)
				for code, n := range withZeros(s.Sessions.Ended, 1000, 1001, 1002, 1005, 1006, 1007, 1008, 1009, 1011, 1012, 1013, 3000, 4000) {
					ended[meter.CodeName(code)] += n
				}
				for code, n := range ended {
					put(float64(n), code)
				}
			}, "code"),
		counter("relayed_frames_total", "WebSocket data frames relayed.",
			func(s *Snapshot, put put) {
				put(float64(s.Relayed.FramesFromClients), fromClients)
				put(float64(s.Relayed.FramesFromBackends), fromBackends)
			}, "direction"),
		counter("relayed_bytes_total", "Payload bytes of relayed data frames.",
			func(s *Snapshot, put put) {
				put(float64(s.Relayed.BytesFromClients), fromClients)
				put(float64(s.Relayed.BytesFromBackends), fromBackends)
			}, "direction"),
	}
}

// Values of the label direction.
const (
	fromClients  = "from_clients"
	fromBackends = "from_backends"
)

// withZeros returns the counts and adds the usual keys that are missing, at 0. Without these, a series would begin with its
// first event, and Prometheus would not see it grow.
func withZeros[K comparable](counts map[K]uint64, usual ...K) map[K]uint64 {
	all := make(map[K]uint64, len(counts)+len(usual))
	for _, key := range usual {
		all[key] = 0
	}
	maps.Copy(all, counts)
	return all
}

func ofAuthentication() []family {
	return []family{
		counter("auth_results_total",
			"Clients that had to authenticate, by deciding method (keys, jwt, certificate, external, none) and result: accepted, refused, "+
				"or failed (the method does not work).",
			func(s *Snapshot, put put) {
				for _, r := range s.Authentication.Results {
					put(float64(r.Count), r.Method, r.Result)
				}
			}, "method", "result"),
		counter("auth_blocked_total", "Clients that got 429 after too many failed authentications from their address.",
			func(s *Snapshot, put put) { put(float64(s.Authentication.Blocked)) }),
		gauge("auth_blocked_addresses", "Addresses whose clients get 429 now for that.",
			func(s *Snapshot, put put) { put(float64(s.Authentication.Suspects)) }),
	}
}

func ofLimits() []family {
	return []family{
		counter("limited_total",
			"How often limits refused clients (session-limit, session-rate, audio-quota), slowed sessions (message-rate, byte-rate) or "+
				"ended them (others, audio-quota). scope: process, service, client (address), key, tenant.",
			func(s *Snapshot, put put) {
				for _, t := range s.Limits.Totals {
					put(float64(t.Count), t.Limit, t.Scope)
				}
			}, "limit", "scope"),
		gauge("sessions_held_back", "Sessions slowed by a rate at present.",
			func(s *Snapshot, put put) { put(float64(s.Limits.HeldBack)) }),
	}
}
