package profile

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// variantSpec says which parts of a client's request the server needs in its handshake with the proxy.
type variantSpec struct {
	query    []string            // parameters of the URL that are part of the key
	headers  []string            // header fields that are part of the key, in canonical form
	allow    map[string][]string // the allowed values, by parameter, or header in canonical form
	defaults map[string]string

	privateQuery   []string // parameters to pass that are never part of a key; * for all others
	privateHeaders []string // header fields to pass that are never part of a key
	// privateSubprotocol passes the subprotocols that a client offers, since its key may be among them.
	privateSubprotocol bool

	dialUnlisted bool // a client with a value that is not allowed gets its own connection; otherwise HTTP status 400
	refuseOther  bool // refuse a request with other parameters; otherwise drop them
	max          int  // for how many keys at a time the proxy keeps connections ready
}

// none reports whether no part of a request matters.
func (v *variantSpec) none() bool {
	return len(v.query)+len(v.headers)+len(v.privateQuery)+len(v.privateHeaders) == 0 && !v.privateSubprotocol && !v.refuseOther
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

func (r *reader) variant(s *spec, n *strictyaml.Node) {
	v := &s.variant
	for _, f := range r.below(s, "variant", n, "query", "headers", "allow", "default", "private", "unlisted", "other", "max") {
		switch f.key {
		case "query":
			v.query = r.names(f.value, false)
		case "headers":
			v.headers = r.names(f.value, true)
		case "allow":
			v.allow = make(map[string][]string)
			entries := r.mapping(f.value, "a mapping from parameters to lists of values")
			for _, e := range entries {
				v.allow[e.key] = r.values(e.value)
				s.own["variant.allow."+e.key] = e.at
			}
		case "default":
			v.defaults = make(map[string]string)
			entries := r.mapping(f.value, "a mapping from parameters to values")
			for _, e := range entries {
				if values := r.values(e.value); len(values) == 1 {
					v.defaults[e.key] = values[0]
				}
				s.own["variant.default."+e.key] = e.at
			}
		case "private":
			for _, p := range r.below(s, "variant.private", f.value, "query", "headers", "subprotocol") {
				switch p.key {
				case "query":
					v.privateQuery = r.names(p.value, false)
				case "headers":
					v.privateHeaders = r.names(p.value, true)
				case "subprotocol":
					if value, ok := r.boolean(p.value); ok {
						v.privateSubprotocol = value
					}
				}
			}
		case "unlisted":
			if i, ok := r.word(f.value, "refuse", "dial"); ok {
				v.dialUnlisted = i == 1
			}
		case "other":
			if i, ok := r.word(f.value, "drop", "refuse"); ok {
				v.refuseOther = i == 1
			}
		case "max":
			if value, ok := r.number(f.value, 1, 10000); ok {
				v.max = int(value)
			}
		}
	}
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
	for _, name := range append(v.privateQuery[:len(v.privateQuery):len(v.privateQuery)], v.privateHeaders...) {
		if slices.Contains(named, name) {
			r.problem(s.place("variant.private.query", "variant.private.headers", "variant"), "%q is listed in variant.private and outside it: remove one", name)
		}
	}
	v.allow, v.defaults = allow, defaults
}
