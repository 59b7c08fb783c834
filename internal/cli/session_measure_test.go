package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// A single request returns the rate, although no client watched before.
func TestMeasuredOnce(t *testing.T) {
	alone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for second := range 5 {
			s := api.Session{ID: "q7m2kd4x-1", Service: "stt", State: api.StateRelaying, Started: noon.Add(time.Duration(second))}
			s.FramesPerSecond = float64(10 * min(second, 1))
			data, err := json.Marshal(api.SessionList{Sessions: []api.Session{s}, Matched: 1, Total: 1})
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", api.EventSessions, data)
		}
	}))
	t.Cleanup(server.Close)
	status, out, messages := command("session", "ls", "--sort", "rate", "--admin", server.URL)
	if want := "-    10\n"; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, %s%s; want a row that ends with %q", status, out, messages, want)
	}
}
