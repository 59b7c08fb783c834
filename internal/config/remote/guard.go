package remote

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// guard decides who may use the API. Without a token, HandlerOptions.Writable decides: it trusts the users of this machine. They
// run browsers, and a browser sends whatever any page on the Internet makes it send. So the guard refuses requests that a browser
// sends for a page, with or without a token.
type guard struct {
	token    func() string
	writable func(*http.Request) bool
}

func newGuard(o HandlerOptions) *guard {
	g := &guard{token: o.Token, writable: o.Writable}
	if g.token == nil {
		g.token = func() string { return "" }
	}
	return g
}

// refuse returns why a request is refused and with which status; 0 if it is not.
func (g *guard) refuse(r *http.Request) (status int, why string) {
	if origin := r.Header.Get("Origin"); origin != "" {
		return http.StatusForbidden, fmt.Sprintf("the request has the header Origin (%.100q): web pages may not use this API", origin)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return http.StatusForbidden, fmt.Sprintf("the request has the header Sec-Fetch-Site: %.100q: web pages may not use this API", site)
	}
	if token := g.token(); token != "" {
		return authorize(r, token)
	}
	// The name of a page's site may lead to this machine (DNS rebinding). Then the page's requests have the same origin.
	if !isOwnHost(r.Host) {
		return http.StatusForbidden, fmt.Sprintf("the request is for the host %.100q: use an IP address or localhost, or set --admin-token", r.Host)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" { // the peer is on this machine, but who asked it?
			return http.StatusForbidden, fmt.Sprintf("another proxy forwarded the request (header %s): set --admin-token to allow this", name)
		}
	}
	if g.writable == nil || !g.writable(r) {
		return http.StatusForbidden, "use the admin socket or a loopback address to read or change the configuration, or set --admin-token"
	}
	return 0, ""
}

func authorize(r *http.Request, want string) (status int, why string) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Comparing hashes takes the same time for tokens of any length.
	sum, wanted := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(want))
	same := subtle.ConstantTimeCompare(sum[:], wanted[:]) == 1
	switch {
	case token == "":
		return http.StatusUnauthorized, "the admin API needs a token (Authorization: Bearer TOKEN)"
	case !strings.EqualFold(scheme, "Bearer") || !same:
		return http.StatusUnauthorized, "wrong token for the admin API"
	}
	return 0, ""
}

// isOwnHost reports whether a request's host is an IP address or localhost, which no stranger can make lead to this machine.
func isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address, _, _ := strings.Cut(host, "%") // without the zone of an IPv6 address
	return strings.EqualFold(host, "localhost") || net.ParseIP(address) != nil
}
