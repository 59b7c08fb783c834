package profile

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Placeholders are what may stand in braces in a [Template]: parts of a client's identity, and its address.
var Placeholders = []string{"tenant", "subject", "key", "method", "client"}

// Client holds what the proxy itself knows of a client, by [Placeholders]. Empty values are not known.
type Client struct {
	Tenant, Subject string
	Key             string // the name of the API key, never the key
	Method          string // how the client was authenticated
	Address         string
}

// value returns the value for a placeholder.
func (c *Client) value(placeholder string) string {
	switch placeholder {
	case "tenant":
		return c.Tenant
	case "subject":
		return c.Subject
	case "key":
		return c.Key
	case "method":
		return c.Method
	}
	return c.Address
}

// Template is a text with placeholders, which are names in braces. It is immutable.
type Template struct {
	// texts stand before, between and after the placeholders: there is one more of them.
	texts        []string
	placeholders []string
}

// ParseTemplate reads a text. The error says what is wrong and what is allowed.
func ParseTemplate(text string) (t Template, err error) {
	for rest := text; ; {
		begin := strings.IndexAny(rest, "{}")
		if begin < 0 {
			t.texts = append(t.texts, rest)
			return t, nil
		}
		end := strings.IndexByte(rest, '}')
		if rest[begin] == '}' || end < 0 {
			return Template{}, fmt.Errorf("invalid text %q: each { needs its }", text)
		}
		name := rest[begin+1 : end]
		if !slices.Contains(Placeholders, name) {
			return Template{}, spelling.Unknown("placeholder", name, Placeholders)
		}
		t.texts, t.placeholders = append(t.texts, rest[:begin]), append(t.placeholders, name)
		rest = rest[end+1:]
	}
}

// Fixed returns the text of a template without placeholders, which is the same for all clients. ok is false for other templates.
func (t *Template) Fixed() (text string, ok bool) {
	if len(t.placeholders) > 0 {
		return "", false
	}
	return t.texts[0], true
}

// expand returns the text for a client. ok is false if a value is not known: then nothing is said, rather than half of it.
func (t *Template) expand(c *Client) (text string, ok bool) {
	var b strings.Builder
	for i, before := range t.texts {
		b.WriteString(before)
		if i == len(t.placeholders) {
			break
		}
		value := c.value(t.placeholders[i])
		if value == "" {
			return "", false
		}
		b.WriteString(value)
	}
	return b.String(), true
}

// SetPart is a header field, its name in canonical form, or a parameter of the URL that a service sets itself.
type SetPart struct {
	Name string
	Template
}

// UnfitValue is the error of [HandshakePolicy.Variant] for a client of whom the servers cannot be told what they must be told. The caller
// must refuse it with HTTP status 403.
type UnfitValue struct{ Header string }

func (e *UnfitValue) Error() string {
	return "the value for the header " + e.Header + " has characters other than printable ASCII, or a space at its end"
}

// setHeaders adds the header fields with placeholders to a variant.
func (p *HandshakePolicy) setHeaders(v *Variant, c *Client) error {
	for _, set := range p.SetHeaders {
		if _, fixed := set.Fixed(); fixed { // all connections have it
			continue
		}
		value, ok := set.expand(c)
		if !ok {
			continue
		}
		if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return &UnfitValue{set.Name}
		}
		v.Header = append(v.Header, HeaderField{set.Name, value})
		v.Private = true
	}
	return nil
}

// setParameters returns the parameters with placeholders, encoded.
func (p *HandshakePolicy) setParameters(c *Client) (encoded []string) {
	for _, set := range p.SetQuery {
		if _, fixed := set.Fixed(); fixed { // all connections have it
			continue
		}
		if value, ok := set.expand(c); ok {
			encoded = append(encoded, url.QueryEscape(set.Name)+"="+url.QueryEscape(value))
		}
	}
	return encoded
}

// setsHeader reports whether the service sets a header field itself, so that a client cannot.
func (p *HandshakePolicy) setsHeader(name string) bool {
	return slices.ContainsFunc(p.SetHeaders, func(s SetPart) bool { return s.Name == name })
}

// setsParameter is setsHeader for a parameter of the URL.
func (p *HandshakePolicy) setsParameter(name string) bool {
	return slices.ContainsFunc(p.SetQuery, func(s SetPart) bool { return s.Name == name })
}

// setsAnyOf reports whether the service sets a parameter that some server could read in one piece of a client's query: servers differ in
// whether names have upper and lower case, and some take a semicolon for an ampersand.
func (p *HandshakePolicy) setsAnyOf(raw string) bool {
	if len(p.SetQuery) == 0 {
		return false
	}
	for piece := range strings.SplitSeq(raw, ";") {
		name, _, _ := parameter(piece)
		name = strings.TrimSpace(name)
		if slices.ContainsFunc(p.SetQuery, func(s SetPart) bool { return strings.EqualFold(s.Name, name) }) {
			return true
		}
	}
	return false
}

// SetsByClient reports whether the service sets anything that differs by client, which takes a connection of the client's own.
func (p *HandshakePolicy) SetsByClient() bool {
	return slices.ContainsFunc(slices.Concat(p.SetHeaders, p.SetQuery), func(s SetPart) bool {
		_, fixed := s.Fixed()
		return !fixed
	})
}

// CheckSets returns an error if a service sets a header field, by its name in canonical form, or a parameter by which the profile distinguishes
// connections that clients share: the connections would not be what their clients take them for.
func (p *Profile) CheckSets(headers, query []string) (field string, err error) {
	for _, name := range headers {
		if slices.Contains(p.spec.variant.headers, name) {
			return "set-header", fmt.Errorf("%s: the profile %s keeps connections ready for each value of this header, which clients choose", name, p.Name)
		}
	}
	for _, name := range query {
		if slices.Contains(p.spec.variant.query, name) {
			return "set-query", fmt.Errorf("%s: the profile %s keeps connections ready for each value of this parameter, which clients choose", name, p.Name)
		}
	}
	return "", nil
}
