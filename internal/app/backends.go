package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// givenBackend is a backend as a flag describes it.
type givenBackend struct {
	config.Backend
	text string
	own  []string // names of the settings that are its own
}

// parseBackend reads a backend's text: its URL, and behind it, each after a comma, what differs from the settings for all:
// connections=N, warm=N, weight=X and state=enabled, draining or disabled. Whether the values make sense is checked with all others.
func (s *Settings) parseBackend(text string) (*givenBackend, error) {
	address, own := cutOwnSettings(text)
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
	if slices.Contains(given.own, "connections") && !slices.Contains(given.own, "warm") && given.Warm > given.Connections {
		given.Warm = given.Connections // what is said for all is about the cap for all
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

// ownSettings are the names that can follow a backend's URL.
var ownSettings = []string{"connections", "warm", "weight", "state"}

// cutOwnSettings separates a backend's URL, which may have commas itself, from its own settings.
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

// unknownSetting returns the name of what stands behind a URL like a setting but is none, such as one that is misspelt; empty
// for nothing. Commas in a query mean nothing to us.
func unknownSetting(address string) string {
	i := strings.LastIndexByte(address, ',')
	if i < 0 || strings.Contains(address, "?") {
		return ""
	}
	name, _, ok := strings.Cut(address[i+1:], "=")
	if !ok || strings.Contains(name, "/") {
		return ""
	}
	return name
}
