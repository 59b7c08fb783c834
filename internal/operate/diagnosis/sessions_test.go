package diagnosis

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestFailed(t *testing.T) {
	for name, c := range map[string]struct {
		session api.Session
		failed  bool
	}{
		"has not ended":                    {api.Session{}, false},
		"the client is done":               {api.Session{By: "client", Code: 1000, Class: "normal"}, false},
		"the client vanished":              {api.Session{By: "client", Code: 1006, Class: "client_left"}, false},
		"the client left a failed backend": {api.Session{By: "client", Code: 1000, Class: "backend_failed"}, true},
		"the client left a lost one":       {api.Session{By: "client", Code: 1006, Class: "connection_lost"}, true},
		"the backend failed":               {api.Session{By: "backend", Code: 1011, Class: "backend_failed"}, true},
		"the backend left in order":        {api.Session{By: "backend", Code: 1012, Class: "backend_left"}, false},
	} {
		if Failed(&c.session) != c.failed {
			t.Errorf("%s: it failed: %v, want %v", name, !c.failed, c.failed)
		}
	}
}
