package metrics

import (
	"time"
)

// configurationStates are the states of the configuration in the statistics.
var configurationStates = []string{"current", "stale", "copied"}

// ofConfiguration returns the metrics of the configuration in force, and of what it has removed from service.
func ofConfiguration() []family {
	return []family{
		gauge("config_info", "Always 1. The label is the source of the configuration.",
			func(s *Snapshot, put put) { put(1, s.Configuration.Source) }, "source"),
		gauge("config_state",
			"1 for the state of the configuration in force, 0 for the others: current, stale (the store fails, and the proxy "+
				"uses the last configuration that it read) or copied (the store has failed since startup, and the proxy uses the copy on disk).",
			func(s *Snapshot, put put) { putState(put, s.Configuration.State, configurationStates...) }, "state"),
		gauge("config_state_since_timestamp_seconds", "Unix time at which this state began.",
			func(s *Snapshot, put put) { put(unix(s.Configuration.Since)) }),
		gauge("config_applied_timestamp_seconds", "Unix time at which the configuration came into force.",
			func(s *Snapshot, put put) { put(unix(s.Configuration.Applied)) }),
		counter("config_changes_total", "Configurations that came into force, including the first.",
			func(s *Snapshot, put put) { put(float64(s.Configuration.Changes)) }),
		counter("config_failures_total", "Failures to read or apply the configuration.",
			func(s *Snapshot, put put) { put(float64(s.Configuration.Failed)) }),
		gauge("leaving_backends", "Removed backends that still have connections.",
			func(s *Snapshot, put put) { put(float64(len(s.Leaving))) }),
		gauge("leaving_connections", "Connections of removed backends. Most belong to running sessions.",
			func(s *Snapshot, put put) {
				n := 0
				for _, l := range s.Leaving {
					n += l.Leased + l.Resetting + l.Retiring
				}
				put(float64(n))
			}),
	}
}

// unix returns a time as a metric's value, in seconds since 1970; 0 for never.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
