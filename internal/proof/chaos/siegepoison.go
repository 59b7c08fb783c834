package chaos

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// poisonServers is how many servers well-behaved clients share with those who poison them.
const poisonServers = 3

// poisonable is newService for servers that end a session whose client says poison with 1011, and serve all others well.
func poisonable(name, protocol string, _, sessions int, _ *scenario, seed uint64, l *ledger) (*service, error) {
	v := &service{name: name, protocol: protocol, profile: protocol, sessions: sessions, ledger: l}
	for i := range poisonServers {
		server, err := sim.Start(sim.Options{Protocol: protocol, Seed: seed, Fail: sim.FailOptions{Poison: true}})
		if err != nil {
			v.stop()
			return nil, err
		}
		v.healthy = append(v.healthy, &healthyServer{name: fmt.Sprintf("%s-healthy-%d", name, i+1), sim: server})
	}
	return v, nil
}

// poisons says poison, and waits for the end.
func poisons(a *attack) error {
	if err := a.upgrade(""); err != nil {
		return err
	}
	if err := a.write(a.clientFrame(true, frame.Text, []byte("poison"))); err != nil {
		return err
	}
	return a.expect(frame.InternalError)
}

// takenOut returns the servers that got no new sessions for a while, and why.
func takenOut(stats *api.Stats) (all []string) {
	for i := range stats.Backends {
		switch b := &stats.Backends[i]; {
		case b.CircuitOpened > 0:
			all = append(all, fmt.Sprintf("the circuit of %s opened %d times: %s", b.Name, b.CircuitOpened, b.CircuitReason))
		case b.Outliers > 0:
			all = append(all, fmt.Sprintf("%s was left out %d times: %s", b.Name, b.Outliers, b.OutlierReason))
		}
	}
	return all
}
