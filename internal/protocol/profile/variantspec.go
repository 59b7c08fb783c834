package profile

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// variantSpec says which parts of a client's request the server needs in its handshake with the proxy.
type variantSpec struct {
	query    []string            // parameters of the URL that are part of the key
	headers  []string            // header fields that are part of the key, in canonical form
	allow    map[string][]string // the allowed values, by parameter, or header in canonical form
	defaults map[string]string

	private privateSpec // what to pass that is never part of a key

	dialUnlisted bool // a client with a value that is not allowed gets its own connection; otherwise HTTP status 400
	refuseOther  bool // refuse a request with other parameters; otherwise drop them
	max          int  // for how many keys at a time the proxy keeps connections ready
}

// privateSpec says which parts of a client's request are passed on a connection of the client's own.
type privateSpec struct {
	query       []string // parameters; * for all others
	headers     []string // header fields
	subprotocol bool     // the subprotocols that a client offers, since its key may be among them
}

// none reports whether no part of a request matters.
func (v *variantSpec) none() bool {
	return len(v.query)+len(v.headers)+len(v.private.query)+len(v.private.headers) == 0 && !v.private.subprotocol && !v.refuseOther
}

// secretNames are parameters and header fields whose values usually are secrets, which must not become part of a key.
var secretNames = []string{
	"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "api_key", "key", "token", "access_token",
	"access-token", "auth", "jwt", "password", "secret", "signature", "xi-api-key", "x-auth-token",
}

// handshakeHeaders are the header fields of the connection itself, which a client cannot choose.
var handshakeHeaders = []string{
	"Connection", "Upgrade", "Host", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions",
	"Sec-Websocket-Protocol", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Keep-Alive", "Expect",
}

// IsToken reports whether a text is an HTTP token (RFC 9110, section 5.6.2).
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func (v *variantSpec) fields() []field {
	return []field{
		{"query", namesAt(&v.query, false)},
		{"headers", namesAt(&v.headers, true)},
		{"allow", mapAt(&v.allow, "a mapping from parameters to lists of values", func(r *reader, n *strictyaml.Node) ([]string, bool) {
			return r.values(n), true
		}, func(values []string) *yaml.Node { return list(quoteEach(values)) })},
		{"default", mapAt(&v.defaults, "a mapping from parameters to values", func(r *reader, n *strictyaml.Node) (string, bool) {
			values := r.values(n)
			return strings.Join(values, ""), len(values) == 1
		}, quoteValue)},
		{"private", sectionAt(&v.private, privateSpec{}, (*privateSpec).fields).inline()},
		{"unlisted", choiceAt(&v.dialUnlisted, "refuse", "dial")},
		{"other", choiceAt(&v.refuseOther, "drop", "refuse")},
		{"max", numberAt(&v.max, 1, 10000)},
	}
}

func (p *privateSpec) fields() []field {
	return []field{
		{"query", namesAt(&p.query, false)},
		{"headers", namesAt(&p.headers, true)},
		{"subprotocol", booleanAt(&p.subprotocol)},
	}
}

// namesAt is for names of parameters, or of header fields.
func namesAt(to *[]string, header bool) value {
	return bind(to, func(r *reader, n *strictyaml.Node) ([]string, bool) { return r.names(n, header), true },
		func(names []string) *yaml.Node { return list(quoteEach(names)) })
}

// names reads a list of names of parameters or header fields.
func (r *reader) names(n *strictyaml.Node, header bool) []string {
	if isNone(n) {
		return nil
	}
	var names []string
	for _, item := range items(n) {
		name, ok := r.text(item)
		if !ok {
			continue
		}
		if header {
			name = textproto.CanonicalMIMEHeaderKey(name)
		}
		switch {
		case name == "" || header && !IsToken(name):
			r.problem(placeOf(item), "invalid name %q of a parameter or header", name)
			continue
		case header && slices.Contains(handshakeHeaders, name):
			r.problem(placeOf(item), "%s belongs to the handshake itself and cannot be passed", name)
			continue
		case slices.Contains(names, name):
			r.problem(placeOf(item), "%q is listed twice", name)
			continue
		}
		names = append(names, name)
	}
	return names
}

// values reads a list of values. It takes numbers and booleans as texts, as they are written.
func (r *reader) values(n *strictyaml.Node) []string {
	var values []string
	for _, item := range items(n) {
		switch strictyaml.KindOf(item) {
		case strictyaml.Integer, strictyaml.Float, strictyaml.Bool:
			values = append(values, item.Value)
		default:
			if value, ok := r.text(item); ok {
				values = append(values, value)
			}
		}
	}
	return values
}

// checkVariant finds problems of a variant. It also changes the names in allow and defaults to canonical form.
func (r *reader) checkVariant(s *spec) {
	v := &s.variant
	canonical := func(name string) string {
		if header := textproto.CanonicalMIMEHeaderKey(name); slices.Contains(v.headers, header) {
			return header
		}
		return name
	}
	named := append(v.query[:len(v.query):len(v.query)], v.headers...)
	for _, name := range named {
		at := s.place("variant.query", "variant.headers", "variant")
		if slices.Contains(v.headers, name) {
			at = s.place("variant.headers", "variant")
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(v.allow)), func(k string) bool { return canonical(k) == name }) {
			r.problem(at, "%q has no list of allowed values, so any client could make the proxy keep connections for any value: set variant: {allow: {%s: [...]}}, or variant: {private: ...} to give each client its own connection", name, name)
		}
		if slices.Contains(secretNames, strings.ToLower(name)) {
			r.problem(at, "%q looks like a secret, which must not be part of a key that clients share: list it under variant: {private: ...}", name)
		}
		if name == "*" {
			r.problem(at, `"*" stands for all other parameters: use it only in variant: {private: {query: ...}}`)
		}
	}
	allow := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(v.allow)) {
		at := s.place("variant.allow."+key, "variant")
		if !slices.Contains(named, canonical(key)) {
			r.problem(at, "%q is listed neither in variant.query nor in variant.headers: add it to one of them", key)
		}
		if len(v.allow[key]) == 0 {
			r.problem(at, "%q has no allowed values: list at least one", key)
		}
		allow[canonical(key)] = v.allow[key]
	}
	defaults := make(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(v.defaults)) {
		name := canonical(key)
		if !slices.Contains(named, name) {
			r.problem(s.place("variant.default."+key, "variant"), "%q is listed neither in variant.query nor in variant.headers: add it to one of them", key)
		} else if !slices.Contains(allow[name], v.defaults[key]) {
			r.problem(s.place("variant.default."+key, "variant"), "invalid default %q for %q: use %s", v.defaults[key], key, spelling.OneOf(allow[name]))
		}
		defaults[name] = v.defaults[key]
	}
	for _, name := range append(v.private.query[:len(v.private.query):len(v.private.query)], v.private.headers...) {
		if slices.Contains(named, name) {
			r.problem(s.place("variant.private.query", "variant.private.headers", "variant"), "%q is listed in variant.private and outside it: remove one", name)
		}
	}
	v.allow, v.defaults = allow, defaults
}
