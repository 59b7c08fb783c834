package metrics

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// States in the statistics, from packages that this one does not import. A test compares them with those packages.
var (
	circuitStates = []string{"closed", "half-open", "open"}
	probeStates   = []string{"off", "unknown", "up", "down"}
	canaryStates  = []string{"off", "unknown", "up", "down", "doubtful"}
)

var (
	// backend makes metrics of the backends' states, and served of what was counted for each while it served sessions.
	backend = each[api.Backend]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []api.Backend { return s.Backends },
		names:    func(b *api.Backend) []string { return []string{b.Service, b.Name} },
	}
	served = each[meter.BackendTotals]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []meter.BackendTotals { return s.Meters.Backends },
		names:    func(b *meter.BackendTotals) []string { return []string{b.Service, b.Backend} },
	}
)

// ofPools returns the metrics of backends' connections and of their desired states.
func ofPools() []family {
	return []family{
		backend.gauge("backend_info", "Always 1, with URL, profile, and for a discovered server its configured backend.",
			func(b *api.Backend, put put) { put(1, b.URL, b.Profile, b.DiscoveredFrom) }, "url", "profile", "discovered_from"),
		backend.gauge("backend_connections",
			"Connections: dialing, idle (ready for a client), leased (to a session), resetting (after a session) or retiring (closing).",
			func(b *api.Backend, put put) {
				put(float64(b.Dialing), pool.Dialing.String())
				put(float64(b.Idle), pool.Idle.String())
				put(float64(b.Leased), pool.Leased.String())
				put(float64(b.Resetting), pool.Resetting.String())
				put(float64(b.Retiring), pool.Retiring.String())
			}, "state"),
		backend.gauge("backend_connections_cap", "Maximum simultaneous connections to the backend.",
			func(b *api.Backend, put put) { put(float64(b.Cap)) }),
		backend.gauge("backend_connections_ceiling",
			"Connection limit: the cap, or less while the server is full, exceeds lag-limit, publishes less, or has a removed backend's connections.",
			func(b *api.Backend, put put) { put(float64(b.Ceiling)) }),
		backend.gauge("backend_calibrated_streams", "Streams that the server takes, by 'wsbouncer calibrate'.",
			func(b *api.Backend, put put) { put.positive(float64(b.Calibrated)) }),
		backend.gauge("backend_published_sessions",
			"Sessions that the backend publishes: total (capacity), used, and strangers (not of proxies that share it).",
			func(b *api.Backend, put put) {
				if b.Published != nil && b.Published.Total > 0 {
					put(float64(b.Published.Total), "total")
				}
				if b.Published != nil && b.Published.Used != nil {
					put(float64(*b.Published.Used), "used")
					put(float64(b.Published.Strangers), "strangers")
				}
			}, "state"),
		backend.gauge("backend_published_timestamp_seconds", "Unix time at which the published sessions were last read.",
			func(b *api.Backend, put put) {
				if b.Published != nil && !b.Published.At.IsZero() {
					put(float64(b.Published.At.UnixMilli()) / 1000)
				}
			}),
		backend.gauge("backend_connections_limit", "Connections that this proxy may have: the ceiling, or its granted places if fewer.",
			func(b *api.Backend, put put) { put(float64(b.Limit)) }),
		backend.gauge("backend_grant_places", "Places granted to this proxy, if it shares the server.",
			func(b *api.Backend, put put) {
				if b.Places != nil {
					put(float64(b.Places.Grant))
				}
			}),
		backend.gauge("backend_granted_places", "Places granted to all proxies. Fleet-wide.",
			func(b *api.Backend, put put) {
				if b.Places != nil {
					put(float64(b.Places.Granted))
				}
			}),
		backend.gauge("backend_needed_places", "Sessions and waiting clients. Fleet-wide.",
			func(b *api.Backend, put put) {
				if b.Places != nil {
					put(float64(b.Places.Needs))
				}
			}),
		backend.gauge("backend_connections_warm_target", "Connections to keep ready besides those in use.",
			func(b *api.Backend, put put) { put(float64(b.Warm)) }),
		backend.gauge("backend_weight", "The backend's share of clients, relative to the others.",
			func(b *api.Backend, put put) { put(b.Weight) }),
		backend.gauge("backend_ramp_ratio", "Effective part of the weight: below 1 during slow start.",
			func(b *api.Backend, put put) { put(b.Ramp) }),
		backend.gauge("backend_state",
			"1 for the desired state: enabled, draining or disabled.",
			func(b *api.Backend, put put) {
				putState(put, b.State, pool.Enabled.String(), pool.Draining.String(), pool.Disabled.String())
			}, "state"),
	}
}

// ofHealth returns the metrics of backends' health.
func ofHealth() []family {
	return []family{
		backend.gauge("backend_usable", "1 if new sessions may start, by circuit breaker, health check, canary, outlier detection and stalls.",
			func(b *api.Backend, put put) { put(toFloat(b.Usable)) }),
		backend.gauge("backend_reachable", "1 if the last dial succeeded and the connection was not lost immediately.",
			func(b *api.Backend, put put) { put(toFloat(b.Reachable)) }),
		backend.gauge("backend_circuit_state",
			"1 for the state of the circuit breaker: closed (in service), open (out of service) or half-open (on trial).",
			func(b *api.Backend, put put) { putState(put, b.Circuit, circuitStates...) }, "state"),
		backend.counter("backend_circuit_opened_total", "How often the circuit breaker opened.",
			func(b *api.Backend, put put) { put(float64(b.CircuitOpened)) }),
		backend.gauge("backend_outlier", "1 while the backend gets no new sessions because far more fail than on its peers.",
			func(b *api.Backend, put put) { put(toFloat(b.Outlier)) }),
		backend.counter("backend_outlier_total", "How often the backend became an outlier.",
			func(b *api.Backend, put put) { put(float64(b.Outliers)) }),
		backend.gauge("backend_stalled", "1 while the backend gets only trial sessions or none, because sessions stalled.",
			func(b *api.Backend, put put) { put(toFloat(b.Stalled)) }),
		backend.gauge("backend_probe_state", "1 for the result of the health check: up, down, unknown (none yet) or off.",
			func(b *api.Backend, put put) { putState(put, b.Probe, probeStates...) }, "state"),
		backend.counter("backend_broken_sessions_total",
			"Sessions that the backend broke: it vanished, violated the protocol, answered unasked, or ended them immediately with 1002, 1003, 1007 or 1011.",
			func(b *api.Backend, put put) { put(float64(b.Broken)) }),
		backend.gauge("backend_canary_state",
			"1 for the verdict of the canary: up, down, doubtful (it has passed on no backend), unknown (none yet) or off.",
			func(b *api.Backend, put put) { putState(put, b.Canary, canaryStates...) }, "state"),
		backend.gauge("backend_canary_last_seconds", "Time to the first result of the last canary.",
			func(b *api.Backend, put put) { put.positive(b.CanarySeconds) }),
		backend.gauge("backend_round_trip_seconds", "Moving average of the time from ping to pong.",
			func(b *api.Backend, put put) { put.positive(b.RoundTripSeconds) }),
	}
}

// ofTotals returns the counters of backends' connections and leases.
func ofTotals() []family {
	return []family{
		backend.counter("backend_dialed_total", "Connections opened.",
			func(b *api.Backend, put put) { put(float64(b.Totals.Dialed)) }),
		backend.counter("backend_dial_failures_total", "Dials that failed.",
			func(b *api.Backend, put put) { put(float64(b.Totals.DialFailed)) }),
		backend.counter("backend_dial_refusals_total", "Dials with a client's own key or parameters that the server refused.",
			func(b *api.Backend, put put) { put(float64(b.Totals.Refused)) }),
		backend.counter("backend_leases_total", "Leases of one connection to one session.",
			func(b *api.Backend, put put) { put(float64(b.Totals.Leased)) }),
		backend.counter("backend_leases_returned_total", "Leases that returned the connection to the pool.",
			func(b *api.Backend, put put) { put(float64(b.Totals.Returned)) }),
		backend.counter("backend_leases_discarded_total", "Leases after which the connection was closed.",
			func(b *api.Backend, put put) { put(float64(b.Totals.Discarded)) }),
		backend.counter("backend_retired_idle_total", "Connections closed while idle.",
			func(b *api.Backend, put put) { put(float64(b.Totals.RetiredIdle)) }),
		backend.counter("backend_retired_total", "Connections closed, by reason.",
			func(b *api.Backend, put put) {
				pool.Reasons{}.All(func(reason pool.Reason, _ uint64) {
					put(float64(b.Totals.Reasons[reason.String()]), reason.String())
				})
			}, "reason"),
	}
}

// ofMeters returns the metrics of what was counted for each backend while it served sessions.
func ofMeters() []family {
	return []family{
		served.counter("backend_sessions_total", "Sessions started on the backend.",
			func(b *meter.BackendTotals, put put) { put(float64(b.Begun)) }),
		served.counter("backend_sessions_ended_total",
			"Sessions ended on the backend, by who ended them (client, backend, proxy), the client's close code, and class of reason.",
			putEnds, "by", "code", "class"),
		served.counter("backend_orderly_ends_total",
			"Sessions that the proxy ended on the backend after their client left in the middle: completed, timed_out, lost, or skipped "+
				"(half of the places were being ended).",
			func(b *meter.BackendTotals, put put) {
				for i, n := range b.Orderly {
					put(float64(n), meter.OrderlyEnd(i).String())
				}
			}, "result"),
		served.counter("backend_relayed_frames_total", "WebSocket data frames relayed.",
			func(b *meter.BackendTotals, put put) {
				put(float64(b.Relayed.FramesFromClients), fromClients)
				put(float64(b.Relayed.FramesFromBackends), fromBackends)
			}, "direction"),
		served.counter("backend_relayed_bytes_total", "Payload bytes of relayed data frames.",
			func(b *meter.BackendTotals, put put) {
				put(float64(b.Relayed.BytesFromClients), fromClients)
				put(float64(b.Relayed.BytesFromBackends), fromBackends)
			}, "direction"),
		served.histogram("session_wait_seconds", "Time from a client's request to its connection.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.Wait }),
		served.histogram("session_first_reply_seconds", "Time from the client's first whole message to the backend's next data.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.FirstReply }),
		served.histogram("session_duration_seconds", "Duration of ended sessions.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.Session }),
		served.histogram("backend_dial_seconds", "Time of a successful dial, up to the backend's greeting.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.Dial }),
		served.histogram("backend_reset_seconds", "Time of a successful reset of a connection after a session.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.Reset }),
		served.histogram("canary_seconds", "Time from a canary's first audio to its first result.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.Canary }),
		served.histogram("backend_ping_seconds", "Time from a ping to its pong.",
			func(b *meter.BackendTotals) *meter.Distribution { return &b.Times.Ping }),
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

// ofDiscovery returns the metrics of the lookups of names.
func ofDiscovery() []family {
	name := each[api.Discovery]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []api.Discovery { return s.Discovery },
		names:    func(d *api.Discovery) []string { return []string{d.Service, d.Backend} },
	}
	return []family{
		name.gauge("discovery_info", "Always 1, with the name that is looked up and its records: address, SRV or EndpointSlice.",
			func(d *api.Discovery, put put) { put(1, d.Host, d.Records) }, "host", "records"),
		name.gauge("discovery_servers", "Servers behind the name.",
			func(d *api.Discovery, put put) { put(float64(d.Servers)) }),
		name.gauge("discovery_failing", "1 while lookups fail or find no servers, otherwise 0.",
			func(d *api.Discovery, put put) { put(toFloat(!d.Failing.IsZero())) }),
		name.counter("discovery_lookups_total", "Lookups of the name, and changes that Kubernetes reported.",
			func(d *api.Discovery, put put) { put(float64(d.Lookups)) }),
		name.counter("discovery_failures_total", "Lookups that failed or found no servers.",
			func(d *api.Discovery, put put) { put(float64(d.Failures)) }),
	}
}
