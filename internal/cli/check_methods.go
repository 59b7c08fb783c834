package cli

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/token"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

const (
	// largeLeeway is from which jwt-leeway on tokens live noticeably longer than their issuer meant.
	largeLeeway = 5 * time.Minute
	// longCache is from which auth-cache on a client that was turned away stays so for noticeably long.
	longCache = 10 * time.Minute
)

// methodWarnings returns what is likely to be wrong, or unsafe, about a service's tokens, external check, certificates, and about what
// it tells its backends of its clients. It reads the file of a key set.
func methodWarnings(s *settings.Settings, name string, service *config.Service) (warnings []string) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, "the service "+name+" "+fmt.Sprintf(format, args...))
	}
	methods := service.AuthMethods()
	uses := func(method string) bool { return slices.Contains(methods, method) }
	if uses(identity.MethodJWT) {
		if len(service.JWTAudience) == 0 {
			warn("accepts tokens that were issued for other applications: set jwt-audience")
		}
		if service.JWTIssuer == "" {
			warn("accepts tokens of any issuer whose keys are in jwt-keys: set jwt-issuer")
		}
		if service.JWTLeeway > largeLeeway {
			warn("accepts tokens for %s after they have expired (jwt-leeway): 1m is enough for clocks that are kept", service.JWTLeeway)
		}
		if text := keySetWarning(service.JWTKeys); text != "" {
			warn("%s", text)
		}
	} else if service.JWTKeys != "" {
		warn("has jwt-keys, but auth lacks jwt, so that no token is accepted")
	}
	switch {
	case uses(identity.MethodExternal):
		if service.AuthFailure == "allow" {
			warn("lets everybody in while the server at auth-url fails (auth-failure allow)")
		}
		if u, err := url.Parse(service.AuthURL); err == nil && u.Scheme == "http" && len(beyondThisMachine([]string{u.Hostname() + ":80"})) > 0 {
			warn("sends its clients' credentials unencrypted to auth-url %s: use https, or a server on this machine", u.Host)
		}
		if service.AuthCache > longCache {
			warn("lets a client in for up to %s after the server at auth-url has changed its mind (auth-cache)", service.AuthCache)
		}
	case service.AuthURL != "":
		warn("has auth-url, but auth lacks external, so that server is not asked")
	}
	if uses(identity.MethodCertificate) && !asksForCertificates(s) {
		warn("authenticates clients by their certificates, and no listener asks for one: set tls-listen, tls-client-ca and tls-client-auth")
	}
	for _, f := range []struct {
		field string
		texts map[string]string
	}{{"set-header", service.SetHeader}, {"set-query", service.SetQuery}} {
		for _, part := range slices.Sorted(maps.Keys(f.texts)) {
			if placeholder := withoutValue(methods, f.texts[part]); placeholder != "" {
				warn("never sends %s of %s, since no client has a {%s} without a method of auth that says it", part, f.field, placeholder)
			}
		}
	}
	return warnings
}

// withoutValue returns a placeholder of a text that has no value with these methods of authentication; empty for none.
func withoutValue(methods []string, text string) string {
	for _, placeholder := range []string{"tenant", "subject", "method", "key"} {
		known := len(methods) > 0
		if placeholder == "key" {
			known = slices.Contains(methods, identity.MethodKeys)
		}
		if !known && strings.Contains(text, "{"+placeholder+"}") {
			return placeholder
		}
	}
	return ""
}

// keySetWarning returns what is wrong with the file of a key set, or who else can change it; empty for nothing, and for a URL.
func keySetWarning(location string) string {
	path, ok := strings.CutPrefix(location, "file:")
	if !ok {
		return ""
	}
	if err := token.CheckFile(path); err != nil {
		return fmt.Sprintf("cannot verify tokens: %s: %v", location, err)
	}
	info, err := os.Stat(path)
	if err == nil && runtime.GOOS != "windows" && info.Mode()&fs.FileMode(0o022) != 0 {
		return fmt.Sprintf("trusts %s, which users other than its owner can change (mode %#o), and so make keys: use chmod go-w", location, info.Mode().Perm())
	}
	return ""
}

// asksForCertificates reports whether a listener asks clients for a certificate.
func asksForCertificates(s *settings.Settings) bool {
	return slices.ContainsFunc(s.Secured(), func(l secure.ListenerSettings) bool { return l.ClientAuth != secure.NoClientCertificate })
}
