package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// profiles are those of the hunted protocols with a short limit on resets. They accept risks which the built-in ones do not, and dial ahead
// where the built-in ones want a key: the simulated servers ask for none.
type profiles struct{ file string } // with all of them

// writeProfiles makes the profiles for a list such as "funasr=doubt,sherpa-onnx=quiet+blind". A reset takes at most resetWithin.
func writeProfiles(list string, resetWithin time.Duration) (*profiles, error) {
	risks := make(map[string]string)
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		protocol, risk, ok := strings.Cut(word, "=")
		if !ok || !slices.Contains(hunt.Dialogues(), protocol) {
			return nil, fmt.Errorf("-unsafe: %q: use protocol=risk, where the risk is quiet, doubt or blind, or several of these joined by +", word)
		}
		risks[protocol] = fmt.Sprintf(", unsafe: [%s]", strings.ReplaceAll(risk, "+", ", "))
	}
	text := "profiles:\n"
	for _, protocol := range hunt.Dialogues() {
		text += fmt.Sprintf("  %s: {from: %s, reset: {timeout: %v}%s%s}\n", profileOf(protocol), protocol, resetWithin, keyless(protocol), risks[protocol])
	}
	file, err := os.CreateTemp("", "hunt-*.yaml")
	if err != nil {
		return nil, err
	}
	p := &profiles{file: file.Name()}
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

// profileOf returns the name of a protocol's profile for a hunt.
func profileOf(protocol string) string { return protocol + "-hunted" }

// proxy returns what changes the proxy's settings for a hunt with that profile.
func (s *settings) proxy(profile, file string) func(*app.Settings) {
	return func(settings *app.Settings) {
		stage.ForHunt(settings, s.connections)
		settings.Profile = profile
		settings.ProfileFiles = []string{file}
		settings.ConnectionMaxAge = 10 * time.Minute
		if s.failover {
			settings.Failover, settings.StallTimeout = "replay", time.Second
		}
	}
}
