package remote

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// guard decides who may use the API. Without a token that is whoever HandlerOptions.Writable trusts: the users of this machine.
// Since they run browsers, which send what any page on the Internet makes them send, requests that a browser sends for a page
// are refused, token or not.
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
	// A page may have its name point here (DNS rebinding); its requests are of the same origin then.
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
	// Hashes are compared, so that it takes the same time whatever the length.
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

// isOwnHost reports whether a request's host is one that no stranger can have given this machine: an address or localhost.
func isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address, _, _ := strings.Cut(host, "%") // a zone
	return strings.EqualFold(host, "localhost") || net.ParseIP(address) != nil
}
