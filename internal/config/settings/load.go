package settings

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Sources are the sources of settings. They may be loaded repeatedly.
type Sources struct {
	Flags       *Flags          // those of the command line, or nil
	Environment func() []string // such as [os.Environ], or nil
}

// Loaded has the settings of all sources.
type Loaded struct {
	Settings
	Tokens
	File     string   // path of the file that was read; empty for none
	Warnings []string // what is likely to be wrong
	Notes    []string // what has no effect, and need not have any

	sources map[string]string // the source of each setting, by name
}

// Source returns the source of a setting: file:line:column, a variable or a flag; empty for the default.
func (l *Loaded) Source(name string) string { return l.sources[name] }

// Load reads the settings. The error has a line for each invalid setting, which begins with its place. A wrong value is an error
// even if a later source overrides it.
func (s Sources) Load() (*Loaded, error) {
	l := newLoading(Defaults())
	var variables []string
	if s.Environment != nil {
		variables = s.Environment()
	}
	path, how := l.named(environment(variables), s.Flags)
	if path != "" {
		l.file(path, how)
	}
	l.environment(variables)
	if s.Flags != nil {
		l.flags(s.Flags)
	}
	l.openTelemetry(variables)
	if l.sources["listen"] == "" && len(l.settings.TLSListen) > 0 {
		l.settings.Listen = nil // an operator who asks for TLS does not want an open port beside it by default
	}
	l.checkTogether()
	tokens := l.tokens()
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return &Loaded{Settings: l.settings, Tokens: tokens, File: path, Warnings: l.warnings, Notes: l.notes, sources: l.sources}, nil
}

// named returns the path of the file, empty for none, and how errors about it begin. An old name wins over a new one of the same source, which an
// image or a unit may set by itself.
func (l *loading) named(own map[string]string, f *Flags) (path, how string) {
	path, how = own[FileVariable], FileVariable+": "
	if old, given := own[oldFileVariable]; given {
		path, how = old, oldFileVariable+": "
		l.warn("%sthis variable is deprecated: use %s; version 0.4 removes it", how, FileVariable)
	}
	if f == nil {
		return path, how
	}
	if f.given(settingsFlag) {
		path, how = f.file, "--"+settingsFlag+": "
	}
	if f.given(configFlag) {
		path, how = f.file, "--"+configFlag+": "
		l.warn("%sthis flag is deprecated: use --%s; version 0.4 removes it", how, settingsFlag)
		if f.given(settingsFlag) {
			l.bad("%s--%s is given, too: use --%s only", how, settingsFlag, settingsFlag)
		}
	}
	return path, how
}

// loading has the settings and errors read so far.
type loading struct {
	settings Settings
	rows     []setting // of settings
	sources  map[string]string
	heads    map[string]string // how an error about a setting begins, by name
	problems []error
	warnings []string
	notes    []string
}

func newLoading(s Settings) *loading {
	l := &loading{settings: s, sources: make(map[string]string), heads: make(map[string]string)}
	l.rows = rows(&l.settings)
	return l
}

func (l *loading) bad(format string, args ...any) {
	l.problems = append(l.problems, fmt.Errorf(format, args...))
}

// set sets a setting from a source: one text, empty for the default, or all texts of a list, none for the default. Errors begin with
// head.
func (l *loading) set(s *setting, source, head string, texts []string) {
	text := ""
	if s.isList() {
		if s.unset != "" && len(texts) == 1 && texts[0] == "" {
			texts = nil // an empty value restores the default
		}
		text = config.ListText(texts)
	} else if len(texts) > 0 {
		text = texts[0]
	}
	if text == "" {
		text = find(table, s.name).value.Text()
	}
	if err := s.value.Set(text); err != nil {
		l.bad("%s%w", head, err)
		return
	}
	l.sources[s.name], l.heads[s.name] = source, head
	if s.deprecated != "" {
		l.warn("%sthis setting is deprecated: %s", head, s.deprecated)
	}
}

// Check returns everything that is wrong with settings that were not loaded, but made by the program; the error names the flags.
func (s *Settings) Check() error {
	l := newLoading(*s)
	for _, row := range l.rows {
		l.heads[row.name] = "--" + row.name + ": "
		if err := row.value.Set(row.value.Text()); err != nil {
			l.bad("%s%w", l.heads[row.name], err)
		}
	}
	l.checkTogether()
	return errors.Join(l.problems...)
}

// checkTogether checks settings that depend on each other.
func (l *loading) checkTogether() {
	s := &l.settings
	if len(s.Listen)+len(s.TLSListen) == 0 {
		l.bad("%sno address to listen on; give one such as 127.0.0.1:8080", l.heads["listen"])
	}
	for _, of := range []struct {
		name      string
		addresses []string
	}{{"listen", s.Listen}, {"tls-listen", s.TLSListen}} {
		if s.Admin != "" && slices.Contains(of.addresses, s.Admin) && !value.AnyPort(s.Admin) {
			l.bad("%s%s already uses %q: give the admin API another address", l.heads["admin"], of.name, s.Admin)
		}
	}
	l.checkTLS()
	l.checkAdmin()
	l.checkOrigin()
	l.checkClients()
	l.checkFleet()
}

// checkClients warns of settings that let slow clients, or those that are gone, take much.
func (l *loading) checkClients() {
	if l.settings.ClientTimeout == NoLimit {
		l.warn("%snone: a client that is gone without a word keeps its server's place for up to a quarter of an hour", l.heads["client-timeout"])
	}
	if t := l.settings.HandshakeTimeout; t > slowHandshake {
		l.warn("%s%s: a client needs a few round trips; one that sends its request slowly stays for that long", l.heads["handshake-timeout"], value.FormatDuration(t))
	}
}

// slowHandshake is the longest handshake-timeout that is no cause for a warning.
const slowHandshake = time.Minute

// checkOrigin checks whom the settings trust about where clients come from.
func (l *loading) checkOrigin() {
	s := &l.settings
	if (s.ProxyProtocol == origin.ProxyOptional || s.ProxyProtocol == origin.ProxyRequired) && len(s.TrustedProxies) == 0 {
		l.bad("%s%q needs trusted-proxies: name the networks of the load balancers that send PROXY headers", l.heads["proxy-protocol"], s.ProxyProtocol)
	}
	for _, text := range s.TrustedProxies {
		if network, err := origin.ParseNetwork(text); err == nil && network.Bits() == 0 {
			l.warn("%s%s is every address: each client is believed about its own address, whatever it says", l.heads["trusted-proxies"], text)
		}
	}
}
