package profile

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Variant holds the parts of a client's request that the proxy passes in its own handshake with the server. Clients of the same variant
// can share connections, unless it is private.
type Variant struct {
	// Key is the same for all requests that can share connections, and never contains a secret. It is empty if no part of the request
	// matters, and for private variants.
	Key string
	// Private means that the proxy dials the connection for this client alone, and closes it after the session.
	Private bool
	// Path is what to append to the path of the backend's URL, encoded; empty for nothing.
	Path string
	// Query is what to add to the backend's URL, encoded; empty for nothing.
	Query string
	// Header are the fields to add to the handshake, in a fixed order.
	Header []HeaderField
	// Subprotocols are those to offer to the server; empty to offer the configured one.
	Subprotocols []string
}

// HeaderField is a field of an HTTP header, its name in canonical form.
type HeaderField struct{ Name, Value string }

// BadParameter is the error of [HandshakePolicy.Variant] for a request that the caller must refuse with HTTP status 400.
type BadParameter struct{ Text string }

func (e *BadParameter) Error() string { return e.Text }

func badParameter(format string, args ...any) error {
	return &BadParameter{fmt.Sprintf(format, args...)}
}

// MaxVariants returns for how many variants the proxy keeps connections ready: the most recently used ones.
func (p *Profile) MaxVariants() int { return p.spec.variant.max }

// Variants reports whether the profile passes any part of requests to the server.
func (p *Profile) Variants() bool { return !p.spec.variant.none() }

// Private reports whether requests may contain values that the proxy passes only on a connection of the client's own.
func (p *Profile) Private() bool {
	v := &p.spec.variant
	return len(v.private.query)+len(v.private.headers) > 0 || v.private.subprotocol || v.dialUnlisted
}

// Sticks reports whether sessions can leave settings on a connection, so that sessions with other settings need another one.
func (p *Profile) Sticks() bool { return p.program.hasSticky() }

// Variant returns the parts to pass of a request with this query (without the question mark) and these header fields, for a service
// without its own rules. field is like [Request].Field. The error is a [*BadParameter].
func (p *Profile) Variant(query string, field func(name string) []string) (Variant, error) {
	passing := HandshakePolicy{Profile: p}
	v, _, err := passing.Variant(Request{Query: query, Field: field})
	return v, err
}

// Variant returns the parts of a request to pass, and the parts to drop. The error is a [*BadParameter] or an [*UnfitValue].
func (p *HandshakePolicy) Variant(r Request) (v Variant, dropped HandshakeParts, err error) {
	v.Private = p.AlwaysPrivate
	if p.Pass.Path && r.Rest != "" {
		v.Path, v.Private = r.Rest, true
	}
	if dropped = p.offer(&v, r.Subprotocols); len(v.Subprotocols) > 0 {
		v.Private = true
	}
	key, err := p.header(&v, r)
	if err != nil {
		return Variant{}, 0, err
	}
	if len(r.Field("Authorization")) > 0 && p.dropsAuthorization() {
		dropped |= PartAuthorization
	}
	parameters, more, lost, err := p.query(&v, r)
	if err != nil {
		return Variant{}, 0, err
	}
	if lost {
		dropped |= PartQuery
	}
	if v.Private {
		v.Query = parameters
	} else {
		key = append(key, more...)
		slices.Sort(key)
		v.Key = strings.Join(key, "&")
	}
	return v, dropped, nil
}

// offer decides which subprotocols to offer to the server. A client that offers only the subprotocol that the proxy offers anyway can
// share connections.
func (p *HandshakePolicy) offer(v *Variant, offers []string) (dropped HandshakeParts) {
	other := slices.ContainsFunc(offers, func(offer string) bool { return offer != p.Subprotocol })
	switch {
	case !other:
	case p.passesSubprotocol():
		v.Subprotocols = offers
	default:
		dropped = PartSubprotocols
	}
	return dropped
}

// header decides which header fields to pass. It returns the key's parts for those that clients can share.
func (p *HandshakePolicy) header(v *Variant, r Request) (key []string, err error) {
	spec := &p.Profile.spec.variant
	add := func(name string) {
		for _, value := range r.Field(name) {
			v.Header = append(v.Header, HeaderField{name, value})
			v.Private = true
		}
	}
	for _, name := range spec.headers {
		if p.setsHeader(name) {
			continue
		}
		value, listed, err := spec.value("header", name, r.Field(name))
		switch {
		case slices.Contains(p.Pass.Headers, name) && (err != nil || !listed):
			add(name)
			continue
		case err != nil:
			return nil, err
		case value == nil:
			continue
		}
		v.Header = append(v.Header, HeaderField{name, *value})
		key = append(key, "header:"+url.QueryEscape(name)+"="+url.QueryEscape(*value))
		v.Private = v.Private || !listed
	}
	for i, names := range [][]string{spec.private.headers, p.Pass.Headers} {
		for _, name := range names {
			if !slices.Contains(spec.headers, name) && !p.fixesHeader(name) && (i == 0 || !slices.Contains(spec.private.headers, name)) {
				add(name)
			}
		}
	}
	if err := p.setHeaders(v, &r.Client); err != nil {
		return nil, err
	}
	slices.SortStableFunc(v.Header, func(a, b HeaderField) int { return strings.Compare(a.Name, b.Name) })
	return key, nil
}

// query decides which parameters to pass. It sets v.Query to the query for a shared connection, and returns the query for a private one:
// the client's own text in the client's order, then the defaults, and then what the service sets. It also returns the key's parts, and whether it dropped any
// parameter.
func (p *HandshakePolicy) query(v *Variant, r Request) (private string, key []string, lost bool, err error) {
	spec, query := &p.Profile.spec.variant, r.Query
	set := p.setParameters(&r.Client)
	v.Private = v.Private || len(set) > 0
	if query == "" && len(spec.query)+len(set) == 0 {
		return "", nil, false, nil
	}
	given := make(map[string][]string) // values of the parameters in the key
	var passed []string
	for raw := range strings.SplitSeq(query, "&") {
		if raw == "" {
			if p.Pass.Query && query != "" {
				passed = append(passed, raw)
			}
			continue
		}
		name, value, ok := parameter(raw)
		switch {
		case p.setsAnyOf(raw): // whatever the client says
		case ok && slices.Contains(spec.query, name):
			given[name] = append(given[name], value)
			passed = append(passed, raw)
		case p.passesParameter(name):
			passed = append(passed, raw)
			v.Private = true
		case !ok && !spec.none():
			return "", nil, false, badParameter("the query of the URL is malformed")
		case spec.refuseOther:
			return "", nil, false, badParameter("%v", spelling.Unknown("parameter", shorten(name), slices.Concat(spec.query, spec.private.query)))
		default:
			lost = true
		}
	}
	shared := make(url.Values)
	for _, name := range spec.query {
		if p.setsParameter(name) {
			continue
		}
		value, listed, err := spec.value("parameter", name, given[name])
		switch {
		case err != nil && p.passesParameter(name):
			v.Private = true
			continue
		case err != nil:
			return "", nil, false, err
		case value == nil:
			continue
		}
		shared.Set(name, *value)
		key = append(key, url.QueryEscape(name)+"="+url.QueryEscape(*value))
		v.Private = v.Private || !listed
		if given[name] == nil {
			passed = append(passed, url.QueryEscape(name)+"="+url.QueryEscape(*value))
		}
	}
	v.Query = shared.Encode()
	return strings.Join(append(passed, set...), "&"), key, lost, nil
}

// parameter reads one parameter of a query. If it is malformed, ok is false, and name and value are not decoded.
func parameter(raw string) (name, value string, ok bool) {
	name, value, _ = strings.Cut(raw, "=")
	plain, err := url.QueryUnescape(name)
	if err != nil {
		return name, value, false
	}
	text, err := url.QueryUnescape(value)
	return plain, text, err == nil
}

// value returns the value of a parameter or header field that is part of the key: the client's, the default, or nil for none. listed
// reports whether the value is allowed.
func (v *variantSpec) value(what, name string, values []string) (value *string, listed bool, err error) {
	switch len(values) {
	case 0:
		if d, ok := v.defaults[name]; ok {
			return &d, true, nil
		}
		return nil, true, nil
	case 1:
		if slices.Contains(v.allow[name], values[0]) {
			return &values[0], true, nil
		}
		if v.dialUnlisted {
			return &values[0], false, nil
		}
		return nil, false, badParameter("invalid value %q for %s %s: use %s", shorten(values[0]), what, name, spelling.OneOf(v.allow[name]))
	}
	return nil, false, badParameter("%s %s is given more than once", what, name)
}

// shorten returns the first 40 characters of a client's text, for the answer to that client.
func shorten(s string) string { return fmt.Sprintf("%.40s", s) }
