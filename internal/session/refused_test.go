package session

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// written is a log that a test reads while a timer may write to it.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// take returns what was written since the last call.
func (w *written) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.text.Reset()
	return w.text.String()
}

// A crowd that is turned away gets some lines in the log, and one that counts the rest.
func TestRefusalsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out written
		var r refusals
		r.init(slog.New(slog.NewTextHandler(&out, nil)))
		refuse := func(status, times int) {
			for range times {
				r.log(&Refused{At: time.Now(), Status: status})
			}
		}
		expect := func(lines int, last string) {
			t.Helper()
			synctest.Wait()
			text := out.take()
			if got := strings.Count(text, "\n"); got != lines || !strings.HasSuffix(strings.TrimSuffix(text, "\n"), last) {
				t.Errorf("%d lines, want %d, the last with %s:\n%s", got, lines, last, text)
			}
		}
		refuse(503, 1000)
		expect(refusalsAtOnce, "status=503 reason=\"\"")
		refuse(404, 3) // they are not left out for the others' sake
		expect(3, "status=404 reason=\"\"")
		time.Sleep(time.Second)
		refuse(503, 1000)
		refuse(404, 50)
		expect(refusalsPerSecond+refusalsAtOnce, "status=404 reason=\"\"")
		time.Sleep(tellLeftOut)
		expect(1, `level=INFO msg="refused clients left out of the log" count=2000 by_status="404: 30, 503: 1970"`)
		time.Sleep(time.Hour)
		expect(0, "")
		refuse(503, refusalsAtOnce+7)
		r.close()
		expect(refusalsAtOnce+1, "count=7 by_status=\"503: 7\"")
		refuse(503, 1) // a handshake that ends late starts no timer
		time.Sleep(time.Hour)
		expect(0, "")
	})
}

// A log of warnings has none of it, and nobody counts.
func TestRefusalsAreNotLogged(t *testing.T) {
	var out bytes.Buffer
	var r refusals
	r.init(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	for range 100 {
		r.log(&Refused{At: time.Now(), Status: 404})
	}
	if r.close(); out.Len() > 0 || len(r.leftOut) > 0 {
		t.Errorf("%s, %v", &out, r.leftOut)
	}
}

// Who was refused, and why, is told once, without anything secret.
func TestRefusedIsTold(t *testing.T) {
	told := make(chan Refused, 1)
	r := newRig(t, setup{options: func(o *Options) { o.Refused = func(c *Refused) { told <- *c } }})
	const secret = "Authorization: Bearer s3cret"
	for _, c := range []struct {
		request string
		want    Refused
	}{
		{
			wstest.UpgradeRequest("/v2/test?token=s3cret", secret, "X-Request-Id: r-1", "Traceparent: "+valid),
			Refused{Path: "/v2/test", Status: 404, Reason: "there is no service for this path", RequestID: "r-1", TraceID: traceID},
		},
		{
			wstest.UpgradeRequest("/v2/%0Alevel=ERROR%1b[31m%ff", "X-Request-Id: two words"),
			Refused{Path: "/v2/\uFFFDlevel=ERROR\uFFFD[31m\uFFFD", Status: 404, Reason: "there is no service for this path"},
		},
		{
			wstest.UpgradeRequest("/v2/" + strings.Repeat("x", 3000)),
			Refused{Path: "/v2/" + strings.Repeat("x", maxPath-7) + "...", Status: 404, Reason: "there is no service for this path"},
		},
		{
			strings.Replace(wstest.UpgradeRequest("/v1/test"), "Sec-WebSocket-Key: ", "Sec-WebSocket-Key: s3cret", 1),
			Refused{Service: "test", Path: "/v1/test", Status: 400, Reason: "Sec-WebSocket-Key must be 16 bytes in base64"},
		},
		{"GET /?token=s3cret HTTP/9\r\n\r\n", Refused{Status: 400, Reason: "malformed HTTP request: the version is not HTTP/1.1"}},
	} {
		p, response := r.request(c.request)
		got := wstest.Receive(t, told, "the refused client")
		c.want.Arrived, c.want.Trace = got.Arrived, got.Trace
		c.want.At, c.want.ID, c.want.Client = got.At, got.ID, origin.AddressOf(p.LocalAddr())
		if got != c.want {
			t.Errorf("%.60q: told\n%+v; want\n%+v", c.request, got, c.want)
		}
		if id := response.Header.Get(idHeader); id != got.ID.String() || id == "" {
			t.Errorf("%.60q: the client got the id %q; told was %s", c.request, id, got.ID)
		}
		_ = p.Close()
		line := <-r.log.lines
		for line.message != "client refused" {
			line = <-r.log.lines
		}
		if text := fmt.Sprint(line); strings.Contains(text, "s3cret") || line.level != slog.LevelInfo || line.attrs["id"].String() != got.ID.String() ||
			line.attrs["status"].Int64() != int64(c.want.Status) || line.attrs["reason"].String() != c.want.Reason {
			t.Errorf("logged %s", text)
		}
	}
	if got := r.server.Stats().Refused[http.StatusNotFound]; got != 3 {
		t.Errorf("%d refusals with 404 are counted", got)
	}
}

func TestRequestID(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"a"}, "a"},
		{[]string{"AZaz09-._~:/+=@"}, "AZaz09-._~:/+=@"},
		{[]string{strings.Repeat("x", 128)}, strings.Repeat("x", 128)},
		{[]string{strings.Repeat("x", 129)}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{"a,b"}, ""},
		{[]string{"two words"}, ""},
		{[]string{"a\nb"}, ""},
		{[]string{"\x1b[31m"}, ""},
		{[]string{`a"b`}, ""},
		{[]string{"ä"}, ""},
		{[]string{"\xff"}, ""},
	} {
		if got := requestID(requestWith(http.Header{requestIDHeader: c.values})); got != c.want {
			t.Errorf("%.140q: %q; want %q", c.values, got, c.want)
		}
	}
}
