package remote

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// A caller who may not see secrets gets the configuration without them, by every path and at every version, and can still read it.
func TestHides(t *testing.T) {
	store := opened(t)
	const hash = "sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
	_, err := store.Apply(t.Context(), config.Change{Who: "a", Mutations: []config.Mutation{
		{Verb: config.Add, Kind: config.KindService, Name: "stt"},
		{Verb: config.Add, Kind: config.KindBackend, Name: "gpu-1", Values: config.Values{
			"service": "stt", "connections": "8", "url": "ws://10.0.0.5:2700/?model=a&api_key=env:KEY", "headers.X-Customer": "c4nary", "headers.X-Site": "env:SITE",
		}},
		{Verb: config.Add, Kind: config.KindKey, Name: "device", Values: config.Values{"tenant": "acme", "hash": hash}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "?stale=allowed", "/versions/" + snapshot.Version(), "/history"} {
		for _, hides := range []bool{false, true} {
			w := handled(store, HandlerOptions{
				Hides:   func(*http.Request) bool { return hides },
				InForce: func() InForce { return InForce{Snapshot: snapshot, Version: snapshot.Version()} },
			}, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090/api/v1/config"+path, http.NoBody))
			body := w.Body.String()
			shows := strings.Contains(body, "c4nary") || strings.Contains(body, hash)
			if w.Code != 200 || shows != (!hides && path != "/history") || !strings.Contains(body, "env:SITE") {
				t.Errorf("%q, hiding is %t: status %d, %s", path, hides, w.Code, body)
			}
		}
	}
	server := httptest.NewServer(Handler(store, HandlerOptions{Hides: func(*http.Request) bool { return true }}))
	defer server.Close()
	c, err := dial(server.URL, "", config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	view, err := c.View(t.Context())
	if err != nil || view.Content.Backends["gpu-1"].Headers["X-Customer"] != "(hidden)" {
		t.Errorf("the client reads %+v, %v", view, err)
	}
}
