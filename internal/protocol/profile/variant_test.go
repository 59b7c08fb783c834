package profile

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const variantYAML = `
profiles:
  p:
    variant:
      query: [model, language]
      headers: [X-Speaker]
      allow: {model: [small, "a&b=c"], language: [en, ja], x-speaker: [a, b]}
      default: {language: en}
      private: {query: [jwt], headers: [Authorization]}
`

// fields returns the header fields of a request.
func fields(h map[string][]string) func(string) []string {
	return func(name string) []string { return h[name] }
}

func TestVariant(t *testing.T) {
	p := mustParse(t, variantYAML)
	if !p.Variants() || p.MaxVariants() != 8 {
		t.Errorf("%v, %d", p.Variants(), p.MaxVariants())
	}
	for _, c := range []struct {
		query  string
		header map[string][]string
		key    string
		want   string // private, query, header
	}{
		{"", nil, "language=en", "false language=en []"},
		{"language=en", nil, "language=en", "false language=en []"},
		{"language=ja&model=small", nil, "language=ja&model=small", "false language=ja&model=small []"},
		{"model=small&language=ja&z=1", nil, "language=ja&model=small", "false language=ja&model=small []"},
		{"model=a%26b%3dc", nil, "language=en&model=a%26b%3Dc", "false language=en&model=a%26b%3Dc []"},
		{"", map[string][]string{"X-Speaker": {"b"}}, "header:X-Speaker=b&language=en", "false language=en [{X-Speaker b}]"},
		{"jwt=secret", nil, "", "true jwt=secret&language=en []"},
		{"", map[string][]string{"Authorization": {"secret"}, "X-Speaker": {"a"}}, "", "true language=en [{Authorization secret} {X-Speaker a}]"},
		{"", map[string][]string{"Cookie": {"secret"}}, "language=en", "false language=en []"},
	} {
		v, err := p.Variant(c.query, fields(c.header))
		if got := fmt.Sprint(v.Private, " ", v.Query, " ", v.Header); err != nil || v.Key != c.key || got != c.want {
			t.Errorf("%q %v: key %q, %s, %v; want key %q, %s", c.query, c.header, v.Key, got, err, c.key, c.want)
		}
	}
	for _, c := range []struct {
		query  string
		header map[string][]string
		want   string
	}{
		{"model=large", nil, `invalid value "large" for parameter model: use one of small, a&b=c`},
		{"model=", nil, `invalid value "" for parameter model: use one of small, a&b=c`},
		{"model=small&model=small", nil, "parameter model is given more than once"},
		{"model=" + strings.Repeat("x", 99), nil, `invalid value "` + strings.Repeat("x", 40) + `" for parameter model: use one of small, a&b=c`},
		{"%zz", nil, "the query of the URL is malformed"},
		{"", map[string][]string{"X-Speaker": {"c"}}, `invalid value "c" for header X-Speaker: use one of a, b`},
	} {
		v, err := p.Variant(c.query, fields(c.header))
		if bad := new(BadParameter); !errors.As(err, &bad) || err.Error() != c.want || v.Key+v.Query != "" {
			t.Errorf("%q: %v, %v; want %s", c.query, v, err, c.want)
		}
	}
}

// Values and parameters that are not listed.
func TestVariantUnlisted(t *testing.T) {
	p := mustParse(t, variantYAML+"      unlisted: dial\n      other: refuse\n")
	v, err := p.Variant("model=large", fields(nil))
	if err != nil || !v.Private || v.Key != "" || v.Query != "model=large&language=en" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := p.Variant("color=red", fields(nil)); err == nil || err.Error() != `unknown parameter "color": use one of model, language, jwt` {
		t.Errorf("%v", err)
	}
	p = mustParse(t, "profiles: {p: {variant: {private: {query: ['*']}}}}")
	if v, err := p.Variant("b=2&a=1&a=0", fields(nil)); err != nil || !v.Private || v.Query != "b=2&a=1&a=0" {
		t.Errorf("%+v, %v", v, err)
	}
	p = mustParse(t, "profiles: {p: {}}")
	if v, err := p.Variant("a=1;%zz", fields(nil)); err != nil || !reflect.DeepEqual(v, Variant{}) || p.Variants() {
		t.Errorf("%+v, %v", v, err)
	}
}

// Requests with the same key ask for the same handshake, and what is secret is in no key.
func TestVariantKeys(t *testing.T) {
	p := mustParse(t, variantYAML)
	value := rapid.SampledFrom([]string{"", "small", "a&b=c", "en", "ja", "a", "b", "s3cret", "language=en"})
	request := rapid.Custom(func(t *rapid.T) Variant {
		query := make(url.Values)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"model", "language", "jwt", "header:X-Speaker", "z"}), 0, 3).Draw(t, "names") {
			query.Add(name, value.Draw(t, name))
		}
		header := make(map[string][]string)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"X-Speaker", "Authorization"}), 0, 2).Draw(t, "fields") {
			header[name] = []string{value.Draw(t, name)}
		}
		v, err := p.Variant(query.Encode(), fields(header))
		if err == nil && v.Private != (len(query["jwt"])+len(header["Authorization"]) > 0) {
			t.Errorf("%v %v: %+v", query, header, v)
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := request.Draw(t, "one"), request.Draw(t, "other")
		if a.Key == b.Key && !a.Private && !b.Private && !reflect.DeepEqual(a, b) {
			t.Errorf("%+v and %+v", a, b)
		}
		if strings.Contains(a.Key, "s3cret") || a.Private && a.Key != "" {
			t.Errorf("%+v", a)
		}
	})
}

// WhisperLive takes keys as subprotocols: they reach the server, on a connection of the client's own. Others share connections.
func TestWhisperLiveKeys(t *testing.T) {
	p, err := Named("whisperlive")
	if err != nil {
		t.Fatal(err)
	}
	policy := HandshakePolicy{Profile: p}
	none := func(string) []string { return nil }
	v, dropped, err := policy.Variant(Request{Field: none, Subprotocols: []string{"bearer", "KEY"}})
	if err != nil || dropped != 0 || !v.Private || !slices.Equal(v.Subprotocols, []string{"bearer", "KEY"}) {
		t.Errorf("%+v, dropped %v, %v", v, dropped, err)
	}
	if v, _, err := policy.Variant(Request{Field: none}); err != nil || v.Private {
		t.Errorf("without a key: %+v, %v", v, err)
	}
}
