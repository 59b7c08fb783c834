package metrics

import (
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// ofServices returns the metrics of services, most of them about their queues.
func ofServices() []family {
	service := each[api.Service]{
		labelled: []string{"service"},
		all:      func(s *Snapshot) []api.Service { return s.Services },
		names:    func(s *api.Service) []string { return []string{s.Name} },
	}
	return []family{
		service.gauge("service_info",
			"Always 1. The labels are the host and path that clients request (empty for any), the profile, and how the proxy "+
				"chooses a backend.",
			func(s *api.Service, put put) { put(1, s.Host, s.Path, s.Profile, s.Balance) }, "host", "path", "profile", "balance"),
		service.gauge("service_utilization_ratio",
			"Sessions and waiting clients of all proxies that share the servers, divided by the places that take sessions now: "+
				"(leased + resetting + waiting) / places. Above 1, clients wait. Each proxy reports the same: take the maximum.",
			func(s *api.Service, put put) { put(s.Utilisation) }),
		service.gauge("service_utilisation_ratio", "The same as wsbouncer_service_utilization_ratio, under its former name.",
			func(s *api.Service, put put) { put(s.Utilisation) }),
		service.gauge("service_fleet_waiting_clients",
			"Clients that wait for a connection at all proxies that share the servers. Each proxy reports the same: take the maximum.",
			func(s *api.Service, put put) { put(float64(s.Fleet.Waiting)) }),
		service.gauge("service_fleet_oldest_wait_seconds",
			"How long the first client has waited, at any proxy that shares the servers; 0 if no client waits. Each proxy reports the "+
				"same: take the maximum.",
			func(s *api.Service, put put) { put(s.Fleet.OldestSeconds) }),
		service.gauge("service_fleet_needed_places",
			"Connections that sessions use, and clients that wait, at all proxies that share the servers. Each proxy reports the "+
				"same: take the maximum.",
			func(s *api.Service, put put) { put(float64(s.Fleet.Needs)) }),
		service.gauge("service_fleet_capacity_places",
			"Places that take sessions now: caps of the backends that work, less where a server says that it is full. While none "+
				"works, the caps of those that are enabled. Each proxy reports what it sees: take the maximum.",
			func(s *api.Service, put put) { put(float64(s.Fleet.Capacity)) }),
		service.gauge("service_paused", "1 while the service is paused: clients wait in the queue. Otherwise 0.",
			func(s *api.Service, put put) { put(toFloat(s.Paused)) }),
		service.gauge("queue_limit", "Maximum number of waiting clients; 0 if clients do not wait.",
			func(s *api.Service, put put) { put(float64(s.Queue.Limit)) }),
		service.gauge("queue_waiting", "Clients that wait for a connection now.",
			func(s *api.Service, put put) { put(float64(s.Queue.Waiting)) }),
		service.gauge("queue_oldest_wait_seconds", "How long the first client in the queue has waited; 0 if no client waits.",
			func(s *api.Service, put put) { put(s.Queue.OldestSeconds) }),
		service.counter("queue_queued_total", "Clients that joined the queue because no connection was free.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Queued)) }),
		service.counter("queue_served_total", "Clients that waited and got a connection.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Served)) }),
		service.counter("queue_timed_out_total", "Clients that waited and got no connection in time.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.TimedOut)) }),
		service.counter("queue_left_total", "Clients that left while they waited.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Left)) }),
		service.counter("queue_turned_away_total", "Clients that still waited when the proxy shut down.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.TurnedAway)) }),
		service.counter("queue_refused_total", "Clients that waited and whose own connection the server refused.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Refused)) }),
		service.counter("queue_full_total", "Clients that could not wait, because the queue was full or the service has none.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Full)) }),
		service.counter("queue_evicted_total", "Clients whose place in the full queue a client of another tenant got.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Evicted)) }),
		service.counter("queue_waited_seconds_total",
			"Total waiting time of the clients that got a connection from the queue.",
			func(s *api.Service, put put) { put(s.Queue.Totals.WaitedSeconds) }),
		service.counter("affinity_total", "Clients that said an id that a server had given them, by result: hit (they came back to that server), miss "+
			"(the id is not known) or gone (the server was gone, full or drained).",
			func(s *api.Service, put put) {
				if a := s.Affinity; a != nil {
					put(float64(a.Hits), "hit")
					put(float64(a.Misses), "miss")
					put(float64(a.Gone), "gone")
				}
			}, "result"),
		service.gauge("affinity_ids", "Ids of which it is remembered which server has given them.", func(s *api.Service, put put) {
			if a := s.Affinity; a != nil {
				put(float64(a.IDs))
			}
		}),
		service.counter("audio_seconds_total", "Audio of known duration, by the side that sent it. Some of it may be estimated, see the report of wsbouncer usage.",
			func(s *api.Service, put put) { putAudio(&s.Used, put) }, "direction"),
		service.counter("audio_unknown_bytes_total", "Payload bytes in formats whose duration is not known, such as compressed audio, by the side that sent them.",
			func(s *api.Service, put put) {
				put(float64(s.Used.AudioInUnknownBytes), fromClients)
				put(float64(s.Used.AudioOutUnknownBytes), fromBackends)
			}, "direction"),
		service.counter("results_total", "Messages that servers have sent to clients.", func(s *api.Service, put put) { put(float64(s.Used.Results)) }),
	}
}

func putAudio(u *api.Usage, put put) {
	put(u.AudioInSeconds, fromClients)
	put(u.AudioOutSeconds, fromBackends)
}

// otherTenant is the label of all tenants together that the configuration does not name, so that clients cannot add series.
const otherTenant = "other"

// ofTenants returns the metrics of tenants.
func ofTenants() []family {
	tenant := each[api.Tenant]{
		labelled: []string{"tenant"},
		all:      labelledTenants,
		names:    func(t *api.Tenant) []string { return []string{t.Name} },
	}
	return []family{
		gauge("tenants_unconfigured", "Tenants with sessions or waiting clients that the configuration does not name.",
			func(s *Snapshot, put put) { put(float64(s.OtherTenants.Count)) }),
		tenant.gauge("tenant_sessions", "Connections that sessions of the tenant use now. The tenant "+otherTenant+" stands for all that are "+
			"not configured.",
			func(t *api.Tenant, put put) { put(float64(t.Sessions)) }),
		tenant.gauge("tenant_share", "Share of each service's connections, relative to the other tenants; 0 for the tenant "+otherTenant+".",
			func(t *api.Tenant, put put) { put(t.Share) }),
		tenant.gauge("tenant_waiting", "Clients of the tenant that wait for a connection now.",
			func(t *api.Tenant, put put) { put(float64(t.Waiting)) }),
		tenant.counter("tenant_sessions_total", "Connections that were leased to clients of the tenant.",
			func(t *api.Tenant, put put) { put(float64(t.Totals.Sessions)) }),
		tenant.counter("tenant_queued_total", "Clients of the tenant that joined a queue because no connection was free.",
			func(t *api.Tenant, put put) { put(float64(t.Totals.Queued)) }),
		tenant.counter("tenant_refused_total", "Clients of the tenant that got no connection: they waited without success (timed_out), found the queue "+
			"full (full), lost their place in the full queue to another tenant (evicted), or met the tenant's session-limit, session-rate or audio-quota (limited).",
			func(t *api.Tenant, put put) {
				put(float64(t.Totals.TimedOut), "timed_out")
				put(float64(t.Totals.Full), "full")
				put(float64(t.Totals.Evicted), "evicted")
				put(float64(t.Totals.Limited), "limited")
			}, "reason"),
		tenant.counter("tenant_audio_seconds_total", "Audio of known duration of the tenant's clients, by the side that sent it.",
			func(t *api.Tenant, put put) { putAudio(&t.Used, put) }, "direction"),
	}
}

// labelledTenants returns the configured tenants, and the others as one.
func labelledTenants(s *Snapshot) (all []api.Tenant) {
	others := api.Tenant{Name: otherTenant, Sessions: s.OtherTenants.Sessions, Waiting: s.OtherTenants.Waiting, Totals: s.OtherTenants.Totals, Used: s.OtherTenants.Used}
	for _, t := range s.Tenants {
		switch {
		case t.Unconfigured:
		case t.Name == otherTenant: // one series for both
			others.Sessions += t.Sessions
			others.Waiting += t.Waiting
			others.Totals.Add(&t.Totals)
			others.Used.AudioInSeconds += t.Used.AudioInSeconds
			others.Used.AudioOutSeconds += t.Used.AudioOutSeconds
		default:
			all = append(all, t)
		}
	}
	if len(s.Tenants) == 0 && others.Totals == (api.TenantTotals{}) {
		return nil // clients have no tenants
	}
	return append(all, others)
}
