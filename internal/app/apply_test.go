package app

import (
	"bytes"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

// snapshotOf returns a configuration with these backends of one service.
func snapshotOf(t *testing.T, backends map[string]config.Backend) *config.Snapshot {
	t.Helper()
	content := config.NewContent()
	service := config.DefaultService()
	service.Queue = 7
	content.Services["stt"] = service
	for name, given := range backends {
		b := config.DefaultBackend()
		b.Service, b.URL, b.Connections, b.Discover = "stt", given.URL, given.Connections, given.Discover
		if given.State != "" {
			b.State = given.State
		}
		content.Backends[name] = b
	}
	snapshot, err := config.NewSnapshot("1", &content, config.CheckProfiles)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// Backends that share an address share its ports, and disabled ones need nothing.
func TestNeed(t *testing.T) {
	t.Parallel()
	snapshot := snapshotOf(t, map[string]config.Backend{
		"a": {URL: "ws://10.0.0.1:2700/a", Connections: 10}, "b": {URL: "ws://10.0.0.1:2700/b", Connections: 20},
		"c": {URL: "wss://[fd00::1]/", Connections: 30}, "d": {URL: "ws://10.0.0.4/", Connections: 40, State: "disabled"},
		"e": {URL: "ws://GPU.example:80/", Connections: 50, Discover: "dns"},
	})
	four, four2, six := netip.MustParseAddr("10.0.0.8"), netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::8")
	for _, c := range []struct {
		from []netip.Addr
		want [3]int // addresses to dial these servers from
	}{
		{nil, [3]int{1, 1, 1}},
		{[]netip.Addr{four, four2}, [3]int{2, 0, 2}},
		{[]netip.Addr{four, four2, six}, [3]int{2, 1, 1}},
	} {
		n := Need(snapshot, c.from, nil)
		want := []machine.Server{
			{Address: "10.0.0.1:2700", Connections: 30, Sources: c.want[0]},
			{Address: "[fd00::1]:443", Connections: 30, Sources: c.want[1]},
			{Address: "gpu.example:80", Connections: 50, Each: true, Sources: c.want[2]},
		}
		if n.Connections != 110 || n.Secure != 30 || n.Waiting != 7 || !slices.Equal(n.Servers, want) || !slices.Equal(n.Each, []string{"gpu.example:80"}) {
			t.Errorf("from %v: %+v", c.from, n)
		}
	}
	found := map[string][]string{"e": {"10.0.0.1:2700", "10.0.0.9:80"}, "a": {"no backend with discover"}}
	n := Need(snapshot, nil, found)
	if got := n.Servers; n.Connections != 160 || len(n.Each) != 0 || len(got) != 3 ||
		got[0] != (machine.Server{Address: "10.0.0.1:2700", Connections: 80, Sources: 1}) || got[1].Address != "10.0.0.9:80" || got[1].Each {
		t.Errorf("with two servers found: %+v", n)
	}
	if n := Need(nil, nil, nil); n.Connections != 0 || len(n.Servers) != 0 {
		t.Errorf("of nothing: %+v", n)
	}
}

// A change that makes the configuration too large is warned of once.
func TestWarnsOnce(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the number of local ports is not known")
	}
	var log bytes.Buffer
	p := &Proxy{log: slog.New(slog.NewTextHandler(&log, nil))}
	large := func(connections int) *config.Snapshot {
		return snapshotOf(t, map[string]config.Backend{"a": {URL: "ws://10.0.0.1:2700", Connections: connections}})
	}
	for i, step := range []struct {
		connections int
		warns       bool
	}{{100, false}, {100_000, true}, {100_000, false}, {99_999, true}, {100, false}, {99_999, true}} {
		log.Reset()
		p.warnOfNeeds(large(step.connections), nil)
		if got := strings.Count(log.String(), `msg="too few local ports"`); got != map[bool]int{true: 1}[step.warns] {
			t.Errorf("step %d, %d connections:\n%s", i, step.connections, log.String())
		}
	}
}

// A health check that no address can be used for is like a server that none can be used for.
func TestNeedOfProbes(t *testing.T) {
	t.Parallel()
	snapshot := snapshotOf(t, map[string]config.Backend{"a": {URL: "ws://10.0.0.1:2700/", Connections: 10}})
	content := snapshot.Content()
	from := []netip.Addr{netip.MustParseAddr("10.0.0.8")}
	for probe, want := range map[string]int{"": 1, "upgrade": 1, "/health": 1, "http://10.0.0.9/health": 1, "http://gpu/health": 1, "https://[::1]/health": 2} {
		service := content.Services["stt"]
		service.Probe = probe
		content.Services["stt"] = service
		next, err := config.NewSnapshot("2", &content, config.CheckProfiles)
		if err != nil {
			t.Fatal(err)
		}
		n := Need(next, from, nil)
		if len(n.Servers) != want || want == 2 && n.Servers[1] != (machine.Server{Address: "[::1]:443", Connections: 1}) {
			t.Errorf("%q: %+v", probe, n.Servers)
		}
	}
}
