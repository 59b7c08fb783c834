package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
)

// LogLevel returns the lowest level that is logged, one of [settings.LogLevels].
func (p *Proxy) LogLevel() string {
	if level := p.settings.Level; level != nil {
		return strings.ToLower(level.Level().String())
	}
	return p.live.Load().LogLevel
}

// SetLogLevel changes the lowest level that is logged, until it is changed again: by the next call, or when the settings are read
// again.
func (p *Proxy) SetLogLevel(name string) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil || !slices.Contains(settings.LogLevels, name) {
		return fmt.Errorf("unknown log level %q", name)
	}
	if p.settings.Level == nil {
		return admin.WrongState("the level of this process's log cannot change")
	}
	p.settings.Level.Set(level)
	return nil
}
