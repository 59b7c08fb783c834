package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// discovering returns a content whose backend gpu stands for a DNS name, and the statistics of a proxy that has found two servers.
func discovering() (config.Content, api.Stats) {
	c := config.NewContent()
	c.Services["stt"] = config.DefaultService()
	for name, url := range map[string]string{"gpu": "ws://stt.test:2700/asr", "old": "ws://10.0.0.9:2700"} {
		b := config.DefaultBackend()
		b.Service, b.URL, b.Connections = "stt", url, 4
		if name == "gpu" {
			b.Discover = config.DiscoverDNS
		}
		c.Backends[name] = b
	}
	server := func(name, from string, leased int) api.Backend {
		return api.Backend{
			Name: name, Service: "stt", DiscoveredFrom: from, Health: api.Health{Reachable: true, Circuit: "closed"},
			Pool: api.Pool{State: "enabled", Usable: true, Cap: 4, Warm: 4, Weight: 1, Ceiling: 4, Idle: 4 - leased, Leased: leased},
		}
	}
	now := api.Stats{
		Backends:  []api.Backend{server("gpu@10.0.0.1:2700", "gpu", 1), server("gpu@[fd00::1]:2700", "gpu", 0), server("old", "", 2)},
		Discovery: []api.Discovery{{Backend: "gpu", Service: "stt", Host: "stt.test", Servers: 2, Asked: time.Now(), Failing: time.Now(), Reason: "refused"}},
	}
	diagnosis.Describe(&now)
	return c, now
}

// A list has a row for each server below its backend.
func TestListOfServers(t *testing.T) {
	c, now := discovering()
	r := backendRows(&c, c.Names(config.KindBackend), &now)
	var got []string
	for _, row := range r.cells {
		got = append(got, strings.Join([]string{row[0], row[3], row[6], row[7], row[8], row[9]}, " "))
	}
	want := []string{"gpu 4 enabled   2 servers, lookups fail", "  gpu@10.0.0.1:2700 4 enabled 3 1 healthy", "  gpu@[fd00::1]:2700 4 enabled 4 0 healthy", "old 4 enabled 2 2 healthy"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := forPrograms(&c, config.KindBackend, []string{"gpu"}, &now); !strings.Contains(string(all[0]), `"name":"gpu@[fd00::1]:2700"`) {
		t.Errorf("for programs: %s", all[0])
	}
}

// A discovered server cannot be changed by itself; the error says what can be done.
func TestServersCannotBeChanged(t *testing.T) {
	c, _ := discovering()
	for name, want := range map[string]string{
		"gpu@10.0.0.1:2700": "gpu@10.0.0.1:2700 was discovered for the backend gpu, and has no fields of its own: change gpu for all its servers, or add a backend " +
			"for this one, which takes it over with its sessions: wsbouncer backend add NAME ws://10.0.0.1:2700/asr --service stt --connections 4 --state draining",
		"old@10.0.0.1:2700": `unknown backend "old@10.0.0.1:2700": use one of gpu, old`,
		"gpo":               `unknown backend "gpo": did you mean "gpu"? Use one of gpu, old`,
	} {
		if err := known(&c, config.KindBackend, name); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
	if err := known(&c, config.KindBackend, "gpu", "old"); err != nil {
		t.Error(err)
	}
}

// Waiting for a backend with discover is waiting for each of its servers.
func TestWaitForServers(t *testing.T) {
	_, now := discovering()
	w := &waiter{names: []string{"gpu"}, to: enabling, version: "7"}
	left := func() string {
		w.proxy = &playedProxy{answers: []any{now}}
		text, _, err := w.left(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if text := left(); text != "" {
		t.Errorf("left: %s", text)
	}
	w.to = draining
	if text := left(); text != "gpu: version 7 is not in force yet" {
		t.Errorf("left: %s", text)
	}
	now.Backends[0].State, now.Backends[1].State = draining.state, draining.state
	if text := left(); text != "gpu@10.0.0.1:2700: 1 session left" {
		t.Errorf("left: %s", text)
	}
	now.Backends = now.Backends[2:] // no server was found yet
	if text := left(); text != "" {
		t.Errorf("left: %s", text)
	}
	w.to, now.Discovery[0].Reason = enabling, "no such host"
	if text := left(); text != "gpu: no server was found yet: no such host" {
		t.Errorf("left: %s", text)
	}
}
