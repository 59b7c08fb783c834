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

// measuring has a test play a proxy with sessions of which one is in its lists, and returns what runs commands there.
func measuring(t *testing.T, sessions int) (run func(line string) (int, string, string)) {
	t.Helper()
	alone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for second := range 5 {
			s := api.Session{ID: "q7m2kd4x-1", Service: "stt", State: api.StateRelaying, Started: noon.Add(time.Duration(second))}
			s.FramesPerSecond = float64(10 * min(second, 1))
			data, err := json.Marshal(api.SessionList{Sessions: []api.Session{s}, Matched: sessions, Total: sessions})
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", api.EventSessions, data)
		}
	}))
	t.Cleanup(server.Close)
	return func(line string) (int, string, string) {
		return command(append(strings.Fields(line), "--admin", server.URL)...)
	}
}

// A single request returns the rate, although no client watched before.
func TestMeasuredOnce(t *testing.T) {
	status, out, messages := measuring(t, 1)("session ls --sort rate")
	if want := "-    10\n"; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, %s%s; want a row that ends with %q", status, out, messages, want)
	}
}

// A list that is cut off because no more sessions can be measured shows that, in each form. One that is as long as was asked for does so for people.
func TestMeasuredCutOff(t *testing.T) {
	run := measuring(t, 5000)
	const note = "1 of 5000 sessions; --sort rate shows at most 1000.\n"
	for line, to := range map[string]string{
		"": "out", " -o wide": "out", " -o json": "messages", " -o yaml": "messages", " -o name": "messages", " --limit 2000 -o name": "messages",
		" --limit 1": "out", " --limit 1 -o json": "",
	} {
		status, out, messages := run("session ls --sort rate" + line)
		if status != 0 || strings.HasSuffix(out, note) != (to == "out") || (messages == note) != (to == "messages") {
			t.Errorf("%q: status %d, printed\n%ssaid %q; want the note in %q", line, status, out, messages, to)
		}
	}
}
