package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/fleet/peers"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
)

// Settings are what a proxy is started with. Begin with DefaultSettings.
type Settings struct {
	// Settings are those of the process, as [settings.Settings.InUse] returns them. Without a Database, flags describe one service.
	settings.Settings
	settings.Tokens // that the admin API asks for: secrets

	// Level is the level of the log, so that operators can change it while the proxy runs; nil if they cannot.
	Level *slog.LevelVar

	// Own are the settings of the process for the admin API, which reads them again through it; the zero value where it cannot.
	Own admin.Settings

	// RecoverPanics says that a panic ends no more than the session or connection that it was for. Tests want to see panics.
	RecoverPanics bool

	// Inherited are listening sockets that the process has got, from the one that it succeeds or from systemd. They are used for the
	// addresses of the settings that they are for.
	Inherited []takeover.Socket
	// Held is set if Start accepts no clients: Accept does.
	Held bool
	// Program is how the process was started, to start its successor in the same way; nil if it cannot.
	Program *takeover.Program
	// ledger is what tests show of a fleet, without one.
	ledger peers.Ledger

	OneService
}

// OneService is what flags say of the only service in flags-only operation.
type OneService struct {
	config.Service
	Backends    []string // its inference servers: a URL each, with settings of its own behind it, see parseBackend
	Connections int      // cap of each backend
	Warm        int      // connections kept ready for each backend; negative for the cap
	// ProfileFiles are YAML files with profiles beside the built-in ones.
	ProfileFiles []string
}

// DefaultSettings returns the settings that hold when nothing else is said. There is no default for Backends.
func DefaultSettings() Settings {
	backend := config.DefaultBackend()
	return Settings{
		Settings:   settings.Defaults(),
		OneService: OneService{Service: config.DefaultService(), Connections: backend.Connections, Warm: backend.Warm},
	}
}

// complaint notes an error in a setting, which is named.
type complaint = func(what, format string, args ...any)

// Check returns everything that is wrong with the settings, joined into one error that names each flag, its value and
// what is allowed.
func (s *Settings) Check() error {
	_, err := s.check()
	return err
}

// check returns also what the flags say of the service; nil with a database.
func (s *Settings) check() (fixed *fixed, err error) {
	errs := []error{s.Settings.Check()}
	if s.Database == "" {
		fixed = s.fixed(func(flag, format string, args ...any) {
			errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
		})
	}
	if fixed != nil && s.HealthPath != "" && s.Service.Path == s.HealthPath {
		errs = append(errs, fmt.Errorf("--path: --health-path already uses %q: choose another path for one of them", s.HealthPath))
	}
	return fixed, errors.Join(errs...)
}
