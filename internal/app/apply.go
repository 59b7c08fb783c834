package app

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
)

// apply puts a snapshot in force. Services then calls warnOfNeeds.
func (p *Proxy) apply(snapshot *config.Snapshot) error {
	if err := CheckHealthPath(p.settings.HealthPath, snapshot.Content().Services); err != nil {
		return err
	}
	err := p.services.Apply(snapshot)
	p.poke()
	return err
}

// lacks are the log's messages about resources of which there is too little.
var lacks = map[string]string{
	machine.ResourceDescriptors: "file-descriptor limit too low", machine.ResourceMemory: "memory limit too low",
	machine.ResourcePorts: "too few local ports",
}

// warnOf warns of what is likely wrong with a configuration that was put in force. See [services.Options.InForce].
func (p *Proxy) warnOf(snapshot *config.Snapshot, found map[string][]string) {
	p.warnOfHosts(snapshot)
	p.warnOfSecrets(snapshot)
	p.warnOfNeeds(snapshot, found)
}

func (p *Proxy) warnOfSecrets(snapshot *config.Snapshot) {
	warnings := services.SecretWarnings(snapshot, p.secrets)
	for _, text := range warnings {
		if !slices.Contains(p.warnedOf, text) {
			p.log.Warn(text)
		}
	}
	p.warnedOf = warnings
}

// warnOfNeeds warns of each resource of which there is too little for a snapshot and the servers that were found (see Need), unless the
// warning is the last one. Calls must not overlap.
func (p *Proxy) warnOfNeeds(snapshot *config.Snapshot, found map[string][]string) {
	need := Need(snapshot, p.settings.Sources(), found)
	need.SecureClients = len(p.settings.TLSListen) > 0
	warnings := machine.Warnings(need.Demands(machine.Granted()))
	for _, resource := range slices.Sorted(maps.Keys(warnings)) {
		if text := warnings[resource]; text != p.warned[resource] {
			p.log.Warn(lacks[resource], "reason", text)
		}
	}
	p.warned = warnings
}

// Need returns the most that a configuration may need of this machine. from are the addresses that servers are dialed from; none for the
// system's choice. found are the servers, host:port, of backends with discover, by their names; one that is not there counts as one
// server. Without a snapshot it is what a proxy without services needs.
func Need(snapshot *config.Snapshot, from []netip.Addr, found map[string][]string) machine.Need {
	var n machine.Need
	if snapshot == nil {
		return n
	}
	servers := make(map[string]*machine.Server)
	for name, service := range snapshot.Services() {
		n.Waiting += service.Queue
		if at := probeAddress(service.Probe); at != "" && countSources(from, at) == 0 {
			servers[at] = &machine.Server{Address: at, Connections: 1} // such a probe would never have a result
		}
		for backend, b := range snapshot.Members(name) {
			if b.State == pool.Disabled.String() {
				continue
			}
			address, secure := config.AddressOf(b.URL)
			addresses := found[backend]
			if b.Discover == "" || len(addresses) == 0 {
				addresses = []string{address}
			}
			for _, address := range addresses {
				n.Connections += b.Cap()
				if secure {
					n.Secure += b.Cap()
				}
				s := servers[address]
				if s == nil {
					s = &machine.Server{Address: address, Sources: countSources(from, address)}
					servers[address] = s
				}
				s.Connections += b.Cap()
			}
			if s := servers[address]; b.Discover != "" && len(found[backend]) == 0 && !s.Each {
				s.Each = true
				n.Each = append(n.Each, address)
			}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(servers)) {
		n.Servers = append(n.Servers, *servers[address])
	}
	slices.Sort(n.Each)
	return n
}

// probeAddress returns the host:port that a service's health check is sent to, if it names a host; otherwise empty.
func probeAddress(probe string) string {
	u, err := url.Parse(probe)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// countSources returns from how many local addresses a server, host:port, is dialed. If its host is a name, whose family is not known, the
// family with fewer addresses counts.
func countSources(from []netip.Addr, server string) int {
	if len(from) == 0 {
		return 1 // which the system chooses
	}
	suitable := dialfrom.Suitable(from, server)
	four := 0
	for _, a := range suitable {
		if a.Is4() {
			four++
		}
	}
	six := len(suitable) - four
	if four == 0 || six == 0 {
		return len(suitable)
	}
	return min(four, six)
}

// Needs returns the most that the only service in flags-only operation may need of this machine. The settings must have passed Check.
func (s *Settings) Needs() machine.Need {
	_, draft, err := s.draft()
	if err != nil {
		return machine.Need{}
	}
	need := Need(draft.Snapshot(), s.Sources(), nil)
	need.SecureClients = len(s.TLSListen) > 0
	return need
}
