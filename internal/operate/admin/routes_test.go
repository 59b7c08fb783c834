package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A deprecated path serves as before, and its answers show when it goes. Strangers learn nothing. Other paths have no such headers.
func TestDeprecatedPath(t *testing.T) {
	serve := methods{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "served") }}
	since := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	old := deprecation{since: since, sunset: since.AddDate(0, 6, 0)}
	api := handle([]route{
		{path: "/old", open: true, methods: serve, deprecated: old},
		{path: "/guarded", methods: serve, deprecated: old},
		{path: "/new", open: true, methods: serve},
	}, Access{Token: func() string { return "secret" }, Trusted: func(*http.Request) string { return "" }})
	for _, c := range []struct {
		path                      string
		status                    int
		deprecation, sunset, link string
	}{
		{"/old", 200, "@1803859200", "Wed, 01 Sep 2027 00:00:00 GMT", "<" + promise + `>; rel="deprecation"; type="text/html"`},
		{"/guarded", 401, "", "", ""},
		{"/new", 200, "", "", ""},
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		h := w.Header()
		if w.Code != c.status || h.Get("Deprecation") != c.deprecation || h.Get("Sunset") != c.sunset || h.Get("Link") != c.link {
			t.Errorf("%s: status %d, Deprecation %q, Sunset %q, Link %q", c.path, w.Code, h.Get("Deprecation"), h.Get("Sunset"), h.Get("Link"))
		}
	}
}
