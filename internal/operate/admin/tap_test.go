package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// playedTap is a tap whose events the test sends.
type playedTap struct {
	events chan api.TapEvent
	over   chan string
	once   sync.Once
	closed chan struct{}
}

func newPlayedTap() *playedTap {
	return &playedTap{events: make(chan api.TapEvent), over: make(chan string, 1), closed: make(chan struct{})}
}

func (p *playedTap) Next(ctx context.Context) ([]api.TapEvent, bool, error) {
	select {
	case e := <-p.events:
		return []api.TapEvent{e}, true, nil
	case reason := <-p.over:
		return []api.TapEvent{{Event: api.TapEnd, Reason: reason}}, false, nil
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
}

func (p *playedTap) End(reason string) { p.over <- reason }
func (p *playedTap) Close()            { p.once.Do(func() { close(p.closed) }) }

// isClosed reports whether the tap was closed.
func (p *playedTap) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// tapHandler returns the API with that tap.
func tapHandler(start func(api.TapQuery) (admin.Tap, error), audit *admin.Audit) http.Handler {
	return admin.Handler(admin.Source{
		Metrics: http.NotFoundHandler(), Configuration: http.NotFoundHandler(), Audit: audit, Tap: start,
		Stats: func() api.Stats {
			return api.Stats{Services: []api.Service{{Name: "stt"}}, Backends: []api.Backend{{Name: "gpu-1"}}}
		},
		Sessions: admin.Sessions{
			All:   func() []api.Session { return []api.Session{{ID: "q7m2kd4x-1042"}} },
			Ended: func() []api.Session { return nil },
			Detail: func(id string) (d api.SessionDetail, ok bool) {
				d.State, d.By, d.Code, d.Reason = api.StateEnded, "client", 1000, "bye"
				return d, id == "q7m2kd4x-7"
			},
		},
	}, admin.Access{Trusted: func(*http.Request) string { return api.RoleOperator }})
}

// openTap asks for a tap over a connection, and returns the lines of the answer.
func openTap(t *testing.T, client net.Conn, query string) *bufio.Scanner {
	t.Helper()
	go func() {
		_, _ = io.WriteString(client, "GET /api/v1/tap?"+query+" HTTP/1.1\r\nHost: localhost\r\nX-Wsbouncer-Change: 1\r\n\r\n")
	}()
	response, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-ndjson" || response.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s, %v", response.Status, response.Header)
	}
	return bufio.NewScanner(response.Body)
}

// tapped runs f in a bubble with a client of the API, whose taps are played.
func tapped(t *testing.T, f func(t *testing.T, client net.Conn, tap *playedTap, audit *admin.Audit)) {
	t.Helper()
	audit := admin.NewAudit(slog.New(slog.DiscardHandler))
	var tap *playedTap
	handler := tapHandler(func(api.TapQuery) (admin.Tap, error) { return tap, nil }, audit)
	connected(t, handler.ServeHTTP, func(t *testing.T, client net.Conn) {
		tap = newPlayedTap()
		f(t, client, tap, audit)
	})
}

// A tap's events come as they happen, for longer than any request may take, with empty lines when nothing happens; its time bounds it.
func TestTapStream(t *testing.T) {
	tapped(t, func(t *testing.T, client net.Conn, tap *playedTap, audit *admin.Audit) {
		begun := time.Now()
		lines := openTap(t, client, "service=stt&backend=gpu-1&for=1799&who=ana&why=incident")
		go func() { tap.events <- api.TapEvent{Event: api.TapFrame, From: "client", Text: "<a&b>"} }()
		expectLines(t, lines, `{"time":"0001-01-01T00:00:00Z","event":"frame","from":"client","text":"<a&b>"}`)
		beats := 0
		for lines.Scan() && lines.Text() == "" {
			beats++
		}
		var e api.TapEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Event != api.TapEnd || e.Reason != "its time of 29m59s has passed" {
			t.Errorf("the last line is %q", lines.Text())
		}
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
		}
		if took := time.Since(begun); took != 1799*time.Second || beats != 119 {
			t.Errorf("it took %v, with %d empty lines; want 29m59s and 119", took, beats)
		}
		synctest.Wait()
		if !tap.isClosed() {
			t.Error("the tap was not closed")
		}
		actions, _ := audit.Since(0)
		if len(actions) != 1 || actions[0].Action != "tap" || actions[0].Target != "backend gpu-1, service stt" || actions[0].Who != "ana" ||
			actions[0].Why != "incident" || actions[0].Detail != "for at most 29m59s" {
			t.Errorf("the audit log has %+v", actions)
		}
	})
}

// The tap of a reader that leaves ends at once.
func TestTapReaderThatLeaves(t *testing.T) {
	tapped(t, func(t *testing.T, client net.Conn, tap *playedTap, _ *admin.Audit) {
		openTap(t, client, "session=q7m2kd4x-1042")
		_ = client.Close()
		synctest.Wait()
		if !tap.isClosed() {
			t.Error("the tap continues")
		}
	})
}

// A reader that takes nothing is cut off.
func TestTapReaderThatNeverReads(t *testing.T) {
	tapped(t, func(t *testing.T, client net.Conn, tap *playedTap, _ *admin.Audit) {
		openTap(t, client, "session=q7m2kd4x-1042")
		tap.events <- api.TapEvent{Event: api.TapFrame}
		begun := time.Now()
		<-tap.closed
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("cut off after %v; want 10 s", took)
		}
	})
}

// What cannot be tapped is refused with a reason, and nothing of it is in the audit log.
func TestTapRefused(t *testing.T) {
	audit := admin.NewAudit(slog.New(slog.DiscardHandler))
	server := httptest.NewServer(tapHandler(func(q api.TapQuery) (admin.Tap, error) {
		if q.Session != "" {
			return nil, admin.ErrNoSession
		}
		return nil, admin.Busy("there are 16 taps already")
	}, audit))
	defer server.Close()
	for name, c := range map[string]struct {
		method, query, header, body string
		status                      int
		kind, text                  string
	}{
		"another site's page":      {query: "service=stt", header: "none", status: 403, kind: api.KindRefused, text: "send the header X-Wsbouncer-Change"},
		"no session":               {query: "session=q7m2kd4x-1043", status: 404, kind: api.KindUnknown, text: `unknown session "q7m2kd4x-1043": it never was`},
		"a session that has ended": {query: "session=q7m2kd4x-7", status: 409, kind: api.KindState, text: "has ended: client, code 1000 (bye)"},
		"no service":               {query: "service=sst", status: 404, kind: api.KindUnknown, text: `unknown service "sst": did you mean "stt"?`},
		"no backend":               {query: "backend=gpu-2", status: 404, kind: api.KindUnknown, text: `did you mean "gpu-1"?`},
		"too many":                 {query: "service=stt", status: 503, kind: api.KindBusy, text: "16 taps already"},
		"nothing chosen":           {query: "", status: 400, kind: api.KindRequest, text: "nothing is chosen"},
		"mistyped":                 {query: "service=stt&txt=1", status: 400, kind: api.KindRequest, text: `unknown parameter "txt"`},
		"a body":                   {query: "service=stt", body: "{}", status: 400, kind: api.KindRequest, text: "takes none"},
		"another method":           {method: "POST", query: "service=stt", status: 405, kind: api.KindRequest, text: "use one of GET, HEAD"},
	} {
		t.Run(name, func(t *testing.T) {
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			request, err := http.NewRequest(method, server.URL+api.TapPath+"?"+c.query, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.header == "" {
				request.Header.Set(api.ChangeHeader, "1")
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var f api.Failure
			if err := json.NewDecoder(response.Body).Decode(&f); err != nil || response.StatusCode != c.status || f.Error.Kind != c.kind ||
				!strings.Contains(f.Error.Text, c.text) {
				t.Errorf("%s, %+v, %v; want %d, %s, %s", response.Status, f.Error, err, c.status, c.kind, c.text)
			}
		})
	}
	actions, _ := audit.Since(0)
	for _, a := range actions {
		if a.Result == api.ResultDone {
			t.Errorf("the audit log has %+v", a)
		}
	}
}
