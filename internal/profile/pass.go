package profile

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// Passed is what of its clients' handshakes a service passes on to its servers, with any profile. It adds to what the profile's own
// variant says. A request that has any of it gets a connection of its own.
type Passed struct {
	Path        bool     // what follows the service's own path
	Query       bool     // all parameters of the URL
	Parameters  []string // parameters of the URL by name
	Headers     []string // header fields, in canonical form
	Subprotocol bool     // the subprotocols that the client offers
	words       []string // that say so
}

// passWords are the words that [ParsePass] knows; those that end with a colon are followed by a name.
var passWords = []string{"path", "query", "query:", "header:", "subprotocol"}

// PassWords says which words a service's pass may have.
const PassWords = "path, query, query:NAME, header:NAME, subprotocol"

// hopHeaders are fields that are about one connection only, which a proxy must not forward (RFC 9110, section 7.6.1), beside those
// of the handshake.
var hopHeaders = []string{"Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization"}

// CheckPassWord returns what is wrong with one word of a service's pass.
func CheckPassWord(word string) error {
	_, err := ParsePass([]string{word})
	return err
}

// ParsePass reads the words in which a configuration says what a service passes on.
func ParsePass(words []string) (Passed, error) {
	p := Passed{words: words}
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
				return Passed{}, fmt.Errorf("%q names no parameter: use query:NAME, or query for all parameters", word)
			}
			p.Parameters = append(p.Parameters, name)
		case kind == "header" && named:
			canonical := textproto.CanonicalMIMEHeaderKey(name)
			switch {
			case !IsToken(name):
				return Passed{}, fmt.Errorf("%q names no header: use header:NAME, such as header:Authorization", word)
			case canonical == "Sec-Websocket-Protocol":
				return Passed{}, fmt.Errorf("%q: this header belongs to the handshake itself; use subprotocol to pass it", word)
			case slices.Contains(handshakeHeaders, canonical) || strings.HasPrefix(canonical, "Sec-Websocket-"):
				return Passed{}, fmt.Errorf("%q: this header belongs to the handshake itself and cannot be passed", word)
			case slices.Contains(hopHeaders, canonical):
				return Passed{}, fmt.Errorf("%q: this header is meant for the proxy itself (hop-by-hop) and cannot be passed", word)
			}
			if !slices.Contains(p.Headers, canonical) {
				p.Headers = append(p.Headers, canonical)
			}
		default:
			return Passed{}, unknownPass(word, kind, name, named)
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

// Request is what a client says in its handshake.
type Request struct {
	// Rest is what follows the service's path, as the client wrote it (percent-encoded); empty, or it begins with a slash.
	Rest string
	// Query is the URL's query without the question mark, as the client wrote it.
	Query string
	// Field returns the values of a header field by its name in canonical form.
	Field func(name string) []string
	// Subprotocols are what the client offers, in its order.
	Subprotocols []string
}

// Passing is what of its clients' handshakes a service passes on: what its profile's variant says and what the service itself says.
// It is immutable once it is in use. With the other fields left zero, what the profile says is passed.
type Passing struct {
	Profile *Profile
	Pass    Passed
	// Own are the header fields, in canonical form, that every backend of the service sets itself, so that a client's are not passed.
	Own []string
	// Subprotocol is what servers are asked for when the client's offer is not passed; empty for nothing.
	Subprotocol string
	// Alone tells that each client gets a connection that is dialed for it alone, also one that says nothing: where nothing is dialed
	// ahead and connections are not used again, or where servers refuse those without a key, a client that leaves its key out must
	// not make the server look broken.
	Alone bool
}

// Said is a set of kinds of what a client can say in its handshake.
type Said uint8

// The kinds, in the order in which they are named.
const (
	SaysQuery Said = 1 << iota
	SaysAuthorization
	SaysSubprotocol
)

// kindNames are what the kinds are called, and the words that have them passed.
var kindNames = [...]struct{ name, word string }{
	{"query", "query"}, {"Authorization", "header:Authorization"}, {"subprotocols", "subprotocol"},
}

// String returns the kinds' names.
func (k Said) String() string {
	var names []string
	for i, kind := range kindNames {
		if k>>i&1 != 0 {
			names = append(names, kind.name)
		}
	}
	return strings.Join(names, ", ")
}

// WordsFor returns the words with which the service would pass these kinds, too.
func (p *Passing) WordsFor(k Said) string {
	words := slices.Clone(p.Pass.words)
	for i, kind := range kindNames {
		if k>>i&1 != 0 {
			words = append(words, kind.word)
		}
	}
	return strings.Join(words, ",")
}

// Any tells whether requests can differ in what the server must be told.
func (p *Passing) Any() bool {
	return p.Profile.Variants() || p.Pass.Path || p.Pass.Query || p.Pass.Subprotocol || len(p.Pass.Parameters)+len(p.Pass.Headers) > 0
}

// String says in words what is passed.
func (p *Passing) String() string {
	v := &p.Profile.spec.variant
	var words []string
	add := func(word string, passed bool) {
		if passed && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	add("path", p.Pass.Path)
	all := p.Pass.Query || slices.Contains(v.privateQuery, "*")
	add("query", all)
	for _, name := range slices.Concat(v.query, v.privateQuery, p.Pass.Parameters) {
		add("query:"+name, !all)
	}
	for _, name := range slices.Concat(v.headers, v.privateHeaders, p.Pass.Headers) {
		add("header:"+name, !slices.Contains(p.Own, name))
	}
	add("subprotocol", p.passesSubprotocol())
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ",")
}

// Drops returns the kinds that never reach the server, whatever a client says of them.
func (p *Passing) Drops() (dropped Said) {
	v := &p.Profile.spec.variant
	if !p.Pass.Query && len(p.Pass.Parameters)+len(v.query)+len(v.privateQuery) == 0 && !v.refuseOther {
		dropped |= SaysQuery
	}
	if !p.passesField("Authorization") && !slices.Contains(p.Own, "Authorization") {
		dropped |= SaysAuthorization
	}
	if !p.passesSubprotocol() {
		dropped |= SaysSubprotocol
	}
	return dropped
}

func (p *Passing) passesSubprotocol() bool {
	return p.Pass.Subprotocol || p.Profile.spec.variant.privateSubprotocol
}

// passesParameter tells whether a parameter of the URL is passed for a client alone.
func (p *Passing) passesParameter(name string) bool {
	v := &p.Profile.spec.variant
	return p.Pass.Query || slices.Contains(p.Pass.Parameters, name) ||
		!slices.Contains(v.query, name) && (slices.Contains(v.privateQuery, name) || slices.Contains(v.privateQuery, "*"))
}

// passesField tells whether a header field is passed for a client alone.
func (p *Passing) passesField(name string) bool {
	return slices.Contains(p.Pass.Headers, name) || slices.Contains(p.Profile.spec.variant.privateHeaders, name)
}
