// Package app joins the parts to a running proxy, and takes it down in order.
package app

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/value"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
)

// Settings are the settings of a proxy, as flags give them. Begin with DefaultSettings.
type Settings struct {
	Listen []string // addresses for clients, host:port
	Admin  string   // address of the admin API; empty for none
	Loops  int      // most event loops awake; 0 for one per processor
	// IOURing says whether event loops send with io_uring: one of loop.IOURings.
	IOURing string
	// LoopWait says how event loops wait: one of loop.Waits.
	LoopWait string

	// RecoverPanics says that a panic ends no more than the session or connection that it was for. Tests want to see panics.
	RecoverPanics bool

	// Database is where services, backends and profiles come from; empty for flags-only operation.
	Database       string
	StateDirectory string // where what must be found again after a restart is kept
	AdminSocket    string // path of the admin API's unix socket; empty for none
	AdminToken     string // that the admin API asks for: a secret; empty for none

	MaxHead          int           // largest upgrade request in bytes
	HandshakeTimeout time.Duration // for a client's request to arrive
	DrainTimeout     time.Duration // for sessions to finish at the end

	// Service is the only service in flags-only operation. Its CloseTimeout also bounds each side's part in closing at the end.
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
		Listen:           []string{"127.0.0.1:8080"},
		IOURing:          string(loop.IOURingAuto),
		LoopWait:         string(loop.WaitAuto),
		MaxHead:          handshake.DefaultMaxHead,
		HandshakeTimeout: 10 * time.Second,
		DrainTimeout:     30 * time.Second,

		Service:     config.DefaultService(),
		Connections: backend.Connections,
		Warm:        backend.Warm,
	}
}

// complaint notes a mistake in a setting, which is named.
type complaint = func(what, format string, args ...any)

// Check returns everything that is wrong with the settings, joined into one error that names each flag, its value and
// what is allowed.
func (s *Settings) Check() error {
	_, err := s.check()
	return err
}

// check returns also what the flags say of the service; nil with a database.
func (s *Settings) check() (fixed *fixed, err error) {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	s.checkAddresses(bad)
	s.checkLimits(bad)
	if s.Database == "" {
		fixed = s.fixed(bad)
	}
	return fixed, errors.Join(errs...)
}

func (s *Settings) checkAddresses(bad complaint) {
	if len(s.Listen) == 0 {
		bad("listen", "no address to listen on: give one, such as 127.0.0.1:8080")
	}
	for i, address := range s.Listen {
		if err := value.CheckAddress(address); err != nil {
			bad("listen", "%v", err)
		} else if slices.Contains(s.Listen[:i], address) && !value.AnyPort(address) {
			bad("listen", "%q is listed twice", address)
		}
	}
	if s.Admin != "" {
		if err := value.CheckAddress(s.Admin); err != nil {
			bad("admin", "%v", err)
		} else if slices.Contains(s.Listen, s.Admin) && !value.AnyPort(s.Admin) {
			bad("admin", "--listen already uses %q: give the admin API another address", s.Admin)
		}
	}
}

// checkLimits checks the numbers that are the process's own.
func (s *Settings) checkLimits(bad complaint) {
	for _, v := range []struct {
		flag  string
		value value.Value
	}{
		{"loops", value.NewCount(&s.Loops, 0, 1024)},
		{"loop-wait", value.NewChoice(&s.LoopWait, "way to wait", loop.Waits())},
		{"io-uring", value.NewChoice(&s.IOURing, "way to send", loop.IOURings())},
		{"handshake-timeout", value.NewDuration(&s.HandshakeTimeout, time.Millisecond)},
		{"close-timeout", value.NewDuration(&s.CloseTimeout, time.Millisecond)},
		{"drain-timeout", value.NewDuration(&s.DrainTimeout, 0)},
	} {
		if v.flag == "close-timeout" && s.Database == "" {
			continue // it is checked as the service's
		}
		if err := v.value.Set(v.value.Text()); err != nil {
			bad(v.flag, "%v", err)
		}
	}
	if s.MaxHead < 512 || s.MaxHead > 1<<20 {
		bad("max-header", "invalid size \"%d\": use a size from 512 to 1MiB", s.MaxHead)
	}
}
