//go:build unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// eventReader reads a proxy's stream of events.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (p *proxy) events(t *testing.T, query string) *eventReader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout) // ends a test that hangs
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin+"/api/v1/events?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	return &eventReader{t, lines}
}

// await reads until an event of that name is as wanted.
func (r *eventReader) await(name, what string, isIt func(data string) bool) {
	r.t.Helper()
	current := ""
	for r.lines.Scan() {
		line := r.lines.Text()
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			current = event
		} else if data, ok := strings.CutPrefix(line, "data: "); ok && current == name && isIt(data) {
			return
		}
	}
	r.t.Fatalf("the stream ended (%v) before %s", r.lines.Err(), what)
}

// eventSession is what the test looks at.
type eventSession struct {
	ID, Backend, Client, State, By string
	Code                           int
	FramesFromClient               int `json:"frames_from_client"`
}

func decodeEvent[T any](t *testing.T, data string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// TestEvents follows a session in the stream of events from its begin to its end, while another subscriber reads nothing, and the
// proxy to its own.
func TestEvents(t *testing.T) {
	t.Parallel()
	p := startReady(t, "--backend", startSim(t).url, "--profile", "echo", "--connections", "4")
	deaf, err := net.Dial("tcp", strings.TrimPrefix(p.admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, "GET /api/v1/events?interval=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := p.events(t, "interval=1")
	c := dialFree(t, p.url("/"))
	c.echo("one")
	c.echo("two")
	var id string
	reader.await("sessions", "the session is listed", func(data string) bool {
		list := decodeEvent[struct {
			Sessions       []eventSession
			Matched, Total int
		}](t, data)
		if list.Total == 0 {
			return false
		}
		s := list.Sessions[0]
		id = s.ID
		if list.Total != 1 || list.Matched != 1 || s.State != "relaying" || s.Backend == "" || s.Client == "" {
			t.Errorf("listed as %s", data)
		}
		return s.FramesFromClient == 2
	})
	c.close(1000, "bye")
	reader.await("ended", "the session's end", func(data string) bool {
		ended := decodeEvent[[]eventSession](t, data)
		s := ended[len(ended)-1]
		if s.ID != id || s.By != "client" || s.Code != 1000 || s.State != "ended" {
			t.Errorf("ended: %s; want session %s, ended by its client with 1000", data, id)
		}
		return true
	})
	if status, body := p.get("/api/v1/history"); status != http.StatusOK || !strings.Contains(body, `"interval_seconds": 10`) {
		t.Errorf("history: %d %s", status, body)
	}
	p.signal(syscall.SIGTERM) // with subscribers
	p.wait(0)
	for reader.lines.Scan() { // to its end
		continue
	}
}
