package profile

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// PassRules are the parts of its clients' handshakes that a service passes to its servers, in addition to those that its profile's
// variant passes. A request with any of these parts gets its own connection.
type PassRules struct {
	Path        bool     // the part of the path after the service's own
	Query       bool     // all parameters of the URL
	Parameters  []string // parameters of the URL by name
	Headers     []string // header fields, in canonical form
	Subprotocol bool     // the subprotocols that the client offers
	words       []string // as they are in the configuration
}

// passWords are the words that [ParsePass] accepts; a name follows those that end with a colon.
var passWords = []string{"path", "query", "query:", "header:", "subprotocol"}

// PassWords lists the words that a service's pass may contain, for help and errors.
const PassWords = "path, query, query:NAME, header:NAME, subprotocol"

// hopHeaders are fields that concern one connection only, in addition to those of the handshake. A proxy must not forward them
// (RFC 9110, section 7.6.1).
var hopHeaders = []string{"Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization"}

// CheckPassWord checks one word of a service's pass. The error says what is wrong and what is allowed.
func CheckPassWord(word string) error {
	_, err := ParsePass([]string{word})
	return err
}

// ParsePass reads the words of a service's pass. The error names the first wrong word and says what is allowed.
func ParsePass(words []string) (PassRules, error) {
	p := PassRules{words: words}
	for _, word := range words {
		kind, name, named := strings.Cut(word, ":")
		switch {
		case word == "path":
			p.Path = true
		case word == "query":
			p.Query = true
		case word == "subprotocol":
			p.Subprotocol = true
		case kind == "query" && named:
			if name == "" {
				return PassRules{}, fmt.Errorf("%q names no parameter: use query:NAME, or query for all parameters", word)
			}
			p.Parameters = append(p.Parameters, name)
		case kind == "header" && named:
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			switch {
			case !IsToken(name):
				return PassRules{}, fmt.Errorf("%q names no header: use header:NAME, such as header:Authorization", word)
			case canonical == "Sec-Websocket-Protocol":
				return PassRules{}, fmt.Errorf("%q: this header belongs to the handshake itself; use subprotocol to pass it", word)
			case slices.Contains(handshakeHeaders, canonical) || strings.HasPrefix(canonical, "Sec-Websocket-"):
				return PassRules{}, fmt.Errorf("%q: this header belongs to the handshake itself and cannot be passed", word)
			case slices.Contains(hopHeaders, canonical):
				return PassRules{}, fmt.Errorf("%q: this header is meant for the proxy itself (hop-by-hop) and cannot be passed", word)
			}
			if !slices.Contains(p.Headers, canonical) {
				p.Headers = append(p.Headers, canonical)
			}
		default:
			return PassRules{}, unknownPass(word, kind, name, named)
		}
	}
	return p, nil
}

func unknownPass(word, kind, name string, named bool) error {
	known, mistyped := passWords, kind
	if named {
		mistyped += ":"
	}
	near := spelling.Nearest(mistyped, known)
	if strings.HasSuffix(near, ":") {
		near += name
	}
	return spelling.UnknownNear("value", word, near, strings.Split(PassWords, ", "))
}

// Request holds the parts of a client's handshake that can be passed.
type Request struct {
	// Rest is the part of the path after the service's own, as the client wrote it (percent-encoded). If not empty, it begins with a slash.
	Rest string
	// Query is the URL's query without the question mark, as the client wrote it.
	Query string
	// Field returns the values of a header field by its name in canonical form.
	Field func(name string) []string
	// Subprotocols are those that the client offers, in the client's order.
	Subprotocols []string
	// Client is what the proxy itself knows of the client.
	Client Client
}

// HandshakePolicy decides which parts of its clients' handshakes a service passes to its servers: those of its profile's variant and
// those of the service's own rules. It is immutable once it is in use. With only Profile set, the variant's parts are passed.
type HandshakePolicy struct {
	Profile *Profile
	Pass    PassRules
	// BackendHeaders are the header fields, in canonical form, that every backend of the service sets itself. The proxy does not pass a
	// client's values of them.
	BackendHeaders []string
	// SetHeaders and SetQuery are what the service sends its servers itself. Whatever a client sends under these names is not passed. Those
	// without placeholders are part of all connections, which is for the caller.
	SetHeaders, SetQuery []SetPart
	// Subprotocol is what the proxy offers to servers if it does not pass the client's offer; empty for none.
	Subprotocol string
	// AlwaysPrivate gives each client a connection that is dialed for it alone, even if its handshake has nothing to pass. The caller
	// sets it if connections are neither dialed before clients arrive nor reused, or if servers refuse connections without a key: a
	// client that omits its key must not make the server look broken.
	AlwaysPrivate bool
}

// HandshakeParts is a set of parts of a client's handshake.
type HandshakeParts uint8

// The parts, in the order in which String names them.
const (
	PartQuery HandshakeParts = 1 << iota
	PartAuthorization
	PartSubprotocols
)

// partNames holds, for each part, its name and the word for it in a service's pass.
var partNames = [...]struct{ name, word string }{
	{"query", "query"}, {"Authorization", "header:Authorization"}, {"subprotocols", "subprotocol"},
}

// String returns the names of the parts.
func (k HandshakeParts) String() string {
	var names []string
	for i, kind := range partNames {
		if k>>i&1 != 0 {
			names = append(names, kind.name)
		}
	}
	return strings.Join(names, ", ")
}

// PassFor returns the value to which a service's pass must be set in order to pass these parts too.
func (p *HandshakePolicy) PassFor(k HandshakeParts) string {
	words := slices.Clone(p.Pass.words)
	for i, kind := range partNames {
		if k>>i&1 != 0 {
			words = append(words, kind.word)
		}
	}
	return strings.Join(words, ",")
}

// Any reports whether any part of a request can be passed.
func (p *HandshakePolicy) Any() bool {
	return p.Profile.Variants() || p.Pass.Path || p.Pass.Query || p.Pass.Subprotocol || len(p.Pass.Parameters)+len(p.Pass.Headers) > 0 || p.SetsByClient()
}

// String lists the parts that are passed, in the words of a service's pass.
func (p *HandshakePolicy) String() string {
	v := &p.Profile.spec.variant
	var words []string
	add := func(word string, passed bool) {
		if passed && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	add("path", p.Pass.Path)
	all := p.Pass.Query || slices.Contains(v.private.query, "*")
	add("query", all)
	for _, name := range slices.Concat(v.query, v.private.query, p.Pass.Parameters) {
		add("query:"+name, !all && !p.setsParameter(name))
	}
	for _, name := range slices.Concat(v.headers, v.private.headers, p.Pass.Headers) {
		add("header:"+name, !p.fixesHeader(name))
	}
	add("subprotocol", p.passesSubprotocol())
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ",")
}

// Drops returns the parts that the service never passes. Authorization is not among them if every backend sets it itself.
func (p *HandshakePolicy) Drops() (dropped HandshakeParts) {
	v := &p.Profile.spec.variant
	if !p.Pass.Query && len(p.Pass.Parameters)+len(v.query)+len(v.private.query) == 0 && !v.refuseOther {
		dropped |= PartQuery
	}
	if p.dropsAuthorization() {
		dropped |= PartAuthorization
	}
	if !p.passesSubprotocol() {
		dropped |= PartSubprotocols
	}
	return dropped
}

// fixesHeader reports whether servers get a header field from the service or its backends, whatever its clients say.
func (p *HandshakePolicy) fixesHeader(name string) bool {
	return slices.Contains(p.BackendHeaders, name) || p.setsHeader(name)
}

func (p *HandshakePolicy) dropsAuthorization() bool {
	return !p.passesField("Authorization") && !p.fixesHeader("Authorization")
}

func (p *HandshakePolicy) passesSubprotocol() bool {
	return p.Pass.Subprotocol || p.Profile.spec.variant.private.subprotocol
}

// Replace sets a header field of a private variant to a value of the proxy's own, or removes it if the value is empty. It changes nothing if
// the service does not pass the field, or if every backend sets it itself.
func (p *HandshakePolicy) Replace(v *Variant, name, value string) {
	if !p.passesField(name) || p.fixesHeader(name) {
		return
	}
	v.Header = slices.DeleteFunc(v.Header, func(f HeaderField) bool { return f.Name == name })
	if value != "" {
		v.Header = append(v.Header, HeaderField{name, value})
	}
}

// PassesCookies reports whether the backends get the cookies of clients.
func (p *HandshakePolicy) PassesCookies() bool {
	return p != nil && p.passesField("Cookie") && !p.fixesHeader("Cookie")
}

// passesParameter reports whether a parameter of the URL is passed on a connection of the client's own.
func (p *HandshakePolicy) passesParameter(name string) bool {
	v := &p.Profile.spec.variant
	return p.Pass.Query || slices.Contains(p.Pass.Parameters, name) ||
		!slices.Contains(v.query, name) && (slices.Contains(v.private.query, name) || slices.Contains(v.private.query, "*"))
}

// passesField reports whether a header field is passed on a connection of the client's own.
func (p *HandshakePolicy) passesField(name string) bool {
	return slices.Contains(p.Pass.Headers, name) || slices.Contains(p.Profile.spec.variant.private.headers, name)
}
