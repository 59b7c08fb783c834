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
			"Clients refused before their session started, by HTTP status. 503 means that no connection was free, or that "+
				"the proxy shuts down.",
			func(s *Snapshot, put put) {
				for status, n := range withZeros(s.Sessions.Refused, 400, 401, 403, 404, 408, 426, 429, 431, 503) {
					put(float64(n), strconv.Itoa(status))
				}
			}, "status"),
		gauge("handshakes_unfinished", "Clients whose TLS handshake or upgrade request is not complete, or that are being refused.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Handshakes.Unfinished)) }),
		gauge("handshakes_limit", "How many handshakes may be unfinished before the oldest is dropped.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Handshakes.Limit)) }),
		counter("handshakes_dropped_total",
			"Unfinished handshakes dropped to make room for other clients, by reason: the oldest of all, the oldest of an address "+
				"that had very many, or the oldest when no file descriptor was free.",
			func(s *Snapshot, put put) {
				for reason, n := range withZeros(s.Sessions.Handshakes.Dropped, "oldest", "address", "descriptors") {
					put(float64(n), reason)
				}
			}, "reason"),
		gauge("sessions_parked", "Sessions that wait for a client whose connection broke, of services with reconnect.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Reconnects.Parked)) }),
		gauge("clients_forwarded", "Clients that reach their session at another proxy through this one now.",
			func(s *Snapshot, put put) { put(float64(s.Sessions.Reconnects.Forwarding)) }),
		counter("reconnects_total",
			"What became of clients whose connection broke: lost (it broke, and the session waited), resumed (they came back), expired (they did not), "+
				"refused (their token was good for nothing), forwarded or redirected (they came to this proxy, and another has their session).",
			func(s *Snapshot, put put) {
				r := &s.Sessions.Reconnects
				for event, n := range map[string]uint64{
					"lost": r.Lost, "resumed": r.Resumed, "expired": r.Expired, "refused": r.Refused, "forwarded": r.Forwarded, "redirected": r.Redirected,
				} {
					put(float64(n), event)
				}
			}, "event"),
		counter("sessions_ended_total",
			"Sessions ended, by the WebSocket close code of the client's connection: 1000 is a normal end, 1006 a client "+
				"that vanished, 1011 a backend that failed.",
			func(s *Snapshot, put put) {
				ended := make(map[string]uint64)
				for code, n := range withZeros(s.Sessions.Ended, 1000, 1001, 1002, 1005, 1006, 1007, 1008, 1009, 1011, 1012, 1013, 3000, 4000) {
					ended[meter.CodeName(code)] += n
				}
				for code, n := range ended {
					put(float64(n), code)
				}
			}, "code"),
		counter("relayed_frames_total", "WebSocket data frames relayed, by the side that sent them.",
			func(s *Snapshot, put put) {
				put(float64(s.Relayed.FramesFromClients), fromClients)
				put(float64(s.Relayed.FramesFromBackends), fromBackends)
			}, "direction"),
		counter("relayed_bytes_total", "Payload bytes in the relayed data frames, by the side that sent them.",
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

func ofLimits() []family {
	return []family{
		counter("limited_total",
			"How often limits were reached: clients were refused (session-limit, session-rate, audio-quota), sessions held back (message-rate, byte-rate) or "+
				"ended (max-message, max-session, idle-timeout, audio-idle, audio-quota). The scope is whose limit it is: process, service, client, key, or tenant.",
			func(s *Snapshot, put put) {
				for _, t := range s.Limits.Totals {
					put(float64(t.Count), t.Limit, t.Scope)
				}
			}, "limit", "scope"),
		gauge("sessions_held_back", "Sessions whose clients are not read at present, since they send more than a limit allows.",
			func(s *Snapshot, put put) { put(float64(s.Limits.HeldBack)) }),
	}
}
