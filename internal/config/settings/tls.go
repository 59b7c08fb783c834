package settings

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// tlsFiles says in words what tls-cert and the like are.
const tlsFiles = "paths of PEM files, or ADDRESS=FILE for the listener at an address of tls-listen"

// clientAuths are the values of tls-client-auth.
var clientAuths = map[string]secure.ClientAuth{
	"off": secure.NoClientCertificate, "optional": secure.OptionalClientCertificate, "required": secure.RequiredClientCertificate,
}

// tlsVersions are the values of tls-min-version.
var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// splitAddress splits an item of a TLS setting into the address of the listener that it is for, empty for all that have no items of their
// own, and the rest.
func splitAddress(item string) (address, rest string) {
	before, after, ok := strings.Cut(item, "=")
	if ok && value.CheckAddress(before) == nil {
		return before, after
	}
	return "", item
}

func checkTLSFile(item string) error {
	_, path := splitAddress(item)
	return checkPath(path)
}

func checkClientAuth(item string) error {
	_, text := splitAddress(item)
	if _, ok := clientAuths[text]; !ok {
		return spelling.Unknown("use of clients' certificates", text, []string{"off", "optional", "required"})
	}
	return nil
}

func checkTLSVersion(item string) error {
	_, text := splitAddress(item)
	if _, ok := tlsVersions[text]; !ok {
		return value.Invalid("version of TLS", text, "1.2 or 1.3")
	}
	return nil
}

// itemsFor returns the items that hold for a listener: its own, or, if there are none, those without an address.
func itemsFor(items []string, listener string) []string {
	var own, general []string
	for _, item := range items {
		switch address, rest := splitAddress(item); address {
		case listener:
			own = append(own, rest)
		case "":
			general = append(general, rest)
		}
	}
	if len(own) > 0 {
		return own
	}
	return general
}

// keyPairs returns the certificates with their keys, each as an item of the form that itemsFor reads.
func (s *Settings) keyPairs(listener string) (pairs []secure.KeyPair) {
	var certs, keys []string
	for i, item := range s.TLSCert {
		address, _ := splitAddress(item)
		_, key := splitAddress(s.TLSKey[i])
		certs = append(certs, item)
		if address != "" {
			key = address + "=" + key
		}
		keys = append(keys, key)
	}
	certs, keys = itemsFor(certs, listener), itemsFor(keys, listener)
	for i := range certs {
		pairs = append(pairs, secure.KeyPair{Certificate: certs[i], Key: keys[i]})
	}
	return pairs
}

// Secured returns how the listeners of TLSListen speak TLS, in their order. The settings must have passed Check.
func (s *Settings) Secured() []secure.ListenerSettings {
	all := make([]secure.ListenerSettings, 0, len(s.TLSListen))
	for _, address := range s.TLSListen {
		one := secure.ListenerSettings{Certificates: s.keyPairs(address), ClientCA: itemsFor(s.TLSClientCA, address), MinVersion: tls.VersionTLS12}
		if len(one.ClientCA) > 0 {
			one.ClientAuth = secure.RequiredClientCertificate
		}
		if auth := itemsFor(s.TLSClientAuth, address); len(auth) > 0 {
			one.ClientAuth = clientAuths[auth[0]]
		}
		if version := itemsFor(s.TLSMinVersion, address); len(version) > 0 {
			one.MinVersion = tlsVersions[version[0]]
		}
		all = append(all, one)
	}
	return all
}

// perListener are the settings whose items are each for one listener, or for all that have none of their own.
var perListener = []string{"tls-cert", "tls-key", "tls-client-ca", "tls-client-auth", "tls-min-version"}

// namesListeners reports whether any of those settings has an item for one listener.
func (s *Settings) namesListeners() bool {
	return slices.ContainsFunc(slices.Concat(s.TLSCert, s.TLSKey, s.TLSClientCA, s.TLSClientAuth, s.TLSMinVersion), func(item string) bool {
		address, _ := splitAddress(item)
		return address != ""
	})
}

// checkTLS checks the settings of TLS towards clients.
func (l *loading) checkTLS() {
	s := &l.settings
	if len(s.TLSListen) == 0 {
		for _, name := range slices.Concat(perListener, []string{"tls-auto"}) {
			if find(l.rows, name).value.Text() != "" {
				l.warn("%sno effect, because no listener speaks TLS: set tls-listen, such as :8443", l.heads[name])
			}
		}
		return
	}
	if len(s.TLSAuto) == 0 {
		for _, name := range []string{"tls-auto-directory", "tls-auto-ca"} {
			if find(l.rows, name).value.Text() != "" {
				l.warn("%sno effect without tls-auto", l.heads[name])
			}
		}
	}
	for _, address := range s.TLSListen {
		if slices.Contains(s.Listen, address) && !value.AnyPort(address) {
			l.bad("%slisten already uses %q: a listener speaks TLS, or does not", l.heads["tls-listen"], address)
		}
	}
	bad := len(l.problems)
	for _, of := range []struct {
		name  string
		items []string
		once  bool
	}{
		{"tls-cert", s.TLSCert, false},
		{"tls-key", s.TLSKey, false},
		{"tls-client-ca", s.TLSClientCA, false},
		{"tls-client-auth", s.TLSClientAuth, true},
		{"tls-min-version", s.TLSMinVersion, true},
	} {
		l.checkAddresses(of.name, of.items, of.once)
	}
	if len(s.TLSCert) != len(s.TLSKey) {
		l.bad("%sfiles of tls-cert: %d, files of tls-key: %d: give each certificate its key, in the same order", cmp.Or(l.heads["tls-key"], l.heads["tls-cert"]), len(s.TLSCert), len(s.TLSKey))
	}
	if len(l.problems) > bad {
		return
	}
	for i, item := range s.TLSKey {
		cert, _ := splitAddress(s.TLSCert[i])
		if key, _ := splitAddress(item); key != "" && key != cert {
			l.bad("%s%q is where the key of %q belongs, which is for another listener: put keys in the order of their certificates", l.heads["tls-key"], item, s.TLSCert[i])
			return
		}
	}
	for i, one := range s.Secured() {
		if err := checkListener(&one, len(s.TLSAuto) > 0); err != nil {
			l.bad("%s%s: %w", l.heads["tls-listen"], s.TLSListen[i], err)
		}
		if len(one.ClientCA) > 0 && one.ClientAuth == secure.NoClientCertificate {
			l.warn("%s%s: tls-client-ca has no effect, because tls-client-auth is off", l.heads["tls-client-auth"], s.TLSListen[i])
		}
	}
}

// checkListener checks what a listener needs. auto says that an authority is asked for certificates.
func checkListener(one *secure.ListenerSettings, auto bool) error {
	switch {
	case len(one.Certificates) == 0 && !auto:
		return errors.New("no certificate for this listener: set tls-cert and tls-key, or tls-auto")
	case one.ClientAuth != secure.NoClientCertificate && len(one.ClientCA) == 0:
		return errors.New("tls-client-auth needs tls-client-ca: name the authorities that sign clients' certificates")
	}
	return nil
}

// checkAddresses checks for which listeners the items of a setting are. once says that a listener can have one item only.
func (l *loading) checkAddresses(name string, items []string, once bool) {
	listeners, seen := l.settings.TLSListen, make(map[string]bool)
	for _, item := range items {
		address, _ := splitAddress(item)
		if address != "" && !slices.Contains(listeners, address) {
			l.bad("%s%w", l.heads[name], spelling.Unknown("listener", address, listeners))
		}
		if once && seen[address] {
			l.bad("%s%s", l.heads[name], twice(address))
		}
		seen[address] = true
	}
}

// twice says that a setting that has one value was given several.
func twice(address string) string {
	if address == "" {
		return "given twice: write ADDRESS= before all but one, to say which listener it is for"
	}
	return fmt.Sprintf("given twice for the listener %s", address)
}
