package metrics

import "github.com/wsbouncer/wsbouncer/internal/operate/api"

// ofDiscovery returns the metrics of the lookups of DNS names.
func ofDiscovery() []family {
	name := each[api.Discovery]{
		labelled: []string{"service", "backend"},
		all:      func(s *Snapshot) []api.Discovery { return s.Discovery },
		names:    func(d *api.Discovery) []string { return []string{d.Service, d.Backend} },
	}
	return []family{
		name.gauge("discovery_info", "Always 1. The labels are the DNS name that is looked up for the backend, and the records: address or SRV.",
			func(d *api.Discovery, put put) { put(1, d.Host, d.Records) }, "host", "records"),
		name.gauge("discovery_servers", "Servers that the DNS name stands for.",
			func(d *api.Discovery, put put) { put(float64(d.Servers)) }),
		name.gauge("discovery_failing", "1 while lookups of the DNS name fail or find no servers, otherwise 0.",
			func(d *api.Discovery, put put) { put(toFloat(!d.Failing.IsZero())) }),
		name.counter("discovery_lookups_total", "Lookups of the DNS name.",
			func(d *api.Discovery, put put) { put(float64(d.Lookups)) }),
		name.counter("discovery_failures_total", "Lookups of the DNS name that failed or found no servers.",
			func(d *api.Discovery, put put) { put(float64(d.Failures)) }),
	}
}
