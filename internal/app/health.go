package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
)

// The answers to health checks on the clients' listeners. Strangers may ask there, so that they name no service, server or limit:
// /readyz of the admin API does.
var (
	errDraining = errors.New("draining")
	errShort    = errors.New("not ready: the proxy cannot accept clients")
	errServices = errors.New("not ready: too few services can take clients")
)

// healthy is Ready for strangers.
func (p *Proxy) healthy() error {
	switch {
	case p.end.Load() != nil:
		return errDraining
	case p.descriptors.Accepting() != nil:
		return errShort
	case p.servicesReady() != nil:
		return errServices
	}
	return nil
}

// servicesReady returns why the services are not ready; nil if they are.
func (p *Proxy) servicesReady() error { return p.services.Ready(p.live.Load().ReadyServices) }

// Ready returns nil if one service can serve a new session, all that the settings require can (see [services.Services.Readiness]), clients can be
// accepted, and the proxy is not draining; otherwise why it is not ready. A failing configuration store does not matter, since the
// last good configuration stays in force.
func (p *Proxy) Ready() error {
	if err := p.unable(); err != nil {
		return err
	}
	err := p.servicesReady()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w%s", err, p.besides(err.Error()))
}

// unable returns why the proxy takes no clients, whatever their service; nil if it does.
func (p *Proxy) unable() error {
	if p.end.Load() != nil {
		return errors.New("not ready: draining")
	}
	if err := p.descriptors.Accepting(); err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	return nil
}

// besides returns what else may be why services are not ready, in brackets, unless the reason says it; empty for nothing.
func (p *Proxy) besides(reason string) (text string) {
	if short := p.descriptors.Dialing(); short != nil {
		text = fmt.Sprintf(" (%s)", short)
	}
	if line := p.fleetLine(); line != "" && !strings.Contains(reason, line) {
		text += fmt.Sprintf(" (%s)", line)
	}
	return text
}

// readiness is Ready for the admin API, with each service.
func (p *Proxy) readiness() admin.Readiness {
	r := p.services.Readiness(p.live.Load().ReadyServices)
	if err := p.unable(); err != nil {
		r.Reason, r.AllServices = strings.TrimPrefix(err.Error(), "not ready: "), true
		return r
	}
	if r.Reason != "" {
		r.Reason += p.besides(r.Reason)
	}
	return r
}

// ReadyWarnings returns which of the services that must be able to serve do not exist, so that the proxy would not become ready.
func ReadyWarnings(required []string, snapshot *config.Snapshot) (warnings []string) {
	services := maps.Collect(snapshot.Services())
	for _, name := range required {
		if _, ok := services[name]; !ok {
			warnings = append(warnings, fmt.Sprintf("ready-services: there is no service %s: the proxy is not ready until it exists and can serve", name))
		}
	}
	return warnings
}

// CheckHealthPath returns, as [config.Problems], which services have the health path as theirs, whose clients would only be told that
// the proxy is ready; nil for none. An empty path is none.
func CheckHealthPath(path string, services map[string]config.Service) error {
	var problems config.Problems
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if path != "" && services[name].Path == path {
			problems = append(problems, config.Problem{
				Kind: config.KindService, Name: name, Field: "path", Text: fmt.Sprintf("the setting health-path already uses %q: choose another path for one of them", path),
			})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// refuse returns what this proxy could not put in force of a change that is valid elsewhere, as [CheckHealthPath].
func (p *Proxy) refuse(c config.Change) error {
	services := make(map[string]config.Service)
	if c.Content != nil {
		services = c.Content.Services
	}
	for _, m := range c.Mutations {
		if m.Kind != config.KindService {
			continue
		}
		if path, set := m.Values["path"]; set {
			services[m.Name] = config.Service{Path: path}
		} else if m.Verb == config.Remove {
			delete(services, m.Name)
		}
	}
	return CheckHealthPath(p.settings.HealthPath, services)
}
