package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Access says who may use what of the API is not open to all callers, and as what: a reader sees everything but secrets and the
// contents of sessions, an operator may also change and tap.
type Access struct {
	// Token returns the token of operators (Authorization: Bearer TOKEN); empty for none. It is called for each request, so that the
	// token may change. A nil Token means none. If there is a token, every request needs one.
	Token func() string
	// ReaderToken returns the token of readers, in the same way. Without Token, trusted callers need none.
	ReaderToken func() string
	// Trusted decides if there is no token. It returns the role of who sent a request, by the way that it came: a unix socket's file says who may
	// connect to it (api.RoleOperator), and only users of this machine can connect to a loopback address, but any of them (api.RoleReader).
	// Requests for which it returns an empty text are refused, even those that only read, since what they read may have secret values. Nil
	// trusts no caller.
	Trusted func(*http.Request) (role string)
	// Peer returns which proxy of the fleet sent a request, and which of the two tokens it has proven to know; neither for a wrong one. An
	// empty name is for requests without such a proof, and an error for a proof that is not taken. Nil for no proofs.
	Peer func(r *http.Request, operator, reader string) (name string, isOperator, isReader bool, err error)
	// Socket is the path of the admin socket, for those who are refused at another address; empty if there is none.
	Socket string
	// Audit notes wrong tokens and refused actions; nil for no notes.
	Audit *Audit
	// Guesses limits how often an address may send a wrong token and be noted in the log; nil for no limit. A right token is taken even
	// while the address must wait: behind it may be many, and one of them must not lock out the others, proxies of the fleet among them. So a
	// token must be too long to be guessed.
	Guesses Guesses
}

// Guesses limits failures of addresses. Callers of the admin socket, which have none, are not limited: file permissions say who
// they are, and no other caller can lock them out. Its methods may be called from any goroutine.
type Guesses interface {
	// Wait returns how long an address must wait before its next attempt; 0 for not at all.
	Wait(netip.Addr) time.Duration
	// Failed counts a failed attempt; where is for the log.
	Failed(from netip.Addr, where string)
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

// readOnly is the refusal of a change by a caller without a token, at an address where anybody may read. It names the ways to make it.
func (a *Access) readOnly() *Error {
	ways := "use the admin socket on the proxy's machine (--admin unix:" + a.Socket + "), or set admin-token for the proxy and give it to commands with --admin-token"
	if a.Socket == "" {
		ways = "this proxy has no admin socket, so set admin-token for it and give it to commands with --admin-token"
	}
	return refused(http.StatusForbidden, "without a token, the admin API is read-only at this address: %s", ways)
}

// tokens returns the tokens of operators and of readers; empty for none.
func (a *Access) tokens() (operator, reader string) {
	if a.Token != nil {
		operator = a.Token()
	}
	if a.ReaderToken != nil {
		reader = a.ReaderToken()
	}
	return operator, reader
}

// admit returns who sent a request, or an error if that caller may not use the API at all.
func (a *Access) admit(r *http.Request) (*Caller, error) {
	if err := otherOrigin(r); err != nil {
		return nil, err
	}
	operator, reader := a.tokens()
	if scheme, token := credentials(r); token != "" && operator+reader != "" {
		return a.authorize(r, func() (*Caller, error) {
			if a.Peer != nil {
				name, isOperator, isReader, err := a.Peer(r, operator, reader)
				if err != nil {
					return nil, refused(http.StatusUnauthorized, "%v", err)
				}
				if name != "" {
					return callerWith(r, isOperator, isReader, name, name), nil
				}
			}
			return callerByToken(r, scheme, token, operator, reader), nil
		})
	}
	if operator != "" {
		return nil, refused(http.StatusUnauthorized, "the admin API needs a token (Authorization: Bearer TOKEN)")
	}
	role, err := a.trust(r)
	if err != nil {
		if reader != "" {
			return nil, refused(http.StatusUnauthorized, "the admin API needs a token (Authorization: Bearer TOKEN) for this request: %v", err)
		}
		return nil, err
	}
	return &Caller{Role: role, Name: localName(r), From: fromOf(r)}, nil
}

// stillAdmits reports whether it would admit a request again that may need a role: a stream lasts, and tokens change. operator and reader are those
// that were in force when it began. It counts no wrong token, since the caller has sent nothing since then.
func (a *Access) stillAdmits(r *http.Request, role, operator, reader string) bool {
	operatorNow, readerNow := a.tokens()
	if operatorNow == operator && readerNow == reader {
		return true // also another proxy of the fleet, whose proof holds for one request only
	}
	scheme, token := credentials(r)
	switch {
	case token != "" && operatorNow+readerNow != "":
		caller := callerByToken(r, scheme, token, operatorNow, readerNow)
		return caller != nil && caller.may(role)
	case operatorNow != "":
		return false
	}
	trusted, err := a.trust(r)
	return err == nil && (&Caller{Role: trusted}).may(role)
}

// trust returns the role of who sent a request without a token, or why it is not known to come from a user of this machine.
func (a *Access) trust(r *http.Request) (role string, err error) {
	// The name of a page's site may lead to this machine (DNS rebinding). Then the page's requests have the same origin.
	if !isOwnHost(r.Host) {
		return "", refused(http.StatusForbidden, "the request is for the host %.100q: use an IP address or localhost, or set --admin-token", r.Host)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(name)) > 0 { // the peer is on this machine, but who asked it?
			return "", refused(http.StatusForbidden, "another proxy forwarded the request (header %s): set --admin-token to allow this", name)
		}
	}
	if a.Trusted != nil {
		role = a.Trusted(r)
	}
	if role == "" {
		return "", refused(http.StatusForbidden, "use the admin socket or a loopback address, or set --admin-token")
	}
	return role, nil
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
func unproven(r *http.Request, caller *Caller) error {
	if r.Header.Get(api.ChangeHeader) != "" || isJSON(r) || caller.Name == operatorToken {
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

// credentials returns what a request has to prove who sent it; empty for nothing.
func credentials(r *http.Request) (scheme, token string) {
	scheme, token, _ = strings.Cut(r.Header.Get("Authorization"), " ")
	return scheme, strings.TrimSpace(token)
}

// authorize returns who sent a request with credentials. caller compares them with the tokens, and returns nil if they are wrong.
func (a *Access) authorize(r *http.Request, caller func() (*Caller, error)) (*Caller, error) {
	if c, err := caller(); c != nil || err != nil {
		return c, err
	}
	if from := addressOf(r); a.Guesses != nil && from.IsValid() {
		if wait := a.Guesses.Wait(from); wait > 0 {
			return nil, &Error{
				Status: http.StatusTooManyRequests, Kind: api.KindRefused, RetryAfter: wait,
				Text: "too many wrong tokens from this address: try again later",
			}
		}
		a.Guesses.Failed(from, "admin API")
	}
	return nil, refused(http.StatusUnauthorized, wrongToken)
}

// callerByToken returns the caller who sent one of the tokens; nil for neither.
func callerByToken(r *http.Request, scheme, token, operator, reader string) *Caller {
	// Both are always compared, and their hashes: that takes the same time for a token that is right, half right or wrong, of any length.
	isOperator, isReader := same(token, operator), same(token, reader)
	bearer := strings.EqualFold(scheme, "Bearer")
	return callerWith(r, bearer && isOperator, bearer && isReader, operatorToken, readerToken)
}

// callerWith returns the caller who knows one of the tokens, with the name for that; nil for neither.
func callerWith(r *http.Request, isOperator, isReader bool, operator, reader string) *Caller {
	switch {
	case isOperator:
		return &Caller{Role: api.RoleOperator, Name: operator, From: fromOf(r)}
	case isReader:
		return &Caller{Role: api.RoleReader, Name: reader, From: fromOf(r)}
	}
	return nil
}

// addressOf returns the address that a request came from; the zero Addr for the admin socket.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || isSocket(r) {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

const wrongToken = "wrong token for the admin API"

// same compares a token that was sent with one of ours in constant time. An empty one is like none.
func same(sent, want string) bool {
	sum, wanted := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(sum[:], wanted[:]) == 1 && want != ""
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
