package app

import (
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// usageOf returns what the API says of what clients have used.
func usageOf(u *meter.Used) api.Usage {
	if u == nil {
		u = new(meter.Used)
	}
	seconds := func(micros uint64) float64 { return float64(micros) / 1e6 }
	return api.Usage{
		AudioInSeconds: seconds(u.In.Micros), AudioInEstimatedSeconds: seconds(u.In.Estimated), AudioInUnknownBytes: u.In.Unknown,
		AudioOutSeconds: seconds(u.Out.Micros), AudioOutEstimatedSeconds: seconds(u.Out.Estimated), AudioOutUnknownBytes: u.Out.Unknown,
		Results: u.Results,
	}
}
