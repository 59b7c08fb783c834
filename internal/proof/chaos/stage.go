package chaos

import (
	"context"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// stage starts servers and proxies, and waits until they are ready.
func (r *run) stage(ctx context.Context, directory string) error {
	var mixed, alone []*scenario
	for _, s := range r.chosen {
		switch s.kind() {
		case "server":
			mixed = append(mixed, s)
		case "client":
			if s.behave != nil {
				alone = append(alone, s)
			}
		}
	}
	// If there are services with a hostile server, those with healthy servers only get a third of the sessions.
	share := r.options.Sessions
	if len(mixed) > 0 {
		share /= 3
	}
	main, err := r.healthyServices(share)
	if err != nil {
		return err
	}
	for _, s := range alone {
		v, err := r.add(s.name, s.protocol, 0, 0, s)
		if err != nil {
			return err
		}
		main = append(main, v)
	}
	for i, s := range mixed {
		v, err := r.add(s.name, s.protocol, 1, part(r.options.Sessions-share, i, len(mixed)), s)
		if err != nil {
			return err
		}
		main = append(main, v)
	}
	if r.main, err = r.start(ctx, "main", directory, machine{}, main); err != nil {
		return err
	}
	for _, s := range r.chosen {
		if s.machine == nil {
			continue
		}
		v, err := r.add(s.name, s.protocol, 2, machineSessions, s)
		if err != nil {
			return err
		}
		v.cap = machineCap
		if _, err := r.start(ctx, s.name, directory, *s.machine, []*service{v}); err != nil {
			return err
		}
	}
	return nil
}

// healthyServices starts the services that have only healthy servers, for that many sessions. The operator changes the last one.
func (r *run) healthyServices(sessions int) (all []*service, err error) {
	kinds := []struct {
		name, protocol string
		servers        int
	}{{"echo", sim.Echo, 2}, {"vosk", sim.Vosk, 2}, {"funasr", sim.FunASR, 2}, {"keys", sim.Deepgram, 2}, {"operated", sim.Echo, 3}}
	for i, k := range kinds {
		v, err := r.add(k.name, k.protocol, k.servers, part(sessions, i, len(kinds)), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	r.operated = all[len(all)-1]
	return all, nil
}

// part returns the i-th part of n, at least 1.
func part(n, i, of int) int { return max(1, n*(i+1)/of-n*i/of) }

// add starts the servers of a service.
func (r *run) add(name, protocol string, healthy, sessions int, s *scenario) (*service, error) {
	v, err := newService(name, protocol, healthy, sessions, s, r.seed(name), r.ledger)
	if err != nil {
		return nil, err
	}
	r.staged = append(r.staged, v)
	v.first = uint64(len(r.staged)-1)*1e9 + 1
	return v, nil
}

// start starts a proxy with these services, and waits until each healthy server that keeps warm connections has one.
func (r *run) start(ctx context.Context, name, directory string, m machine, services []*service) (*proxy, error) {
	config := &configuration{backends: make(map[string]backend)}
	for _, s := range services {
		config.add(s)
	}
	p, err := startProxy(ctx, r.options.Binary, name, directory, config, m)
	if err != nil {
		return nil, err
	}
	r.proxies = append(r.proxies, p)
	r.services[p] = services
	if err := config.write(config.text()); err != nil {
		return nil, err
	}
	return p, p.until(ctx, "healthy servers have connections", func() (bool, error) {
		s, err := p.Stats(ctx)
		if err != nil || len(s.Backends) != len(config.backends) {
			return false, nil
		}
		for _, b := range s.Backends {
			if b.Idle == 0 && b.Totals.Dialed == 0 && strings.Contains(b.Name, "-healthy-") && b.Profile != sim.Deepgram {
				return false, nil
			}
		}
		return true, nil
	})
}

// clear stops all proxies and servers.
func (r *run) clear() {
	for _, p := range r.proxies {
		p.Kill()
	}
	for _, s := range r.staged {
		s.stop()
	}
}
