package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

// Access says who may use what of the API is not open to everybody.
type Access struct {
	// Token returns the token that every request must have (Authorization: Bearer TOKEN); empty for none. It is called for each
	// request, so that the token may change. A nil Token means none.
	Token func() string
	// Trusted decides if there is no token. It reports whether a request came in a way that only users of this machine have, such
	// as a unix socket or a loopback address; nil for never. All other requests are refused, even those that only read, since
	// what they read may have secret values.
	Trusted func(*http.Request) bool
}

// Guard returns a handler that passes on the requests of callers who have access, and refuses all others. It trusts the users of this
// machine. They run browsers, and a browser sends whatever any page on the Internet makes it send: so Guard refuses requests that a
// browser sends for a page of another origin, with or without a token.
func Guard(access Access, next http.Handler) http.Handler {
	return route{all: next}.handler(access)
}

// changes reports whether requests with this method change something (RFC 9110, section 9.2.1).
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

func refused(status int, format string, args ...any) *Error {
	return &Error{Status: status, Kind: api.KindRefused, Text: fmt.Sprintf(format, args...)}
}

func (a *Access) token() string {
	if a.Token == nil {
		return ""
	}
	return a.Token()
}

// refusal returns why the caller may not use the API; nil if it may.
func (a *Access) refusal(r *http.Request) error {
	if err := otherOrigin(r); err != nil {
		return err
	}
	if token := a.token(); token != "" {
		return authorize(r, token)
	}
	// The name of a page's site may lead to this machine (DNS rebinding). Then the page's requests have the same origin.
	if !isOwnHost(r.Host) {
		return refused(http.StatusForbidden, "the request is for the host %.100q: use an IP address or localhost, or set --admin-token", r.Host)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(name)) > 0 { // the peer is on this machine, but who asked it?
			return refused(http.StatusForbidden, "another proxy forwarded the request (header %s): set --admin-token to allow this", name)
		}
	}
	if a.Trusted == nil || !a.Trusted(r) {
		return refused(http.StatusForbidden, "use the admin socket or a loopback address, or set --admin-token")
	}
	return nil
}

// otherOrigin returns an error if a browser sends the request for a page of another origin. Browsers send Sec-Fetch-Site to secure and
// loopback origins only (W3C Fetch Metadata, section 2), and Origin with all requests that are neither GET nor HEAD (WHATWG Fetch,
// section 3.2). So both are checked.
func otherOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if r.Host == "" || !strings.EqualFold(origin, "http://"+r.Host) && !strings.EqualFold(origin, "https://"+r.Host) {
			return refused(http.StatusForbidden, "the request has the header Origin (%.100q) and is for the host %.100q: "+
				"pages of other origins may not use this API", origin, r.Host)
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" && site != "same-origin" {
			return refused(http.StatusForbidden, "the request has the header Sec-Fetch-Site: %.100q: pages of other origins may not use this API", site)
		}
	}
	return nil
}

// unproven returns an error if a request that has an effect could be one that a page of another origin made a browser send. Such a page
// can send neither a token, nor the header, nor a body of this type without asking first (a preflight request, WHATWG Fetch, section
// 4.8), and is refused then. This holds also for browsers that send neither Origin nor Sec-Fetch-Site.
func (a *Access) unproven(r *http.Request) error {
	if r.Header.Get(api.ChangeHeader) != "" || isJSON(r) || a.token() != "" { // refusal has compared the token
		return nil
	}
	if sent := r.Header.Get("Content-Type"); sent != "" {
		return wrongType(sent)
	}
	return refused(http.StatusForbidden, "the request changes something: send the header %s, such as %[1]s: 1, or a JSON body with "+
		"Content-Type: application/json", api.ChangeHeader)
}

// isJSON reports whether a request says that its body is JSON.
func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}

func authorize(r *http.Request, want string) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Comparing hashes takes the same time for tokens of any length.
	sum, wanted := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(want))
	same := subtle.ConstantTimeCompare(sum[:], wanted[:]) == 1
	switch {
	case token == "":
		return refused(http.StatusUnauthorized, "the admin API needs a token (Authorization: Bearer TOKEN)")
	case !strings.EqualFold(scheme, "Bearer") || !same:
		return refused(http.StatusUnauthorized, "wrong token for the admin API")
	}
	return nil
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
