package remote

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/configtest"
)

// broken is a store that fails, or hangs.
type broken struct {
	config.Store
	hangs bool
	asked int
}

func (f *broken) Load(ctx context.Context) (*config.Snapshot, error) {
	f.asked++
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("disk on fire")
}

// Who looks at the configuration gets what is in force when the store fails, and is told so; who needs the store gets its error. A
// store that hangs is not waited for, and one that is known to fail is not asked.
func TestView(t *testing.T) {
	content := configtest.Small()
	snapshot, err := config.NewSnapshot("6", &content, nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name   string
		store  *broken
		force  InForce
		path   string
		takes  time.Duration
		status int
		reason string // of being stale
		text   string // of the error
		asked  int
	}{
		{"it fails", &broken{}, InForce{}, "/api/v1/config?stale=allowed", 0, 200, "disk on fire", "", 1},
		{"it hangs", &broken{hangs: true}, InForce{}, "/api/v1/config?stale=allowed", 2 * time.Second, 200, "no answer within 2s", "", 1},
		{
			"it is known to fail", &broken{hangs: true},
			InForce{Stale: &Stale{began, "since long"}},
			"/api/v1/config?stale=allowed",
			0, 200, "since long", "", 0,
		},
		{"the store itself", &broken{}, InForce{}, "/api/v1/config", 0, 503, "", "disk on fire", 1},
		{"the store itself, which hangs", &broken{hangs: true}, InForce{}, "/api/v1/config", 15 * time.Second, 503, "", "the store did not answer within 15s", 1},
		{"its version, while it hangs", &broken{hangs: true}, InForce{}, "/api/v1/config/version", 15 * time.Second, 503, "", "the store did not answer within 15s", 1},
		{"nonsense", &broken{}, InForce{}, "/api/v1/config?stale=yes", 0, 400, "", `stale: invalid value "yes": use allowed`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.force.Snapshot, c.force.Version = snapshot, "7" // as another version, which says the same
				handler := Handler(c.store, HandlerOptions{InForce: func() InForce { return c.force }})
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, http.NoBody)
				r.Host = "localhost"
				w := httptest.NewRecorder()
				begun := time.Now()
				handler.ServeHTTP(w, r)
				var got struct {
					Version  string
					Services map[string]any
					Stale    Stale
					Error    struct{ Text string }
				}
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != c.takes || w.Code != c.status || c.store.asked != c.asked {
					t.Errorf("status %d after %v, the store was asked %d times", w.Code, took, c.store.asked)
				}
				if got.Stale.Reason != c.reason || got.Error.Text != c.text {
					t.Errorf("got %s", w.Body)
				}
				if c.status == http.StatusOK && (got.Version != "7" || len(got.Services) != len(content.Services) || got.Stale.Since.IsZero()) {
					t.Errorf("got %s", w.Body)
				}
				if c.force.Stale != nil && !got.Stale.Since.Equal(began) {
					t.Errorf("failing since %v; want %v", got.Stale.Since, began)
				}
			})
		})
	}
}
