package profile

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Variant is what of a client's request the server must be told in its handshake. Connections of one variant are alike.
type Variant struct {
	// Key is the same for all requests that can share connections, and never holds a secret; empty when nothing of the
	// request matters, and for private ones.
	Key string
	// Private tells that the connection must be dialed for this client alone, and closed after it.
	Private bool
	// Query is what to add to the backend's URL, encoded; empty for nothing.
	Query string
	// Header are the fields to add to the handshake, in a fixed order.
	Header []HeaderField
}

// HeaderField is a field of an HTTP header, its name in canonical form.
type HeaderField struct{ Name, Value string }

// BadParameter is the error of [Profile.Variant]: what to answer with HTTP status 400.
type BadParameter struct{ Text string }

func (e *BadParameter) Error() string { return e.Text }

func badParameter(format string, args ...any) error {
	return &BadParameter{fmt.Sprintf(format, args...)}
}

// MaxVariants is how many variants' connections are kept ready at a time: those used last.
func (p *Profile) MaxVariants() int { return p.spec.variant.max }

// Variants tells whether requests can differ in what the server must be told in its handshake.
func (p *Profile) Variants() bool { return !p.spec.variant.none() }

// Private tells whether requests may have values that the server is to be told over a connection of the client's own.
func (p *Profile) Private() bool {
	v := &p.spec.variant
	return len(v.privateQuery)+len(v.privateHeaders) > 0 || v.dialUnlisted
}

// Sticks tells whether sessions can leave settings on a connection, so that others have to go elsewhere.
func (p *Profile) Sticks() bool { return p.program.sticks() }

// Variant returns what the server must be told for a request with this query (without the question mark) and header. field
// returns the values of a header field by its name in canonical form. The error is a [*BadParameter].
func (p *Profile) Variant(query string, field func(name string) []string) (Variant, error) {
	v := &p.spec.variant
	if v.none() {
		return Variant{}, nil
	}
	given, err := url.ParseQuery(query)
	if err != nil {
		return Variant{}, badParameter("the query of the URL is not understood")
	}
	var out Variant
	var key []string
	pass := make(url.Values)
	for name, values := range given {
		switch {
		case slices.Contains(v.query, name):
		case slices.Contains(v.privateQuery, name) || slices.Contains(v.privateQuery, "*"):
			pass[name] = values
			out.Private = true
		case v.refuseOther:
			return Variant{}, badParameter("parameter %s is not known; allowed are %s", shown(name), strings.Join(append(slices.Clone(v.query), v.privateQuery...), ", "))
		}
	}
	for _, name := range v.query {
		value, listed, err := v.value("parameter", name, given[name])
		if err != nil {
			return Variant{}, err
		}
		if value == nil {
			continue
		}
		pass.Set(name, *value)
		key = append(key, url.QueryEscape(name)+"="+url.QueryEscape(*value))
		out.Private = out.Private || !listed
	}
	for _, name := range v.headers {
		value, listed, err := v.value("header field", name, field(name))
		if err != nil {
			return Variant{}, err
		}
		if value == nil {
			continue
		}
		out.Header = append(out.Header, HeaderField{name, *value})
		key = append(key, "header:"+url.QueryEscape(name)+"="+url.QueryEscape(*value))
		out.Private = out.Private || !listed
	}
	for _, name := range v.privateHeaders {
		for _, value := range field(name) {
			out.Header = append(out.Header, HeaderField{name, value})
			out.Private = true
		}
	}
	slices.SortStableFunc(out.Header, func(a, b HeaderField) int { return strings.Compare(a.Name, b.Name) })
	out.Query = pass.Encode()
	if !out.Private {
		slices.Sort(key)
		out.Key = strings.Join(key, "&")
	}
	return out, nil
}

// value returns the value of a parameter that is part of the key: the client's, the default, or nil for none. listed tells
// whether it is among those allowed.
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
		return nil, false, badParameter("%s %s: %s is not allowed; allowed are %s", what, name, shown(values[0]), strings.Join(v.allow[name], ", "))
	}
	return nil, false, badParameter("%s %s is given twice", what, name)
}

// shown returns a client's text, shortened, for the answer to that client.
func shown(s string) string { return fmt.Sprintf("%.40q", s) }
