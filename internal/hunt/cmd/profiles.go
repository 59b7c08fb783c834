package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
)

// profiles are those that accept a risk which the built-in ones do not.
type profiles struct {
	file  string // with all of them
	names map[string]string
}

// writeProfiles makes the profiles for a list such as "funasr=doubt,sherpa-onnx=quiet+blind".
func writeProfiles(list string) (*profiles, error) {
	p := &profiles{names: make(map[string]string)}
	text := "profiles: {}\n"
	for i, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		protocol, risks, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("-unsafe: %q is not of the form protocol=risk, risk being quiet, doubt or blind, or several joined by +", word)
		}
		if i == 0 {
			text = "profiles:\n"
		}
		name := protocol + "-unsafe"
		p.names[protocol] = name
		text += fmt.Sprintf("  %s: {from: %s, unsafe: [%s]}\n", name, protocol, strings.ReplaceAll(risks, "+", ", "))
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
		settings.Profile = profile
		if len(s.unsafe) > 0 {
			settings.ProfileFiles = []string{file}
		}
		settings.ResetTimeout = s.resetWithin
		settings.ConnectionMaxAge = 10 * time.Minute
	}
}
