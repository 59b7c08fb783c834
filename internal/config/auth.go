package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// authNone is the word for no authentication.
const authNone = "none"

var (
	authMethods         = []string{identity.MethodKeys, identity.MethodJWT, identity.MethodCertificate, identity.MethodExternal}
	signatureAlgorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}
	authFailures        = []string{"deny", "allow"}
	certificateParts    = []string{"cn", "o", "ou", "dns", "email", "uri"}
)

// authSources describes where credentials may be.
const authSources = "header (Authorization), header:NAME, query:NAME, cookie:NAME, subprotocol:WORD"

// AuthMethods returns the methods by which clients are authenticated, in order; none for no authentication.
func (s *Service) AuthMethods() []string {
	if slices.Equal(s.Auth, []string{authNone}) {
		return nil
	}
	return s.Auth
}

// CredentialSources returns where in a request credentials are, in order, as the field auth-from says it.
func (s *Service) CredentialSources() []string {
	if len(s.AuthFrom) == 0 {
		return []string{"header"}
	}
	return s.AuthFrom
}

// TakesCookies reports whether cookies may say who a client is: its credential is in one, or the HTTP server that decides about clients gets them.
func (s *Service) TakesCookies() bool {
	return slices.Contains(s.AuthMethods(), "external") ||
		len(s.AuthMethods()) > 0 && slices.ContainsFunc(s.CredentialSources(), func(from string) bool { return strings.HasPrefix(from, "cookie:") })
}

// TakesCertificates reports whether clients may be known by their certificates.
func (s *Service) TakesCertificates() bool { return slices.Contains(s.AuthMethods(), "certificate") }

// SignatureAlgorithms returns the algorithms that tokens may be signed with.
func (s *Service) SignatureAlgorithms() []string {
	if len(s.JWTAlgorithms) == 0 {
		return slices.Clone(signatureAlgorithms)
	}
	return s.JWTAlgorithms
}

func checkAuthMethod(text string) error {
	if text == authNone || slices.Contains(authMethods, text) {
		return nil
	}
	return spelling.Unknown("method", text, append(slices.Clone(authMethods), authNone))
}

func checkAuthSource(text string) error {
	kind, name, named := strings.Cut(text, ":")
	switch {
	case text == "header", named && kind == "query" && name != "" && !notPrintable(name):
		return nil
	case named && slices.Contains([]string{"header", "cookie", "subprotocol"}, kind) && profile.IsToken(name):
		if lower := strings.ToLower(name); kind == "header" && (slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, "sec-websocket-")) {
			return fmt.Errorf("%q: this header belongs to the handshake itself and cannot hold a credential", text)
		}
		return nil
	}
	return value.Invalid("source", text, authSources)
}

func checkSignatureAlgorithm(text string) error {
	if slices.Contains(signatureAlgorithms, text) {
		return nil
	}
	return spelling.Unknown("algorithm", text, signatureAlgorithms)
}

func checkKeySet(text string) error {
	const use = "a URL such as https://id.example.org/jwks.json, or file:/path"
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		if !filepath.IsAbs(path) || checkFile(path) != nil {
			return value.Invalid("key set", text, use)
		}
		return nil
	}
	return checkHTTP("key set", text, use, true)
}

func checkAuthURL(text string) error {
	return checkHTTP("URL", text, "a URL such as http://127.0.0.1:8000/auth", false)
}

// checkHTTP checks an HTTP URL. secure demands https, except towards this machine.
func checkHTTP(what, text, use string, secure bool) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || !isPort(u.Port()):
		return value.Invalid(what, secret.URL(text), use)
	case secure && u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("invalid %s %q: use https, since anyone who changes it on the way can make keys; http is for this machine only", what, secret.URL(text))
	}
	return nil
}

// isLoopback reports whether a host of a URL is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func checkClaimText(text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return value.Invalid("text", text, "one without control characters")
	}
	return nil
}

// claimTargets returns what claims may say about a client.
func claimTargets() []string { return append([]string{"tenant", "subject"}, limits.Names()...) }

func checkClaim(target, claim string) error {
	if !slices.Contains(claimTargets(), target) {
		return spelling.Unknown("name", target, claimTargets())
	}
	if claim == "" {
		return fmt.Errorf("%s: the name of the claim is missing", target)
	}
	return checkClaimText(claim)
}

func placeholdersInWords() string { return "{" + strings.Join(profile.Placeholders, "}, {") + "}" }

func checkSetHeader(name, text string) error {
	switch {
	case !profile.IsToken(name):
		return fmt.Errorf("invalid header name %q: use letters, digits and !#$%%&'*+-.^_`|~", name)
	case slices.Contains(ownHeaders, strings.ToLower(name)) || strings.HasPrefix(strings.ToLower(name), "sec-websocket-"):
		return fmt.Errorf("invalid header name %q: the proxy sets it", name)
	}
	template, err := parseTemplate(name, text)
	if err != nil {
		return err
	}
	if _, fixed := template.Fixed(); fixed && secret.IsName(name) {
		if isPlaceholder(text) {
			return fmt.Errorf("%s: %w", name, errPlaceholder)
		}
		return fmt.Errorf("%s looks like a secret, which is not stored here: use the field header of the backends, with env:NAME or file:/path", name)
	}
	return nil
}

func checkSetQuery(name, text string) error {
	if name == "" || notPrintable(name) {
		return fmt.Errorf("invalid parameter %q: use printable ASCII", name)
	}
	_, err := parseTemplate(name, text)
	return err
}

// parseTemplate reads the text of a header or parameter. The error does not show a text that may be a secret.
func parseTemplate(name, text string) (template profile.Template, err error) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		err = fmt.Errorf("invalid text %q: use printable ASCII", text)
	} else {
		template, err = profile.ParseTemplate(text)
	}
	switch {
	case err == nil:
		return template, nil
	case secret.IsName(name):
		return template, fmt.Errorf("%s: invalid text, which is not shown: use printable ASCII, with { and } around %s only", name, placeholdersInWords())
	}
	return template, fmt.Errorf("%s: %w", name, err)
}

// setsByClient returns the first of set-header and set-query that has placeholders; empty for none.
func (s *Service) setsByClient() string {
	for _, f := range []struct {
		name string
		sets map[string]string
	}{{"set-header", s.SetHeader}, {"set-query", s.SetQuery}} {
		for _, text := range f.sets {
			if strings.Contains(text, "{") {
				return f.name
			}
		}
	}
	return ""
}

// checkAuth checks what the methods need.
func (s *Service) checkAuth(name string, problems *Problems) {
	if len(s.Auth) > 1 && slices.Contains(s.Auth, authNone) {
		problems.add(KindService, name, "auth", "%q stands beside other methods: use it alone, or remove it", authNone)
	}
	for _, need := range []struct{ method, field, text, use string }{
		{identity.MethodJWT, "jwt-keys", s.JWTKeys, "a URL such as https://id.example.org/jwks.json, or file:/path"},
		{identity.MethodExternal, "auth-url", s.AuthURL, "a URL such as http://127.0.0.1:8000/auth"},
	} {
		if slices.Contains(s.Auth, need.method) && need.text == "" {
			problems.add(KindService, name, need.field, "the value is missing: the method %s needs %s", need.method, need.use)
		}
	}
}

// checkKeys checks what all keys need. That two have the same hash is an error: the proxy could not tell whose sessions they are.
func (c *Content) checkKeys(problems *Problems) {
	hashes := make(map[string]string)
	for _, name := range sortedKeys(c.Keys) {
		hash := c.Keys[name].Hash
		if hash == "" {
			problems.add(KindKey, name, "hash", "the value is missing: 'wsbouncer key add' makes a key and its hash")
			continue
		}
		if other, ok := hashes[hash]; ok {
			problems.add(KindKey, name, "hash", "the key %s already has this hash", other)
		}
		hashes[hash] = name
	}
}
