package admission_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What is no session gets an honest HTTP answer, and costs no connection.
func TestRefusals(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) { s.Origins = []string{"https://allowed.example"} }})
	impatient := newRig(t, setup{Gate: func(o *admission.Options) { o.Limits.HandshakeTimeout = 300 * time.Millisecond }})
	good := wstest.UpgradeRequest("/v1/test")
	for _, c := range []struct {
		name    string
		request string
		status  int
		header  http.Header
	}{
		{"no such path", wstest.UpgradeRequest("/v2/test"), 404, nil},
		{"no such path, and no upgrade either", "GET / HTTP/1.1\r\nHost: test\r\n\r\n", 404, nil},
		{
			"not an upgrade", "GET /v1/test HTTP/1.1\r\nHost: test\r\n\r\n",
			426,
			http.Header{"Upgrade": {"websocket"}},
		},
		{
			"another version", strings.Replace(good, "Version: 13", "Version: 8", 1),
			426,
			http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}},
		},
		{"no HTTP", "hello\r\n\r\n", 400, nil},
		{"short key", strings.Replace(good, "AAAAAAAA", "", 1), 400, nil},
		{"no host", strings.Replace(good, "Host: test\r\n", "", 1), 400, nil},
		{"method", strings.Replace(good, "GET", "POST", 1), 400, nil},
		{"foreign origin", wstest.UpgradeRequest("/v1/test", "Origin: https://foreign.example"), 403, nil},
		{"long head", wstest.UpgradeRequest("/v1/test", "X-Long: "+strings.Repeat("x", 5<<10)), 431, nil},
		{"slow head", good[:40], 408, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := r
			if c.status == http.StatusRequestTimeout {
				r = impatient
			}
			before := r.stats().Refused[c.status]
			p, response := r.Request(c.request)
			if response.StatusCode != c.status {
				t.Errorf("status %d; want %d", response.StatusCode, c.status)
			}
			for name := range c.header {
				if got, want := response.Header.Get(name), c.header.Get(name); got != want {
					t.Errorf("%s: %q; want %q", name, got, want)
				}
			}
			if body, err := io.ReadAll(response.Body); err != nil || len(body) < 10 {
				t.Errorf("the answer says %q, %v; want the reason", body, err)
			}
			p.ExpectEnd()
			if got := r.stats().Refused[c.status]; got != before+1 {
				t.Errorf("%d refusals counted; want %d", got, before+1)
			}
		})
	}
	if got := r.Backend.Stats().Totals.Leased; got != 0 {
		t.Errorf("refused requests leased %d connections", got)
	}
}

// Browsers say where they come from, and are accepted from there; other clients do not, and are accepted.
func TestOriginsThatAreAccepted(t *testing.T) {
	r := newRig(t, setup{Cap: 2, Service: func(s *route.Service) { s.Origins = []string{"https://a.example", "https://b.example"} }})
	r.Ready(2)
	r.Join("Origin: https://b.example")
	r.Join()
	anybody := newRig(t, setup{})
	anybody.Join("Origin: https://c.example")
}

func TestNoCapacity(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	first := r.Join()
	sessiontest.ExpectUnavailable(t, r.Connect(wstest.UpgradeRequest("/v1/test")), "all connections are in use")
	first.CloseNormally()
	r.Join().CloseNormally()
}

// A request that is on its way when the proxy begins to drain is refused; sessions continue.
func TestDraining(t *testing.T) {
	r := newRig(t, setup{Cap: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(2)
	p := r.Join()
	late := r.Connect("GET /v1/test HTTP/1.1\r\n")
	wstest.Eventually(t, "the request is being read", func() bool {
		return r.stats().Handshakes == 1
	})
	r.Gate.StopAccepting()
	late.SendBytes([]byte(strings.TrimPrefix(wstest.UpgradeRequest("/v1/test"), "GET /v1/test HTTP/1.1\r\n")))
	sessiontest.ExpectUnavailable(t, late, "shutting down")
	p.Send(frame.Text, "still here")
	p.Expect(frame.Text, "still here")
}

// Close does not wait for clients that do not finish their request, however long they may take.
func TestCloseCutsHandshakesShort(t *testing.T) {
	for range 20 { // the moment at which a handshake begins matters
		r := newRig(t, setup{Gate: func(o *admission.Options) { o.Limits.HandshakeTimeout = time.Hour }})
		p := r.Connect("GET /v1/")
		left := make(chan struct{})
		go func() { // the client takes its answer, or else it would be waited for a moment
			defer close(left)
			_, _ = io.Copy(io.Discard, p)
			_ = p.Close()
		}()
		begun := time.Now()
		r.Gate.StopAccepting()
		r.Stop()
		if took := time.Since(begun); took > wstest.Timeout/2 {
			t.Fatalf("Close took %v", took)
		}
		<-left
	}
}

// A client that leaves before its request is complete, or while it is refused, leaves nothing behind.
func TestClientLeavesDuringHandshake(t *testing.T) {
	r := newRig(t, setup{})
	for range 20 {
		r.Connect("GET /v1/test HTTP/1.1\r\n").Reset()
		r.Connect("").Reset()
		r.Connect(wstest.UpgradeRequest("/nowhere")).Reset()
	}
	wstest.Eventually(t, "all handshakes end", func() bool {
		return r.stats().Handshakes == 0
	})
	if s := r.Backend.Stats(); s.Totals.Leased != 0 {
		t.Errorf("leased %d connections", s.Totals.Leased)
	}
	r.Join()
}

// The deadline of the handshake must not end the session after it.
func TestSessionOutlivesHandshakeTimeout(t *testing.T) {
	const limit = 50 * time.Millisecond
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}, Gate: func(o *admission.Options) { o.Limits.HandshakeTimeout = limit }})
	r.Ready(1)
	begun := time.Now()
	p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
	for response.StatusCode == http.StatusRequestTimeout { // the machine was too slow for it
		begun = time.Now()
		p, response = r.Request(wstest.UpgradeRequest("/v1/test"))
	}
	for n := 0; time.Since(begun) < 3*limit; n++ {
		text := fmt.Sprint(n)
		p.Send(frame.Text, text)
		p.Expect(frame.Text, text)
	}
}

// The backends' subprotocol is chosen when the client offers it, and only then.
func TestSubprotocol(t *testing.T) {
	r := newRig(t, setup{Cap: 4, Script: &wstest.Server{Protocol: "stt.v1", Serve: wstest.Echo}})
	for _, c := range []struct{ offer, chosen string }{
		{"", ""},
		{"stt.v1", "stt.v1"},
		{"other, stt.v1", "stt.v1"},
		{"other", ""},
	} {
		r.Ready(1)
		request := wstest.UpgradeRequest("/v1/test")
		if c.offer != "" {
			request = wstest.UpgradeRequest("/v1/test", "Sec-WebSocket-Protocol: "+c.offer)
		}
		_, response := r.Request(request)
		chosen, given := response.Header["Sec-Websocket-Protocol"]
		if response.StatusCode != 101 || given != (c.chosen != "") || given && (len(chosen) != 1 || chosen[0] != c.chosen) {
			t.Errorf("offered %q: got %s, chosen %q; want %q", c.offer, response.Status, chosen, c.chosen)
		}
	}
}

// What a server of a one-shot profile says at connect reaches its one client, whatever part of it had come before.
func TestGreeting(t *testing.T) {
	greeting := wstest.ServerFrame(true, frame.Text, []byte(`{"ready": true}`))
	for _, cut := range []int{1, 2, 10, len(greeting)} {
		r := newRig(t, setup{Script: &wstest.Server{Answer: wstest.Accept("", greeting[:cut]...)}})
		client, server := r.Session()
		server.SendBytes(greeting[cut:], server.Encode(true, frame.Text, []byte("and more")))
		client.Expect(frame.Text, `{"ready": true}`)
		client.Expect(frame.Text, "and more")
	}
}
