package services

import (
	"cmp"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// passes returns which parts of its clients' handshakes the service passes to its backends.
func (v *servicePlan) passes(pass profile.PassRules) *profile.HandshakePolicy {
	passing := &profile.HandshakePolicy{Profile: v.profile, Pass: pass, BackendHeaders: ownHeaders(v.declared), Subprotocol: cmp.Or(v.Subprotocol, v.profile.Subprotocol)}
	// What clients authenticate with is not passed either.
	withheld := sourcesOf(&v.Service).Except(v.Pass)
	passing.BackendHeaders = append(passing.BackendHeaders, withheld.Headers()...)
	passing.SetHeaders, passing.SetQuery = v.setHeaders, v.setQuery
	keyless := v.profile.Predial == profile.PredialWithKey && !slices.ContainsFunc(v.declared, func(b *backendPlan) bool { return b.ahead })
	passing.AlwaysPrivate = passing.Any() && len(v.declared) > 0 && (keyless || v.profile.Reuse == profile.OneShot && !v.dialsAhead())
	passing.AlwaysPrivate = passing.AlwaysPrivate || passing.SetsByClient()
	return passing
}

// readSets reads what the service tells its servers itself. The error is for the field.
func (v *servicePlan) readSets() (field string, err error) {
	if v.setHeaders, err = sets(v.SetHeader, textproto.CanonicalMIMEHeaderKey); err != nil {
		return "set-header", err
	}
	if v.setQuery, err = sets(v.SetQuery, func(name string) string { return name }); err != nil {
		return "set-query", err
	}
	policy := profile.HandshakePolicy{SetHeaders: v.setHeaders, SetQuery: v.setQuery}
	v.setsByClient = policy.SetsByClient()
	return "", nil
}

// sets reads templates by name, in the order of their names.
func sets(texts map[string]string, canonical func(name string) string) (parts []profile.SetPart, err error) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		template, err := profile.ParseTemplate(texts[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		parts = append(parts, profile.SetPart{Name: canonical(name), Template: template})
	}
	return parts, nil
}

// setFixed adds to a target what the service tells its servers on all connections.
func (v *servicePlan) setFixed(target *handshake.Target) {
	var query []string
	for _, set := range v.setHeaders {
		if text, ok := set.Fixed(); ok {
			target.Header = append(target.Header, handshake.Field{Name: set.Name, Value: text})
		}
	}
	for _, set := range v.setQuery {
		if text, ok := set.Fixed(); ok {
			query = append(query, url.QueryEscape(set.Name)+"="+url.QueryEscape(text))
		}
	}
	target.AddQuery(strings.Join(query, "&"))
}

// describeSets says in words what the service tells its servers itself; empty for nothing.
func (v *servicePlan) describeSets() string {
	var names []string
	for _, set := range v.setHeaders {
		names = append(names, "header:"+set.Name)
	}
	for _, set := range v.setQuery {
		names = append(names, "query:"+set.Name)
	}
	if len(names) == 0 {
		return ""
	}
	text := "; sets " + strings.Join(names, ",")
	if v.setsByClient {
		text += ", which differs by client, so each client gets a connection of its own, dialed when it arrives"
	}
	return text
}

// dialsAhead reports whether connections to any backend are dialed before clients arrive.
func (v *servicePlan) dialsAhead() bool {
	return slices.ContainsFunc(v.declared, func(b *backendPlan) bool { return b.ahead && b.Warm != 0 })
}

// DescribeHandshakes says in words, for each service, which parts of its clients' handshakes it passes to its backends, and tells for each
// backend whether its warm connections are dialed before clients arrive.
func (d Draft) DescribeHandshakes() (handshakes map[string]string, dialedAhead map[string]bool) {
	handshakes, dialedAhead = make(map[string]string), make(map[string]bool)
	for name, v := range d.services {
		text := "passes " + v.passing.String()
		if dropped := v.passing.Drops(); dropped != 0 {
			text += fmt.Sprintf("; drops clients' %s (--pass %s passes them as well)", dropped, v.passing.PassFor(dropped))
		}
		text += v.describeSets()
		if v.passing.Any() && v.dialsAhead() && v.profile.Predial != profile.PredialWithKey {
			text += "; connections dialed before clients arrive carry none of it: use --warm 0 if the server requires a key"
		}
		if v.profile.Predial == profile.PredialWithKey && !v.setsByClient && slices.ContainsFunc(v.declared, func(b *backendPlan) bool { return !b.ahead }) {
			text += "; connections to backends that do not set the key themselves are dialed only when clients arrive"
		}
		if withheld := sourcesOf(&v.Service).Except(v.Pass); len(withheld) > 0 {
			text += "; withholds what clients authenticate with: " + withheld.String()
		}
		handshakes[name] = text
		for _, b := range v.declared {
			dialedAhead[b.name] = b.ahead
		}
	}
	return handshakes, dialedAhead
}

// ownHeaders returns the headers that every backend sets itself; they replace those of the client.
func ownHeaders(backends []*backendPlan) (own []string) {
	for i, b := range backends {
		names := b.HeaderNames()
		if i == 0 {
			own = names
			continue
		}
		own = slices.DeleteFunc(own, func(name string) bool { return !slices.Contains(names, name) })
	}
	return own
}
