package profile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParsePass(t *testing.T) {
	got, err := ParsePass([]string{"path", "query", "query:a b", "header:authorization", "header:X-Tag", "header:x-tag", "subprotocol"})
	want := PassRules{
		Path: true, Query: true, Parameters: []string{"a b"}, Headers: []string{"Authorization", "X-Tag"}, Subprotocol: true,
		words: []string{"path", "query", "query:a b", "header:authorization", "header:X-Tag", "header:x-tag", "subprotocol"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	const use = "se one of path, query, query:NAME, header:NAME, subprotocol"
	for word, want := range map[string]string{
		"qury":                          `unknown value "qury": did you mean "query"? U` + use,
		"headers:Authorization":         `unknown value "headers:Authorization": did you mean "header:Authorization"? U` + use,
		"subprotocols":                  `unknown value "subprotocols": did you mean "subprotocol"? U` + use,
		"everything":                    `unknown value "everything": u` + use,
		"":                              `unknown value "": u` + use,
		"query:":                        `"query:" names no parameter: use query:NAME, or query for all parameters`,
		"header:":                       `"header:" names no header: use header:NAME, such as header:Authorization`,
		"header:a b":                    `"header:a b" names no header: use header:NAME, such as header:Authorization`,
		"header:host":                   `"header:host" : this header belongs to the handshake itself and cannot be passed`,
		"header:Upgrade":                `"header:Upgrade" : this header belongs to the handshake itself and cannot be passed`,
		"header:te":                     `"header:te" : this header belongs to the handshake itself and cannot be passed`,
		"header:Sec-WebSocket-Key":      `"header:Sec-WebSocket-Key" : this header belongs to the handshake itself and cannot be passed`,
		"header:Sec-WebSocket-Protocol": `"header:Sec-WebSocket-Protocol" : this header belongs to the handshake itself; use subprotocol to pass it`,
		"header:Proxy-Authorization":    `"header:Proxy-Authorization" : this header is meant for the proxy itself (hop-by-hop) and cannot be passed`,
	} {
		if err := CheckPassWord(word); err == nil || err.Error() != strings.Replace(want, `" :`, `":`, 1) {
			t.Errorf("%q: %v; want %s", word, err, want)
		}
	}
}

// A service's rules add to those of its profile. Clients whose values the profile allows still share connections.
func TestPassing(t *testing.T) {
	p := mustParse(t, variantYAML)
	plain := mustParse(t, "profiles: {p: {}}")
	keyed := mustParse(t, "profiles: {p: {variant: {private: {subprotocol: true, headers: [Authorization]}}}}")
	for _, c := range []struct {
		name    string
		passing HandshakePolicy
		request Request
		header  map[string][]string
		want    string // key, private, query, header, subprotocols
		dropped string
	}{
		{"nothing passed", HandshakePolicy{Profile: plain}, Request{Rest: "/x", Query: "a=1", Subprotocols: []string{"s"}}, map[string][]string{"Authorization": {"k"}}, `"" false "" "" [] []`, "query, Authorization, subprotocols"},
		{"nothing said", HandshakePolicy{Profile: plain, Pass: PassRules{Path: true, Query: true, Headers: []string{"A"}, Subprotocol: true}}, Request{}, nil, `"" false "" "" [] []`, ""},
		{"path", HandshakePolicy{Profile: plain, Pass: PassRules{Path: true}}, Request{Rest: "/x"}, nil, `"" true "/x" "" [] []`, ""},
		{"query as it is", HandshakePolicy{Profile: plain, Pass: PassRules{Query: true}}, Request{Query: "&b=%41&&a;c=%zz&"}, nil, `"" true "" "&b=%41&&a;c=%zz&" [] []`, ""},
		{"one parameter", HandshakePolicy{Profile: plain, Pass: PassRules{Parameters: []string{"a b"}}}, Request{Query: "x=1&a+b=2&%zz&a%20b=3"}, nil, `"" true "" "a+b=2&a%20b=3" [] []`, "query"},
		{"all values of a header", HandshakePolicy{Profile: plain, Pass: PassRules{Headers: []string{"A"}}}, Request{}, map[string][]string{"A": {"2", "1"}, "B": {"3"}}, `"" true "" "" [{A 2} {A 1}] []`, ""},
		{"a header that the backends set", HandshakePolicy{Profile: keyed, BackendHeaders: []string{"Authorization"}}, Request{}, map[string][]string{"Authorization": {"k"}}, `"" false "" "" [] []`, ""},
		{"subprotocols", HandshakePolicy{Profile: keyed}, Request{Subprotocols: []string{"b", "a"}}, nil, `"" true "" "" [] [b a]`, ""},
		{"the configured subprotocol", HandshakePolicy{Profile: keyed, Subprotocol: "a"}, Request{Subprotocols: []string{"a"}}, nil, `"" false "" "" [] []`, ""},
		{"the configured one and a key", HandshakePolicy{Profile: keyed, Subprotocol: "a"}, Request{Subprotocols: []string{"a", "key"}}, nil, `"" true "" "" [] [a key]`, ""},
		{"alone", HandshakePolicy{Profile: keyed, AlwaysPrivate: true}, Request{}, nil, `"" true "" "" [] []`, ""},

		{"shared parameters", HandshakePolicy{Profile: p, Pass: PassRules{Query: true}}, Request{Query: "model=small"}, nil, `"language=en&model=small" false "" "language=en&model=small" [] []`, ""},
		{"shared and others", HandshakePolicy{Profile: p, Pass: PassRules{Query: true}}, Request{Query: "z=1&model=small"}, nil, `"" true "" "z=1&model=small&language=en" [] []`, ""},
		{"a value that is not shared", HandshakePolicy{Profile: p, Pass: PassRules{Parameters: []string{"model"}}}, Request{Query: "model=large&model=huge"}, nil, `"" true "" "model=large&model=huge&language=en" [] []`, ""},
		{"a shared header", HandshakePolicy{Profile: p, Pass: PassRules{Headers: []string{"X-Speaker"}}}, Request{}, map[string][]string{"X-Speaker": {"a"}}, `"header:X-Speaker=a&language=en" false "" "language=en" [{X-Speaker a}] []`, ""},
		{"a header that is not shared", HandshakePolicy{Profile: p, Pass: PassRules{Headers: []string{"X-Speaker"}}}, Request{}, map[string][]string{"X-Speaker": {"z"}}, `"" true "" "language=en" [{X-Speaker z}] []`, ""},
	} {
		c.request.Field = fields(c.header)
		v, dropped, err := c.passing.Variant(c.request)
		got := fmt.Sprintf("%q %v %q %q %v %v", v.Key, v.Private, v.Path, v.Query, v.Header, v.Subprotocols)
		if err != nil || got != c.want || dropped.String() != c.dropped {
			t.Errorf("%s: %s, dropped %q, %v; want %s, %q", c.name, got, dropped, err, c.want, c.dropped)
		}
	}
}

func TestDrops(t *testing.T) {
	plain := mustParse(t, "profiles: {p: {}}")
	keyed := mustParse(t, "profiles: {p: {variant: {private: {query: ['*'], subprotocol: true, headers: [Authorization]}}}}")
	for _, c := range []struct {
		passing     HandshakePolicy
		want, words string
		any         bool
	}{
		{HandshakePolicy{Profile: plain}, "query, Authorization, subprotocols", "query,header:Authorization,subprotocol", false},
		{HandshakePolicy{Profile: plain, Pass: PassRules{Parameters: []string{"a"}, words: []string{"query:a"}}}, "Authorization, subprotocols", "query:a,header:Authorization,subprotocol", true},
		{HandshakePolicy{Profile: plain, Pass: PassRules{Path: true}, BackendHeaders: []string{"Authorization"}}, "query, subprotocols", "query,subprotocol", true},
		{HandshakePolicy{Profile: keyed}, "", "", true},
	} {
		if got := c.passing.Drops(); got.String() != c.want || c.passing.PassFor(got) != c.words || c.passing.Any() != c.any {
			t.Errorf("%+v: %q, %q, %v; want %q, %q, %v", c.passing, got, c.passing.PassFor(got), c.passing.Any(), c.want, c.words, c.any)
		}
	}
}
