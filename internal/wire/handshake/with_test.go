package handshake

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// A client's path is appended to the target's, and its subprotocols are offered instead of the target's.
func TestTargetWithClient(t *testing.T) {
	for _, c := range []struct{ url, path, want string }{
		{"ws://h/a", "/b%2Fc", "/a/b%2Fc"},
		{"ws://h/a/?y=2", "/b/", "/a/b/?y=2"},
		{"ws://h", "/b", "/b"},
		{"ws://h/", "//evil.example/b", "/evil.example/b"},
		{"ws://h/a", "//b", "/a//b"},
	} {
		target := parsed(t, c.url)
		if got := target.With(ClientPart{Path: c.path}).request; got != c.want {
			t.Errorf("%s with %q asks for %q; want %q", c.url, c.path, got, c.want)
		}
	}
	for _, c := range []struct {
		chosen string // by the server
		offers []string
		want   string // the error
	}{
		{"a", []string{"b", "a"}, ""},
		{"", []string{"b", "a"}, ""},
		{"S3CRET", []string{"b", "a"}, "server chose a subprotocol or an extension that its client did not offer"},
		{"b, a", []string{"b", "a"}, "server chose a subprotocol or an extension that its client did not offer"},
		{"own", nil, ""},
		{"", nil, `server chose the subprotocol "" instead of "own": it may be another`},
	} {
		var offered string
		target := scripted(t, func(r *http.Request) string {
			offered = r.Header.Get("Sec-WebSocket-Protocol")
			if c.chosen == "" {
				return upgraded("")(r)
			}
			return upgraded("", "Sec-WebSocket-Protocol: "+c.chosen)(r)
		}, nil)
		target.Protocol, target.Lookalike = "own", "it may be another"
		established, err := target.With(ClientPart{Offers: c.offers}).Dial(t.Context())
		text := ""
		if err != nil {
			text = err.Error()
		} else if _ = established.Conn.Close(); established.Protocol != c.chosen {
			t.Errorf("%+v: chosen is %q", c, established.Protocol)
		}
		if want := strings.Join(c.offers, ", "); offered != want && (c.offers != nil || offered != "own") || text != c.want {
			t.Errorf("%+v: offered %q, %q", c, offered, text)
		}
	}
}

// An error, which may be logged, does not quote what a server says about a client's secret.
func TestPrivateStatusError(t *testing.T) {
	for name, c := range map[string]struct {
		answer reply
		want   string // in the error
	}{
		"status":            {always("HTTP/1.1 401 Unauthorized\r\nContent-Length: 21\r\n\r\nthe key S3CRET is bad"), "server answered 401"},
		"malformed field":   {always("HTTP/1.1 101 X\r\nS3CRET\r\n\r\n"), "malformed MIME header"},
		"malformed status":  {always("HTTP/1.1 S3CRET X\r\n\r\n"), "malformed HTTP status code"},
		"malformed version": {always("HTTP/1.S3CRET 101 X\r\n\r\n"), "malformed HTTP version"},
		"extension":         {upgraded("", "Sec-WebSocket-Extensions: S3CRET"), "an extension that its client did not offer"},
		"subprotocol":       {upgraded("", "Sec-WebSocket-Protocol: S3CRET"), "an extension that its client did not offer: it may be another"},
	} {
		t.Run(name, func(t *testing.T) {
			target := scripted(t, c.answer, nil)
			target.Protocol, target.Lookalike = "own", "it may be another"
			_, err := target.With(ClientPart{Private: true}).Dial(t.Context())
			if err == nil || strings.Contains(err.Error(), "S3CRET") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if status := (*StatusError)(nil); errors.As(err, &status) != (name == "status") || status != nil && status.Status != 401 {
				t.Errorf("%v, %v", err, status)
			}
		})
	}
}

// With adds a client's query and headers to a copy of the target.
func TestTargetWith(t *testing.T) {
	for _, c := range []struct{ url, query, want string }{
		{"ws://h/a", "", "/a"},
		{"ws://h/a", "x=1", "/a?x=1"},
		{"ws://h/a?y=2", "x=1&z=3", "/a?y=2&x=1&z=3"},
		{"ws://h", "x=1", "/?x=1"},
	} {
		target := parsed(t, c.url)
		one := target.With(ClientPart{Query: c.query, Header: []Field{{"A", "1"}}})
		two := one.With(ClientPart{Header: []Field{{"B", "2"}}})
		other := one.With(ClientPart{Header: []Field{{"C", "3"}}})
		if asks, err := one.requestTarget(new(secret.Sent)); err != nil || asks != c.want {
			t.Errorf("%s with %q asks for %q, %v; want %q", c.url, c.query, asks, err, c.want)
		}
		if len(target.Header) != 0 || len(one.Header) != 1 || two.Header[1].Name != "B" || other.Header[1].Name != "C" {
			t.Errorf("headers: %v, %v, %v, %v", target.Header, one.Header, two.Header, other.Header)
		}
	}
}
