package app

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
)

func TestReplayMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ setting, machine, want int64 }{
		{0, 32 << 30, 1 << 30}, {0, 2 << 30, 256 << 20}, {0, -1, 1 << 30}, {4 << 30, 8 << 30, 4 << 30}, {1 << 20, -1, 1 << 20},
	} {
		if got := ReplayMemory(c.setting, machine.Here{Memory: c.machine}); got != c.want {
			t.Errorf("setting %d on a machine with %d bytes: %d; want %d", c.setting, c.machine, got, c.want)
		}
	}
}

// The memory is shown if a service uses it: for failover, or for clients that come back.
func TestReplayShown(t *testing.T) {
	t.Parallel()
	p := &Proxy{replay: replay.NewArena(1 << 20)}
	for _, c := range []struct {
		service api.Service
		shown   bool
	}{
		{api.Service{}, false},
		{api.Service{Failover: &api.ServiceFailover{Mode: "off"}}, false},
		{api.Service{Failover: &api.ServiceFailover{Mode: "replay"}}, true},
		{api.Service{ReconnectSeconds: 30}, true},
	} {
		stats := api.Stats{Services: []api.Service{c.service}}
		if p.failoverStats(&stats, nil); (stats.Replay != nil) != c.shown {
			t.Errorf("%+v: shown is %t; want %t", c.service, stats.Replay != nil, c.shown)
		}
	}
}
