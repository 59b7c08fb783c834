package metrics

import (
	"strings"

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
		service.gauge("service_info", "Always 1, with the requested host and path (empty for any), profile and balance.",
			func(s *api.Service, put put) { put(1, s.Host, s.Path, s.Profile, s.Balance) }, "host", "path", "profile", "balance"),
		service.gauge("service_utilization_ratio",
			"(leased + resetting + waiting) / places that take sessions now. Above 1, clients wait. Fleet-wide.",
			func(s *api.Service, put put) { put(s.Utilisation) }),
		service.gauge("service_utilisation_ratio", "Former name of wsbouncer_service_utilization_ratio.",
			func(s *api.Service, put put) { put(s.Utilisation) }),
		service.gauge("service_fleet_waiting_clients", "Clients that wait. Fleet-wide.",
			func(s *api.Service, put put) { put(float64(s.Fleet.Waiting)) }),
		service.gauge("service_fleet_oldest_wait_seconds", "Time that the first client has waited, or 0. Fleet-wide.",
			func(s *api.Service, put put) { put(s.Fleet.OldestSeconds) }),
		service.gauge("service_fleet_needed_places", "Sessions and waiting clients. Fleet-wide.",
			func(s *api.Service, put put) { put(float64(s.Fleet.Needs)) }),
		service.gauge("service_fleet_capacity_places",
			"Places that take sessions now: of working backends, or of all enabled ones if none works. Fleet-wide.",
			func(s *api.Service, put put) { put(float64(s.Fleet.Capacity)) }),
		service.gauge("service_paused", "1 while the service is paused and clients wait.",
			func(s *api.Service, put put) { put(toFloat(s.Paused)) }),
		service.gauge("queue_limit", "Maximum number of waiting clients.",
			func(s *api.Service, put put) { put(float64(s.Queue.Limit)) }),
		service.gauge("queue_waiting", "Clients that wait now.",
			func(s *api.Service, put put) { put(float64(s.Queue.Waiting)) }),
		service.gauge("queue_oldest_wait_seconds", "Time that the first client in the queue has waited, or 0.",
			func(s *api.Service, put put) { put(s.Queue.OldestSeconds) }),
		service.counter("queue_queued_total", "Clients that joined the queue.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Queued)) }),
		service.counter("queue_served_total", "Queued clients that got a connection.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Served)) }),
		service.counter("queue_timed_out_total", "Queued clients without a connection within queue-timeout.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.TimedOut)) }),
		service.counter("queue_left_total", "Queued clients that left.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Left)) }),
		service.counter("queue_turned_away_total", "Queued clients whose wait ended by shutdown, an operator, or removal of the service.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.TurnedAway)) }),
		service.counter("queue_refused_total", "Queued clients whose own connection the server refused.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Refused)) }),
		service.counter("queue_full_total", "Clients that could not wait: queue full, or none.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Full)) }),
		service.counter("queue_evicted_total", "Queued clients whose place a client of another tenant got.",
			func(s *api.Service, put put) { put(float64(s.Queue.Totals.Evicted)) }),
		service.counter("queue_waited_seconds_total", "Total waiting time of served clients.",
			func(s *api.Service, put put) { put(s.Queue.Totals.WaitedSeconds) }),
		service.counter("affinity_total",
			"Clients with an id from a server: hit (they returned to it), miss (unknown id) or gone (it was gone, full or drained).",
			func(s *api.Service, put put) {
				if a := s.Affinity; a != nil {
					put(float64(a.Hits), "hit")
					put(float64(a.Misses), "miss")
					put(float64(a.Gone), "gone")
				}
			}, "result"),
		service.gauge("affinity_ids", "Ids from servers that the proxy remembers.", func(s *api.Service, put put) {
			if a := s.Affinity; a != nil {
				put(float64(a.IDs))
			}
		}),
		service.counter("audio_seconds_total", "Audio of known duration, some of it estimated (see 'wsbouncer usage').",
			func(s *api.Service, put put) { putAudio(&s.Used, put) }, "direction"),
		service.counter("audio_unknown_bytes_total", "Payload bytes of unknown duration, such as compressed audio.",
			func(s *api.Service, put put) {
				put(float64(s.Used.AudioInUnknownBytes), fromClients)
				put(float64(s.Used.AudioOutUnknownBytes), fromBackends)
			}, "direction"),
		service.counter("results_total", "Messages that servers sent to clients.", func(s *api.Service, put put) { put(float64(s.Used.Results)) }),
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
		gauge("tenants_unconfigured", "Unconfigured tenants with sessions or waiting clients.",
			func(s *Snapshot, put put) { put(float64(s.OtherTenants.Count)) }),
		tenant.gauge("tenant_sessions", "Connections that the tenant's sessions use now. other: all unconfigured tenants.",
			func(t *api.Tenant, put put) { put(float64(t.Sessions)) }),
		tenant.gauge("tenant_share", "Share of each service's connections, relative to other tenants.",
			func(t *api.Tenant, put put) { put(t.Share) }),
		tenant.gauge("tenant_waiting", "Clients of the tenant that wait now.",
			func(t *api.Tenant, put put) { put(float64(t.Waiting)) }),
		growing(tenant.counter("tenant_sessions_total", "Connections leased to the tenant's clients.",
			func(t *api.Tenant, put put) { put(float64(t.Totals.Sessions)) })),
		growing(tenant.counter("tenant_queued_total", "Clients of the tenant that joined a queue.",
			func(t *api.Tenant, put put) { put(float64(t.Totals.Queued)) })),
		growing(tenant.counter("tenant_refused_total",
			"Clients of the tenant without a connection: timed_out, full (queue), evicted (by another tenant) or limited (by the tenant's limits).",
			func(t *api.Tenant, put put) {
				put(float64(t.Totals.TimedOut), "timed_out")
				put(float64(t.Totals.Full), "full")
				put(float64(t.Totals.Evicted), "evicted")
				put(float64(t.Totals.Limited), "limited")
			}, "reason")),
		growing(tenant.counter("tenant_audio_seconds_total", "Audio of known duration of the tenant's clients.",
			func(t *api.Tenant, put put) { putAudio(&t.Used, put) }, "direction")),
	}
}

// growing has a counter of tenants never fall: not that of the others when one of them gets its own series, and none when a service is removed with what it
// has counted. Nor do the others get what a tenant that loses its series had counted before. When a tenant gets its own series, it is not known
// how much of that was in theirs: they are taken not to have grown unless their sum has, and may lack what they have counted since the last read. Reads must
// not overlap.
func growing(f family) family {
	read := f.read
	type count struct {
		labels     []string
		raw, shown float64
	}
	var last map[string]count
	f.read = func(s *Snapshot, put put) {
		var all []count
		known := make(map[string]bool)
		key := func(labels []string) string { return strings.Join(labels, "\xff") }
		read(s, func(value float64, labels ...string) {
			all = append(all, count{labels, value, value})
			known[key(labels)] = true
		})
		moved := make(map[string]float64) // to the others, by the key of their series
		for k, c := range last {
			if !known[k] {
				moved[key(append([]string{otherTenant}, c.labels[1:]...))] += c.raw
			}
		}
		now := make(map[string]count, len(all))
		for _, c := range all {
			key := key(c.labels)
			if before, ok := last[key]; ok {
				c.shown = before.shown + max(0, c.raw-before.raw-moved[key])
			}
			now[key] = c
			put(c.shown, c.labels...)
		}
		last = now
	}
	return f
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
