package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// serve returns a client of a server that a test plays.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(server.URL, "abc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A request carries the token, says what it accepts, and bears the mark that no web page of another site can set.
func TestRequest(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"text":"%s %s %s %s %s %s"}`, r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Header.Get(api.ChangeHeader),
			strings.ReplaceAll(string(body), `"`, "'"))
	})
	for want, r := range map[string]Request{
		"GET /a?limit=3 Bearer abc  1 ":                         {Path: "/a", Query: api.SessionQuery{Limit: 3}.Values()},
		"DELETE /b Bearer abc application/json 1 {'who':'eve'}": {Method: http.MethodDelete, Path: "/b", Body: api.Order{Who: "eve"}},
		"POST /c Bearer abc  1 ":                                {Method: http.MethodPost, Path: "/c"},
	} {
		var got api.Outcome
		if err := c.Do(t.Context(), r, &got); err != nil || got.Text != want {
			t.Errorf("%v: got %q, want %q", err, got.Text, want)
		}
	}
}

// A client that asks for the whole fleet has one that asks its proxy only, with the same token.
func TestLocal(t *testing.T) {
	whole := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"text":"%s %s"}`, r.URL, r.Header.Get("Authorization"))
	})
	whole.fleet.Store(true)
	for want, c := range map[string]*Client{"/api/v1/stats?fleet=true Bearer abc": whole, "/api/v1/stats Bearer abc": whole.Local()} {
		var got api.Outcome
		if err := c.Get(t.Context(), api.StatsPath, nil, &got); err != nil || got.Text != want {
			t.Errorf("%v: got %q, want %q", err, got.Text, want)
		}
	}
}

// What the proxy refuses keeps its kind and words; what is no answer of a proxy says so.
func TestRefused(t *testing.T) {
	status, body := 0, ""
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	for _, k := range []struct {
		status     int
		body, says string
		kind       string
	}{
		{404, `{"error":{"kind":"not-found","text":"unknown session","nearest":"q-1"}}`, "unknown session", api.KindUnknown},
		{401, `{"error":{"kind":"refused","text":"no token"}}`, "the proxy at " + c.Address() + " refused: no token", api.KindRefused},
		{404, "404 page not found", c.Address() + ` answered "404 Not Found" to GET /a: is it the admin API of wsbouncer`, ""},
		{200, "<html>", "cannot read the answer of the proxy at " + c.Address() + " to GET /a: invalid character", ""},
	} {
		status, body = k.status, k.body
		err := c.Get(t.Context(), "/a", nil, new(api.Outcome))
		answered := new(Error)
		if err == nil || !strings.HasPrefix(err.Error(), k.says) || errors.As(err, &answered) != (k.kind != "") || answered.Kind != k.kind {
			t.Errorf("got %v of kind %q, want %s", err, answered.Kind, k.says)
		}
		if k.kind != "" {
			if _, err := c.Stream(t.Context(), "/a", nil, 0); err == nil || err.Error() != k.says {
				t.Errorf("a stream: got %v, want %s", err, k.says)
			}
		}
	}
}

// A request that takes too long says how long; one that its caller gave up says no more than that.
func TestUnanswered(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	err := c.Do(t.Context(), Request{Path: "/a", Timeout: time.Millisecond}, nil)
	if !errors.As(err, new(*UnreachableError)) || !strings.HasSuffix(err.Error(), ": no answer within 1ms") {
		t.Errorf("too long: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Get(ctx, "/a", nil, nil); !errors.Is(err, context.Canceled) || errors.As(err, new(*UnreachableError)) {
		t.Errorf("given up: %v", err)
	}
	if _, err := c.Stream(ctx, "/a", nil, 0); !errors.Is(err, context.Canceled) || errors.As(err, new(*UnreachableError)) {
		t.Errorf("a stream given up: %v", err)
	}
}
