package cli

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// authWarnings returns what is likely to be wrong, or unsafe, about how clients are authenticated.
func authWarnings(s *settings.Settings, content *config.Content, now time.Time) (warnings []string) {
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	var with, without []string
	for _, name := range content.Names(config.KindService) {
		service := content.Services[name]
		warnings = append(warnings, methodWarnings(s, name, &service)...)
		methods := service.AuthMethods()
		if len(methods) == 0 {
			without = append(without, name)
			continue
		}
		if slices.ContainsFunc(methods, func(m string) bool { return m != identity.MethodCertificate }) {
			with = append(with, name)
		}
		warnings = append(warnings, sourceWarnings(name, &service)...)
		if slices.Equal(methods, []string{identity.MethodKeys}) && !hasKey(content, name, now) {
			warn("the service %s accepts clients with an API key only, and no key is good for it: add one with 'wsbouncer key add'", name)
		}
	}
	if open := beyondThisMachine(s.Listen); len(open) > 0 && len(with) > 0 {
		warn("clients of %s send their credentials unencrypted to %s: use tls-listen, or listen on a loopback address behind something that ends TLS",
			some(with), strings.Join(open, ", "))
	}
	if open := forAnybody(s); len(open) > 0 && len(without) > 0 {
		warn("any client that reaches %s may use %s: set auth, if it is not meant for all", strings.Join(open, ", "), some(without))
	}
	if len(with) > 0 && s.FailedAuthRate.Unlimited() {
		warn("failed-auth-rate is 0: clients may guess credentials of %s as fast as they like", some(with))
	}
	return slices.Concat(warnings, content.OriginWarnings(asksForCertificates(s)), keyWarnings(content, now))
}

// sourceWarnings returns what is unsafe about where a service takes credentials from, and passes them to.
func sourceWarnings(name string, s *config.Service) (warnings []string) {
	for _, source := range s.CredentialSources() {
		exact := source
		if source == "header" {
			exact = "header:authorization"
		}
		switch passed := slices.ContainsFunc(s.Pass, func(word string) bool { return strings.EqualFold(word, exact) }); {
		case passed:
			warnings = append(warnings, fmt.Sprintf("the service %s passes its clients' credentials to its backends: pass has %s, which auth-from has too", name, exact))
		case strings.HasPrefix(source, "query:"):
			warnings = append(warnings, fmt.Sprintf("the service %s takes credentials from the query (auth-from %s): histories of browsers and logs on the way may keep them", name, source))
		}
	}
	return warnings
}

// keyWarnings returns what is likely to be wrong with API keys.
func keyWarnings(content *config.Content, now time.Time) (warnings []string) {
	var expired, noTenant []string
	services := make(map[string][]string) // keys by a service that does not exist
	_, byDefault := content.Tenants[config.DefaultTenant]
	for _, name := range content.Names(config.KindKey) {
		key := content.Keys[name]
		if !key.Expires.IsZero() && !now.Before(key.Expires) {
			expired = append(expired, name)
		}
		if key.Tenant != "" && len(content.Tenants) > 0 && !byDefault && !content.Has(config.KindTenant, key.Tenant) {
			noTenant = append(noTenant, name)
		}
		for _, service := range key.Services {
			if !content.Has(config.KindService, service) {
				services[service] = append(services[service], name)
			}
		}
	}
	if len(expired) > 0 {
		warnings = append(warnings, fmt.Sprintf("API keys that have expired: %s; remove them with 'wsbouncer key revoke'", some(expired)))
	}
	if len(noTenant) > 0 {
		warnings = append(warnings, fmt.Sprintf("API keys of tenants that are not configured, and so have no limits of a tenant: %s", some(noTenant)))
	}
	for _, service := range slices.Sorted(maps.Keys(services)) {
		warnings = append(warnings, fmt.Sprintf("API keys for the service %s, which does not exist: %s", service, some(services[service])))
	}
	return warnings
}

// hasKey reports whether a key is good for a service.
func hasKey(content *config.Content, service string, now time.Time) bool {
	for _, key := range content.Keys {
		if (key.Expires.IsZero() || now.Before(key.Expires)) && (len(key.Services) == 0 || slices.Contains(key.Services, service)) {
			return true
		}
	}
	return false
}

// beyondThisMachine returns the addresses, host:port, that other machines can reach.
func beyondThisMachine(addresses []string) (open []string) {
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			open = append(open, address)
		}
	}
	return open
}

// forAnybody returns the addresses for clients that speak TLS which other machines can reach without a certificate.
func forAnybody(s *settings.Settings) []string {
	secured := s.Secured()
	return slices.DeleteFunc(beyondThisMachine(s.TLSListen), func(address string) bool {
		return secured[slices.Index(s.TLSListen, address)].ClientAuth == secure.RequiredClientCertificate
	})
}

// some returns names for a sentence: a few of them, and how many more there are.
func some(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
