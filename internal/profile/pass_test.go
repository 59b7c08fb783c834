package profile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParsePass(t *testing.T) {
	got, err := ParsePass([]string{"path", "query", "query:a b", "header:authorization", "header:X-Tag", "header:x-tag", "subprotocol"})
	want := Passed{
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

// What the service passes adds to what the profile says, whose lists of allowed values go on to be shared.
func TestPassing(t *testing.T) {
	p := mustParse(t, variantYAML)
	plain := mustParse(t, "profiles: {p: {}}")
	keyed := mustParse(t, "profiles: {p: {variant: {private: {subprotocol: true, headers: [Authorization]}}}}")
	for _, c := range []struct {
		name    string
		passing Passing
		request Request
		header  map[string][]string
		want    string // key, private, query, header, subprotocols
		dropped string
	}{
		{"nothing passed", Passing{Profile: plain}, Request{Rest: "/x", Query: "a=1", Subprotocols: []string{"s"}}, map[string][]string{"Authorization": {"k"}}, `"" false "" "" [] []`, "query, Authorization, subprotocols"},
		{"nothing said", Passing{Profile: plain, Pass: Passed{Path: true, Query: true, Headers: []string{"A"}, Subprotocol: true}}, Request{}, nil, `"" false "" "" [] []`, ""},
		{"path", Passing{Profile: plain, Pass: Passed{Path: true}}, Request{Rest: "/x"}, nil, `"" true "/x" "" [] []`, ""},
		{"query as it is", Passing{Profile: plain, Pass: Passed{Query: true}}, Request{Query: "&b=%41&&a;c=%zz&"}, nil, `"" true "" "&b=%41&&a;c=%zz&" [] []`, ""},
		{"one parameter", Passing{Profile: plain, Pass: Passed{Parameters: []string{"a b"}}}, Request{Query: "x=1&a+b=2&%zz&a%20b=3"}, nil, `"" true "" "a+b=2&a%20b=3" [] []`, "query"},
		{"all values of a header", Passing{Profile: plain, Pass: Passed{Headers: []string{"A"}}}, Request{}, map[string][]string{"A": {"2", "1"}, "B": {"3"}}, `"" true "" "" [{A 2} {A 1}] []`, ""},
		{"a header that the backends set", Passing{Profile: keyed, Own: []string{"Authorization"}}, Request{}, map[string][]string{"Authorization": {"k"}}, `"" false "" "" [] []`, ""},
		{"subprotocols", Passing{Profile: keyed}, Request{Subprotocols: []string{"b", "a"}}, nil, `"" true "" "" [] [b a]`, ""},
		{"the configured subprotocol", Passing{Profile: keyed, Subprotocol: "a"}, Request{Subprotocols: []string{"a"}}, nil, `"" false "" "" [] []`, ""},
		{"the configured one and a key", Passing{Profile: keyed, Subprotocol: "a"}, Request{Subprotocols: []string{"a", "key"}}, nil, `"" true "" "" [] [a key]`, ""},
		{"alone", Passing{Profile: keyed, Alone: true}, Request{}, nil, `"" true "" "" [] []`, ""},

		{"shared parameters", Passing{Profile: p, Pass: Passed{Query: true}}, Request{Query: "model=small"}, nil, `"language=en&model=small" false "" "language=en&model=small" [] []`, ""},
		{"shared and others", Passing{Profile: p, Pass: Passed{Query: true}}, Request{Query: "z=1&model=small"}, nil, `"" true "" "z=1&model=small&language=en" [] []`, ""},
		{"a value that is not shared", Passing{Profile: p, Pass: Passed{Parameters: []string{"model"}}}, Request{Query: "model=large&model=huge"}, nil, `"" true "" "model=large&model=huge&language=en" [] []`, ""},
		{"a shared header", Passing{Profile: p, Pass: Passed{Headers: []string{"X-Speaker"}}}, Request{}, map[string][]string{"X-Speaker": {"a"}}, `"header:X-Speaker=a&language=en" false "" "language=en" [{X-Speaker a}] []`, ""},
		{"a header that is not shared", Passing{Profile: p, Pass: Passed{Headers: []string{"X-Speaker"}}}, Request{}, map[string][]string{"X-Speaker": {"z"}}, `"" true "" "language=en" [{X-Speaker z}] []`, ""},
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
		passing     Passing
		want, words string
		any         bool
	}{
		{Passing{Profile: plain}, "query, Authorization, subprotocols", "query,header:Authorization,subprotocol", false},
		{Passing{Profile: plain, Pass: Passed{Parameters: []string{"a"}, words: []string{"query:a"}}}, "Authorization, subprotocols", "query:a,header:Authorization,subprotocol", true},
		{Passing{Profile: plain, Pass: Passed{Path: true}, Own: []string{"Authorization"}}, "query, subprotocols", "query,subprotocol", true},
		{Passing{Profile: keyed}, "", "", true},
	} {
		if got := c.passing.Drops(); got.String() != c.want || c.passing.WordsFor(got) != c.words || c.passing.Any() != c.any {
			t.Errorf("%+v: %q, %q, %v; want %q, %q, %v", c.passing, got, c.passing.WordsFor(got), c.passing.Any(), c.want, c.words, c.any)
		}
	}
}
