package auth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func mustSources(t testing.TB, words ...string) Sources {
	t.Helper()
	sources, err := ParseSources(words)
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func requestWith(query string, lines ...string) *http.Request {
	header := make(http.Header)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		header.Add(name, value)
	}
	return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/", RawQuery: query}, Header: header}
}

func TestCredential(t *testing.T) {
	for _, c := range []struct {
		name, sources, query string
		lines                []string
		want, grant          string
		err                  error
	}{
		{name: "nothing", sources: "header,query:key,cookie:s,subprotocol:token"},
		{name: "bearer", sources: "header", lines: []string{"Authorization: Bearer abc"}, want: "abc"},
		{name: "token", sources: "header", lines: []string{"Authorization: token  abc "}, want: "abc"},
		{name: "basic", sources: "header", lines: []string{"Authorization: Basic abc"}},
		{name: "no value", sources: "header", lines: []string{"Authorization: Bearer "}},
		{name: "no scheme", sources: "header", lines: []string{"Authorization: abc"}},
		{name: "no scheme, in Authorization by its name", sources: "header:authorization", lines: []string{"Authorization: abc"}, want: "abc"},
		{name: "scheme alone, in Authorization by its name", sources: "header:Authorization", lines: []string{"Authorization: Bearer"}},
		{name: "basic, in Authorization by its name", sources: "header:Authorization", lines: []string{"Authorization: Basic abc"}},
		{name: "with and without a scheme", sources: "header:Authorization", lines: []string{"Authorization: a", "Authorization: Bearer b"}, err: ErrTwice},
		{name: "bearer twice", sources: "header", lines: []string{"Authorization: Bearer a", "Authorization: Bearer b"}, err: ErrTwice},
		{name: "another header", sources: "header:x-api-key", lines: []string{"X-Api-Key: abc", "Authorization: Bearer no"}, want: "abc"},
		{name: "Authorization by its name", sources: "header:authorization", lines: []string{"Authorization: Bearer abc"}, want: "abc"},
		{name: "query", sources: "query:key", query: "a=1&key=a%2Bc+&b=2", want: "a+c "},
		{name: "query with an encoded name", sources: "query:key", query: "%6bey=abc", want: "abc"},
		{name: "query twice", sources: "query:key", query: "key=a&key=b", err: ErrTwice},
		{name: "empty in the query", sources: "query:key", query: "key=&key"},
		{name: "cookie", sources: "cookie:s", lines: []string{`Cookie: a=b; s="abc"; c=d`}, want: "abc"},
		{name: "cookie twice", sources: "cookie:s", lines: []string{"Cookie: s=a", "Cookie: b=c; s=d"}, err: ErrTwice},
		{name: "pair of subprotocols", sources: "subprotocol:token", lines: []string{"Sec-WebSocket-Protocol: token, abc"}, want: "abc", grant: "token"},
		{name: "pair beside another", sources: "subprotocol:token", lines: []string{"Sec-WebSocket-Protocol: v1.stt, token, abc, x"}, want: "abc", grant: "token"},
		{name: "pair on two lines", sources: "subprotocol:token", lines: []string{"Sec-WebSocket-Protocol: token", "Sec-WebSocket-Protocol: abc"}, want: "abc", grant: "token"},
		{name: "word alone", sources: "subprotocol:token", lines: []string{"Sec-WebSocket-Protocol: token"}, grant: "token"},
		{name: "joined", sources: "subprotocol:openai-insecure-api-key", lines: []string{"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.abc"}, want: "abc"},
		{name: "joined, with its dot", sources: "subprotocol:key.", lines: []string{"Sec-WebSocket-Protocol: key.abc"}, want: "abc"},
		{name: "only begins with the word", sources: "subprotocol:token", lines: []string{"Sec-WebSocket-Protocol: tokenizer"}},
		{name: "two pairs", sources: "subprotocol:token", lines: []string{"Sec-WebSocket-Protocol: token, a, token, b"}, grant: "", err: ErrTwice},
		{name: "the first source wins", sources: "query:key,header", query: "key=a", lines: []string{"Authorization: Bearer b"}, want: "a"},
		{name: "the second source", sources: "query:key,header", query: "kay=a", lines: []string{"Authorization: Bearer b"}, want: "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sources := mustSources(t, strings.Split(c.sources, ",")...)
			got, grant, err := sources.Credential(requestWith(c.query, c.lines...))
			if got != c.want || grant != c.grant || !errors.Is(err, c.err) {
				t.Errorf("%q, %q, %v; want %q, %q, %v", got, grant, err, c.want, c.grant, c.err)
			}
		})
	}
}

func TestSourcesThatAreNone(t *testing.T) {
	for _, word := range []string{"", "headers", "header:", "query", "query:", "cookie", "subprotocol:", "path:x"} {
		if _, err := ParseSources([]string{word}); err == nil || !strings.Contains(err.Error(), "use header, header:NAME") {
			t.Errorf("%q: %v", word, err)
		}
	}
}

// What the proxy reads credentials from is removed from the request that backends get, and nothing else is.
func TestWithheld(t *testing.T) {
	sources := mustSources(t, "header", "header:x-api-key", "query:key", "cookie:s", "subprotocol:token")
	check := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", what, got, want)
		}
	}
	check("Authorization", sources.Field("Authorization", []string{"Bearer abc"}), nil)
	check("X-Api-Key", sources.Field("X-Api-Key", []string{"abc"}), nil)
	check("another header", sources.Field("X-Other", []string{"a", "b"}), []string{"a", "b"})
	check("Cookie", sources.Field("Cookie", []string{"a=b; s=abc;c=d", "s=x"}), []string{"a=b; c=d"})
	check("only that cookie", sources.Field("Cookie", []string{"s=x"}), nil)
	check("query", []string{sources.Query("a=1&key=abc&b=%20&k%65y=d&&keys=2")}, []string{"a=1&b=%20&&keys=2"})
	check("subprotocols", sources.Subprotocols([]string{"v1", "token", "abc", "v2", "token.def"}), []string{"v1", "v2"})

	passed := sources.Except([]string{"header:authorization", "query:key", "query", "path", "subprotocol", "header:cookie"})
	check("Authorization that is passed", passed.Field("Authorization", []string{"Bearer abc"}), []string{"Bearer abc"})
	check("X-Api-Key that is not", passed.Field("X-Api-Key", []string{"abc"}), nil)
	check("a parameter that is passed", []string{passed.Query("key=abc")}, []string{"key=abc"})
	check("a cookie", passed.Field("Cookie", []string{"s=x; t=y"}), []string{"t=y"})
	check("a subprotocol", passed.Subprotocols([]string{"token", "abc"}), nil)
	check("query as a whole", []string{sources.Except([]string{"query"}).Query("key=abc&a")}, []string{"a"})
}

// FuzzCredential holds for every request: what a service finds as a credential never reaches its backends.
func FuzzCredential(f *testing.F) {
	f.Add("header", "Bearer abc", "", "", "")
	f.Add("query:key", "", "key=secret&a=%zz;key=x", "", "")
	f.Add("cookie:s", "", "", `a=b; s="secret"`, "")
	f.Add("subprotocol:token", "", "", "", "a, token,secret , token.secret")
	f.Fuzz(func(t *testing.T, word, authorization, query, cookie, offers string) {
		sources, err := ParseSources([]string{word})
		if err != nil {
			return
		}
		r := requestWith(query)
		r.Header["Authorization"], r.Header["Cookie"], r.Header["Sec-Websocket-Protocol"] = []string{authorization}, []string{cookie}, []string{offers}
		credential, grant, err := sources.Credential(r)
		if credential != "" && grant == credential && !strings.HasPrefix(word, "subprotocol:"+grant) {
			t.Errorf("the credential %q is granted", credential)
		}
		r.URL.RawQuery = sources.Query(r.URL.RawQuery)
		r.Header["Authorization"] = sources.Field("Authorization", r.Header["Authorization"])
		r.Header["Cookie"] = sources.Field("Cookie", r.Header["Cookie"])
		r.Header["Sec-Websocket-Protocol"] = sources.Subprotocols(offered(r.Header["Sec-Websocket-Protocol"]))
		if left, _, again := sources.Credential(r); left != "" || again != nil {
			t.Errorf("%s: of the credential %q (%v), %q is left (%v)", word, credential, err, left, again)
		}
	})
}
