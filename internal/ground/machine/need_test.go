package machine

import (
	"strings"
	"testing"
)

// need is what a configuration with 60 connections to two servers needs: about 40 MiB.
func need() Need {
	return Need{Connections: 60, Waiting: 300, Servers: []Server{{Address: "a:1", Connections: 20, Sources: 1}, {Address: "b:1", Connections: 40, Sources: 1}}}
}

// plenty is a machine that has enough for it.
func plenty() Here {
	return Here{Descriptors: 1000, Memory: 1 << 30, MemoryOf: "the machine", Ports: 100}
}

func TestEnough(t *testing.T) {
	n := need()
	for _, here := range []Here{plenty(), {Descriptors: n.Descriptors(), Memory: n.Memory(), Ports: 40}, {Descriptors: unlimited, Memory: -1, Ports: -1}} {
		demands := n.Demands(here)
		if warnings := Warnings(demands); len(warnings) > 0 {
			t.Errorf("%+v: %q", here, warnings)
		}
		var order []string
		for _, d := range demands {
			order = append(order, d.Resource+" "+d.Server)
		}
		if got := strings.Join(order, ", "); got != "file descriptors , memory , local ports b:1, local ports a:1" {
			t.Errorf("%+v: demands are %s", here, got)
		}
	}
}

func TestTooLittle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Need, *Here)
		lacks  string
		says   []string
	}{
		"descriptors": {func(_ *Need, h *Here) { h.Descriptors = 64 }, ResourceDescriptors, []string{
			"limit is 64", "up to 620", "120 for 60 connections", "300 for clients in queues", "ulimit -n 620", "LimitNOFILE=620",
		}},
		"memory": {func(_ *Need, h *Here) { h.Memory = 16 << 20 }, ResourceMemory, []string{
			"the memory limit is 16 MiB (of the machine)", "about 39 MiB may be needed, for 60 connections", "300 clients in queues", "MemoryMax=",
		}},
		"memory for TLS":              {func(n *Need, h *Here) { n.Secure, h.Memory = 60, n.Memory() }, ResourceMemory, []string{"of the machine"}},
		"memory for TLS with clients": {func(n *Need, h *Here) { n.SecureClients, h.Memory = true, n.Memory() }, ResourceMemory, []string{"of the machine"}},
		"ports": {func(_ *Need, h *Here) { h.Ports = 30 }, ResourcePorts, []string{
			"b:1 may get 40 connections, but there are 30 local ports", "at least 2 local addresses to dial from (dial-from)", "net.ipv4.ip_local_port_range",
		}},
		"ports of both":              {func(_ *Need, h *Here) { h.Ports = 10 }, ResourcePorts, []string{"b:1 may get 40 connections", "at least 4 local addresses", "(and 1 other server: see 'wsbouncer check')"}},
		"ports of several addresses": {func(n *Need, h *Here) { n.Servers[1].Connections, n.Servers[1].Sources, h.Ports = 41, 2, 20 }, ResourcePorts, []string{"b:1 may get 41 connections, but there are 40 local ports", "at least 3 local addresses"}},
		"no address of the family":   {func(n *Need, _ *Here) { n.Servers[0].Sources = 0 }, ResourcePorts, []string{"a:1 cannot be dialed: dial-from has no IPv4 address; add one"}},
	} {
		n, here := need(), plenty()
		c.change(&n, &here)
		warnings := Warnings(n.Demands(here))
		if len(warnings) != 1 || warnings[c.lacks] == "" {
			t.Errorf("%s: %q", name, warnings)
		}
		for _, part := range c.says {
			if !strings.Contains(warnings[c.lacks], part) {
				t.Errorf("%s: %q is not in %q", name, part, warnings[c.lacks])
			}
		}
	}
	n, here := need(), plenty()
	n.Servers[1].Sources, here.Ports = 2, 20
	if warnings := Warnings(n.Demands(here)); len(warnings) > 0 {
		t.Errorf("two addresses have as many ports each: %q", warnings)
	}
}

// What servers behind a name need is for each of them.
func TestEachServer(t *testing.T) {
	n := need()
	n.Each, n.Servers[0].Each = []string{"a:1"}, true
	for _, d := range n.Demands(plenty()) {
		if want := d.Server != "b:1"; d.Each != want {
			t.Errorf("%s %s: %t; want %t", d.Resource, d.Server, d.Each, want)
		}
	}
}
