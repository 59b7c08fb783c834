package admin_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// stream is a source of events that the test sends.
type stream struct {
	events   chan []byte
	query    api.EventQuery
	refuse   error
	canceled atomic.Int32
}

// handler returns the API with that stream, for users of this machine.
func (s *stream) handler() http.HandlerFunc {
	return s.handlerFor(admin.Access{Trusted: func(*http.Request) string { return api.RoleOperator }}, admin.NewAudit(slog.New(slog.DiscardHandler)))
}

// handlerFor returns the API with that stream.
func (s *stream) handlerFor(access admin.Access, audit *admin.Audit) http.HandlerFunc {
	s.events = make(chan []byte)
	return admin.Handler(admin.Source{
		Metrics: http.NotFoundHandler(), Configuration: http.NotFoundHandler(), Audit: audit,
		History: func() api.History {
			return api.History{IntervalSeconds: 10, Points: []api.Point{{Sessions: 7, FramesPerSecond: 1.5}}}
		},
		Subscribe: func(q api.EventQuery) (<-chan []byte, func(), error) {
			s.query = q
			return s.events, func() { s.canceled.Add(1) }, s.refuse
		},
	}, access).ServeHTTP
}

// subscribe asks for a stream and returns its lines. header are more lines of the request's header, each with its end.
func subscribe(t *testing.T, client net.Conn, target string, header ...string) (*http.Response, *bufio.Scanner) {
	t.Helper()
	go func() {
		_, _ = io.WriteString(client, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\n"+strings.Join(header, "")+"\r\n")
	}()
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	return response, bufio.NewScanner(response.Body)
}

// expectLines reads lines and compares them.
func expectLines(t *testing.T, lines *bufio.Scanner, want ...string) {
	t.Helper()
	for _, w := range want {
		if !lines.Scan() || lines.Text() != w {
			t.Fatalf("got the line %q (%v); want %q", lines.Text(), lines.Err(), w)
		}
	}
}

// TestEventStream: events come as they are sent, for longer than any request may take; between them there are heartbeats.
func TestEventStream(t *testing.T) {
	var s stream
	connected(t, s.handler(), func(t *testing.T, client net.Conn) {
		s.events = make(chan []byte) // of this bubble
		response, lines := subscribe(t, client, "/api/v1/events?interval=5&sort=lag&limit=7")
		if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s, %v", response.Status, response.Header)
		}
		if want := (api.EventQuery{IntervalSeconds: 5, SessionQuery: api.SessionQuery{Sort: "lag", Limit: 7}}); s.query != want {
			t.Errorf("subscribed with %+v; want %+v", s.query, want)
		}
		expectLines(t, lines, "retry: 2000", "")
		begun := time.Now()
		for range 100 { // 25 minutes
			go func() {
				time.Sleep(15*time.Second - time.Millisecond)
				s.events <- []byte("event: stats\ndata: {}\n\n")
			}()
			expectLines(t, lines, "event: stats", "data: {}", "")
		}
		for range 100 {
			expectLines(t, lines, ":", "")
		}
		if took := time.Since(begun); took < 49*time.Minute || took > 51*time.Minute {
			t.Errorf("100 heartbeats and 100 events took %v; want 50 minutes", took)
		}
		close(s.events)
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
		}
		synctest.Wait()
		if s.canceled.Load() != 1 {
			t.Error("the subscription is kept")
		}
	})
}

// TestSubscriberThatLeaves: its subscription ends at once, not with the next event.
func TestSubscriberThatLeaves(t *testing.T) {
	var s stream
	connected(t, s.handler(), func(t *testing.T, client net.Conn) {
		_, lines := subscribe(t, client, "/api/v1/events")
		expectLines(t, lines, "retry: 2000", "")
		_ = client.Close()
		synctest.Wait()
		if s.canceled.Load() != 1 {
			t.Error("the subscription is kept")
		}
	})
}

// TestSubscriberThatNeverReads is cut off when it has not taken an event in time.
func TestSubscriberThatNeverReads(t *testing.T) {
	var s stream
	connected(t, s.handler(), func(t *testing.T, client net.Conn) {
		s.events = make(chan []byte, 1)
		_, lines := subscribe(t, client, "/api/v1/events")
		expectLines(t, lines, "retry: 2000", "")
		s.events <- []byte("event: stats\ndata: " + strings.Repeat("x", 1<<20) + "\n\n")
		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		if s.canceled.Load() != 0 {
			t.Error("cut off too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if s.canceled.Load() != 1 {
			t.Error("the subscription is kept")
		}
	})
}

// TestEventErrors has requests refused that are not understood, or for which there is no room.
func TestEventErrors(t *testing.T) {
	var s stream
	handler := s.handler()
	for _, c := range []struct {
		name, request string
		busy          error
		status        int
		kind, text    string
	}{
		{"interval", "GET /api/v1/events?interval=0", nil, 400, api.KindRequest, `interval: invalid number "0": use whole seconds from 1 to 60`},
		{
			"parameter", "GET /api/v1/events?every=2", nil, 400, api.KindRequest,
			`unknown parameter "every": use interval, service, backend, tenant, client, state, sort or limit`,
		},
		{"body", "GET /api/v1/events HTTP/1.1\r\nContent-Length: 5", nil, 400, api.KindRequest, "the request has a body: /api/v1/events takes none"},
		{"body in chunks", "GET /api/v1/events HTTP/1.1\r\nTransfer-Encoding: chunked", nil, 400, api.KindRequest, "the request has a body: /api/v1/events takes none"},
		{"busy", "GET /api/v1/events", errors.New("64 already"), 503, api.KindBusy, "64 already"},
		{"method", "POST /api/v1/events HTTP/1.1\r\nX-Wsbouncer-Change: 1", nil, 405, api.KindRequest, `unknown method "POST" for /api/v1/events: use one of GET, HEAD`},
		{"history's parameter", "GET /api/v1/history?hours=2", nil, 400, api.KindRequest, `unknown parameter "hours": this path takes none`},
	} {
		t.Run(c.name, func(t *testing.T) {
			connected(t, handler, func(t *testing.T, client net.Conn) {
				s.refuse = c.busy
				if !strings.Contains(c.request, "HTTP/1.1") {
					c.request += " HTTP/1.1"
				}
				go func() { _, _ = io.WriteString(client, c.request+"\r\nHost: localhost\r\n\r\n") }()
				response, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				var f api.Failure
				if err := json.NewDecoder(response.Body).Decode(&f); err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != c.status || f.Error.Kind != c.kind || f.Error.Text != c.text {
					t.Errorf("%s, %+v; want %d, %s, %s", response.Status, f, c.status, c.kind, c.text)
				}
			})
		})
	}
}

func TestHistoryAndHead(t *testing.T) {
	var s stream
	handler := s.handler()
	connected(t, handler, func(t *testing.T, client net.Conn) {
		go func() { _, _ = io.WriteString(client, "GET /api/v1/history HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		var h api.History
		if err := json.NewDecoder(response.Body).Decode(&h); err != nil || response.StatusCode != 200 || len(h.Points) != 1 || h.Points[0].Sessions != 7 {
			t.Errorf("%s, %+v, %v", response.Status, h, err)
		}
	})
	connected(t, handler, func(t *testing.T, client net.Conn) {
		go func() { _, _ = io.WriteString(client, "HEAD /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
		response, err := http.ReadResponse(bufio.NewReader(client), &http.Request{Method: http.MethodHead})
		if err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" || s.query.Limit != 0 {
			t.Errorf("%v, %v, subscribed: %v", response, err, s.query.Limit != 0)
		}
	})
}
