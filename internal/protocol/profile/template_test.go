package profile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseTemplate(t *testing.T) {
	c := Client{Tenant: "acme", Subject: "user-7", Method: "jwt", Address: "192.0.2.7"}
	for text, want := range map[string]string{
		"fixed": "fixed", "": "", "{tenant}": "acme", "t={tenant};s={subject}": "t=acme;s=user-7", "{method}@{client}": "jwt@192.0.2.7",
		"{tenant}{tenant}": "acmeacme", "{key}": "-", "k={key}, t={tenant}": "-",
	} {
		template, err := ParseTemplate(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, ok := template.expand(&c)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if _, fixed := template.Fixed(); fixed == strings.Contains(text, "{") {
			t.Errorf("%q: fixed %v", text, fixed)
		}
	}
	for text, want := range map[string]string{
		"{tenat}": `unknown placeholder "tenat"`, "{}": `unknown placeholder ""`, "{Tenant}": "unknown placeholder", "{tenant": "each { needs its }",
		"tenant}": "each { needs its }", "{a{tenant}}": "unknown placeholder", "}{": "each { needs its }",
	} {
		if _, err := ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// set returns parts from names and texts.
func set(t *testing.T, namesAndTexts ...string) (parts []SetPart) {
	t.Helper()
	for i := 0; i < len(namesAndTexts); i += 2 {
		template, err := ParseTemplate(namesAndTexts[i+1])
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, SetPart{namesAndTexts[i], template})
	}
	return parts
}

// What a service sends its servers itself replaces what the client sends under the same name, whatever else it passes.
func TestSets(t *testing.T) {
	p := mustParse(t, `profiles: {p: {variant: {query: [model], allow: {model: [small, big]}, private: {query: ["*"], headers: [Authorization, X-Tenant]}}}}`)
	client := Client{Tenant: "Müller & Söhne", Subject: "user-7", Address: "192.0.2.7"}
	all := PassRules{Query: true, Headers: []string{"X-Tenant", "X-Other"}}
	evil := map[string][]string{"X-Tenant": {"evil"}, "X-Other": {"other"}}
	for _, c := range []struct {
		name    string
		passing HandshakePolicy
		query   string
		client  Client
		want    string
	}{
		{"a header", HandshakePolicy{SetHeaders: set(t, "X-Tenant", "{subject}")}, "model=small", client, `private "model=small" [{X-Tenant user-7}]`},
		{"a header, all passed", HandshakePolicy{Pass: all, SetHeaders: set(t, "X-Tenant", "{subject}")}, "a=1", client, `private "a=1" [{X-Other other} {X-Tenant user-7}]`},
		{"an unknown value", HandshakePolicy{SetHeaders: set(t, "X-Tenant", "{key}")}, "", client, `shared "" []`},
		{"anonymous", HandshakePolicy{SetHeaders: set(t, "X-Tenant", "{tenant}")}, "", Client{}, `shared "" []`},
		{"fixed", HandshakePolicy{SetHeaders: set(t, "X-Tenant", "proxy"), SetQuery: set(t, "tenant", "proxy")}, "tenant=evil", client, `shared "" []`},
		{"a parameter", HandshakePolicy{SetQuery: set(t, "tenant", "{tenant}")}, "tenant=evil&a=1&%74enant=evil", client, `private "a=1&tenant=M%C3%BCller+%26+S%C3%B6hne" []`},
		{
			"a parameter that only some servers see",
			HandshakePolicy{SetQuery: set(t, "tenant", "{subject}")},
			"b=2;tenant=evil&TENANT=evil&+tenant=evil&%54enant=%zz&tenants=2;&a=1", client, `private "tenants=2;&a=1&tenant=user-7" []`,
		},
		{"a parameter alone", HandshakePolicy{SetQuery: set(t, "user", "{subject}")}, "", client, `private "user=user-7" []`},
		{"the address", HandshakePolicy{SetQuery: set(t, "ip", "{client}")}, "", client, `private "ip=192.0.2.7" []`},
	} {
		c.passing.Profile = p
		header := evil
		if c.passing.Pass.Headers == nil {
			header = map[string][]string{"X-Tenant": {"evil"}}
		}
		if len(c.passing.SetHeaders) == 0 {
			header = nil
		}
		v, _, err := c.passing.Variant(Request{Query: c.query, Field: fields(header), Client: c.client})
		kind := "shared"
		if v.Private {
			kind = "private"
		}
		if got := fmt.Sprintf("%s %q %v", kind, v.Query, v.Header); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

// What a header cannot carry is refused, and not sent in part.
func TestUnfitValue(t *testing.T) {
	passing := HandshakePolicy{Profile: mustParse(t, "profiles: {p: {}}"), SetHeaders: set(t, "X-Tenant", "{tenant}")}
	for _, tenant := range []string{"Müller", "a\r\nX-Admin: 1", " acme", "acme ", "a\x00b", "a\x7f", "\t"} {
		v, _, err := passing.Variant(Request{Field: fields(nil), Client: Client{Tenant: tenant}})
		if unfit := (*UnfitValue)(nil); !errors.As(err, &unfit) || len(v.Header) > 0 || strings.Contains(err.Error(), tenant) {
			t.Errorf("%q: %+v, %v", tenant, v, err)
		}
	}
}

func TestCheckSets(t *testing.T) {
	p := mustParse(t, `profiles: {p: {variant: {query: [model], headers: [X-Speaker], allow: {model: [small], X-Speaker: [a]}}}}`)
	for _, c := range []struct{ header, query, field string }{
		{"X-Speaker", "tenant", "set-header"}, {"X-Tenant", "model", "set-query"}, {"X-Tenant", "tenant", ""},
	} {
		if field, err := p.CheckSets([]string{c.header}, []string{c.query}); field != c.field || (err != nil) != (c.field != "") {
			t.Errorf("%q, %v; want %q", field, err, c.field)
		}
	}
}
