package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// The answers to health checks on the clients' listeners. Strangers may ask there, so that they name no service, server or limit:
// /readyz of the admin API does.
var (
	errDraining  = errors.New("draining")
	errShort     = errors.New("not ready: the proxy cannot accept clients")
	errNoBackend = errors.New("not ready: a service has no backend that can take clients")
)

// healthy is Ready for strangers.
func (p *Proxy) healthy() error {
	switch {
	case p.end.Load() != nil:
		return errDraining
	case p.descriptors.Accepting() != nil:
		return errShort
	case p.services.Ready() != nil:
		return errNoBackend
	}
	return nil
}

// CanaryWarnings returns which canaries cannot be used on this machine, and which backends are never played one.
func CanaryWarnings(snapshot *config.Snapshot) []string { return services.CanaryWarnings(snapshot) }

// SecretWarnings returns which backends have a secret in their URL, and which refer to one that the settings do not name.
func SecretWarnings(snapshot *config.Snapshot, from *secret.Source) []string {
	return services.SecretWarnings(snapshot, from)
}

// VerifiedWarnings returns which services rely on a profile without knowing that it is right about their servers.
func VerifiedWarnings(snapshot *config.Snapshot, now time.Time) []string {
	return services.VerifiedWarnings(snapshot, now)
}

// CheckHealthPath returns, as [config.Problems], which services have the health path as theirs, whose clients would only be told that
// the proxy is ready; nil for none. An empty path is none.
func CheckHealthPath(path string, snapshot *config.Snapshot) error {
	var problems config.Problems
	for name, service := range snapshot.Services() {
		if path != "" && service.Path == path {
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
