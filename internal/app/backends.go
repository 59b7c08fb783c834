package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// givenBackend is a backend that a flag describes.
type givenBackend struct {
	config.Backend
	text string   // as it may be shown
	own  []string // names of the settings in the flag itself
}

// parseBackend reads a backend's text: its URL and, after commas, settings that override those for all backends: connections=N or auto,
// connections-max=N, warm=N, weight=X, state=enabled, draining or disabled, discover=dns, discover-interval=DURATION and tls-ca=FILE. The values are checked later, together with all others.
func (s *Settings) parseBackend(text string) (*givenBackend, error) {
	address, own := cutOwnSettings(text)
	text = strings.Join(append([]string{secret.URL(address)}, own...), ",") // as it may be shown
	if unknown := unknownSetting(address); unknown != "" {
		return nil, fmt.Errorf("%q: %w (write a comma in a path as %%2C)", text, spelling.Unknown("setting", unknown, ownSettings))
	}
	given := &givenBackend{Backend: config.DefaultBackend(), text: text}
	given.Service, given.URL, given.Connections, given.Warm = FixedService, address, s.Connections, s.Warm
	values := make(config.Values)
	for _, setting := range own {
		name, value, _ := strings.Cut(setting, "=")
		switch {
		case slices.Contains(given.own, name):
			return nil, fmt.Errorf("%q: %s is set twice", text, name)
		case value == "":
			return nil, fmt.Errorf("%q: %s: the value is missing", text, name)
		}
		given.own = append(given.own, name)
		values[name] = value
	}
	if err := given.set(values); err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if slices.Contains(given.own, "connections") && !slices.Contains(given.own, "warm") && given.Warm > given.Cap() {
		given.Warm = given.Cap() // warm for all backends is relative to the cap for all
	}
	return given, nil
}

// set sets fields by their texts.
func (g *givenBackend) set(values config.Values) error {
	const name = "backend"
	one := config.NewContent()
	one.Backends[name] = g.Backend
	if problems := one.Set(config.KindBackend, name, values); len(problems) > 0 {
		return fmt.Errorf("%s: %s", problems[0].Field, problems[0].Text)
	}
	g.Backend = one.Backends[name]
	return nil
}

// ownSettings are the names of the settings that can follow a backend's URL.
var ownSettings = []string{"connections", "connections-max", "warm", "weight", "state", "discover", "discover-interval", "tls-ca"}

// cutOwnSettings separates a backend's URL, which may contain commas, from the settings after it.
func cutOwnSettings(text string) (address string, own []string) {
	for {
		i := strings.LastIndexByte(text, ',')
		if i < 0 || !isOwnSetting(text[i+1:]) {
			slices.Reverse(own)
			return text, own
		}
		text, own = text[:i], append(own, text[i+1:])
	}
}

func isOwnSetting(text string) bool {
	return slices.ContainsFunc(ownSettings, func(name string) bool { return strings.HasPrefix(text, name+"=") })
}

// unknownSetting returns the name of an unknown setting after a URL, such as a misspelt one; empty for none. It ignores commas in a
// query.
func unknownSetting(address string) string {
	i := strings.LastIndexByte(address, ',')
	if i < 0 || strings.Contains(address, "?") {
		return ""
	}
	name, _, ok := strings.Cut(address[i+1:], "=")
	if !ok || strings.Contains(name, "/") || strings.Contains(address[i+1:], "@") { // a password may have a comma, too
		return ""
	}
	return name
}
