package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// profiles are those that accept a risk which the built-in ones do not, or that dial ahead where the built-in ones want a key: the
// simulated servers ask for none.
type profiles struct {
	file  string // with all of them
	names map[string]string
}

// writeProfiles makes the profiles for a list such as "funasr=doubt,sherpa-onnx=quiet+blind".
func writeProfiles(list string) (*profiles, error) {
	p := &profiles{names: make(map[string]string)}
	text := "profiles:\n  none: {}\n"
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		protocol, risks, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("-unsafe: %q: use protocol=risk, where the risk is quiet, doubt or blind, or several of these joined by +", word)
		}
		name := protocol + "-unsafe"
		p.names[protocol] = name
		text += fmt.Sprintf("  %s: {from: %s%s, unsafe: [%s]}\n", name, protocol, keyless(protocol), strings.ReplaceAll(risks, "+", ", "))
	}
	for _, protocol := range hunt.Dialogues() {
		if more := keyless(protocol); more != "" && p.names[protocol] == "" {
			p.names[protocol] = protocol + "-keyless"
			text += fmt.Sprintf("  %s-keyless: {from: %s%s}\n", protocol, protocol, more)
		}
	}
	file, err := os.CreateTemp("", "hunt-*.yaml")
	if err != nil {
		return nil, err
	}
	p.file = file.Name()
	_, err = file.WriteString(text)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(p.file)
		return nil, err
	}
	return p, nil
}

// keyless returns what has a protocol's profile dial ahead without a key, if it would not.
func keyless(protocol string) string {
	if p, err := profile.Named(protocol); err == nil && p.Predial == profile.PredialWithKey {
		return ", predial: idle"
	}
	return ""
}

// nameOf returns the name of a protocol's profile.
func (p *profiles) nameOf(protocol string) string {
	if name, ok := p.names[protocol]; ok {
		return name
	}
	return protocol
}

// proxy returns what changes the proxy's settings for a hunt with that profile.
func (s *settings) proxy(profile, file string) func(*app.Settings) {
	return func(settings *app.Settings) {
		stage.ForHunt(settings, s.connections)
		settings.Profile = profile
		settings.ProfileFiles = []string{file}
		settings.ResetTimeout = s.resetWithin
		settings.ConnectionMaxAge = 10 * time.Minute
		if s.failover {
			settings.Failover, settings.StallTimeout = "replay", time.Second
		}
	}
}
