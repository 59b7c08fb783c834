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

// A backend is silent from the start. Whoever asks once sees the rate and the lag, although nobody watched before.
func TestMeasuredOnce(t *testing.T) {
	alone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for second := range 5 {
			s := api.Session{ID: "q7m2kd4x-1", Service: "stt", State: api.StateRelaying, Started: noon.Add(time.Duration(second))}
			s.FramesPerSecond = float64(10 * min(second, 1))
			s.LagSeconds = float64(max(second-1, 0))
			data, err := json.Marshal(api.SessionList{Sessions: []api.Session{s}, Matched: 1, Total: 1})
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", api.EventSessions, data)
		}
	}))
	t.Cleanup(server.Close)
	for order, want := range map[string]string{"rate": "10        -", "lag": "10        1.0s"} {
		status, out, messages := command("session", "ls", "--sort", order, "--admin", server.URL)
		if status != 0 || !strings.Contains(out, want+"\n") {
			t.Errorf("--sort %s: status %d, %s%s; want a row that ends with %q", order, status, out, messages, want)
		}
	}
}
