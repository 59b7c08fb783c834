package services

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// startMoody starts an echo server that drops a connection when a message tells it to.
func startMoody(t *testing.T) *wstest.LibraryServer {
	t.Helper()
	return wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, _, kind int, message []byte) error {
		if string(message) == "drop" {
			return errors.New("dropped")
		}
		return c.WriteMessage(kind, message)
	}))
}

// drop has the server break a session and refuse new connections.
func drop(server *wstest.LibraryServer, c *client) {
	c.t.Helper()
	server.RefuseWith.Store(http.StatusForbidden)
	if err := c.WriteMessage(websocket.TextMessage, []byte("drop")); err != nil {
		c.t.Fatal(err)
	}
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseInternalServerErr) {
		c.t.Errorf("the client got %v", err)
	}
}

// awaitReady waits until the services are ready.
func (r *rig) awaitReady() {
	r.t.Helper()
	var err error
	defer func() {
		if r.t.Failed() {
			r.t.Log(err)
		}
	}()
	wstest.Eventually(r.t, "ready", func() bool { err = r.services.Ready(nil); return err == nil })
}

// awaitUnready waits until they are not, for a reason with these words.
func (r *rig) awaitUnready(words ...string) {
	r.t.Helper()
	var err error
	defer func() {
		if r.t.Failed() {
			r.t.Log(err)
		}
	}()
	wstest.Eventually(r.t, "not ready", func() bool {
		err = r.services.Ready(nil)
		fits := err != nil
		for _, word := range words {
			fits = fits && strings.Contains(err.Error(), word)
		}
		return fits
	})
}

// quickToTrip has a single failure open the circuit.
func quickToTrip(s *config.Service) { s.CircuitFailures = 1 }

// A service of which no backend gets sessions cannot serve, although one has idle connections still.
func TestNotReadyWithOpenCircuits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startMoody(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putBackend(c, "a", "stt", a.URL, 4, func(b *config.Backend) { b.Warm = 2 })
	})
	r.idle("a", 2)
	if err := r.services.Ready(nil); err != nil {
		t.Fatal(err)
	}
	drop(a, r.join("/stt"))
	r.awaitUnready("service stt", "no new sessions for "+a.URL, "backend a, circuit ")
	if b := r.backend("a"); b.Idle == 0 {
		t.Errorf("there is no idle connection: %+v", b.Pool)
	}
	a.RefuseWith.Store(0)
	r.awaitReady()
}

// One backend that serves is enough, whatever is the matter with the others; with none, each is named.
func TestReadyWithOneOfTwo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startMoody(t), "ws://"+wstest.FreeAddress(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putBackend(c, "a", "stt", a.URL, 1, nil)
		putBackend(c, "b", "stt", b, 1, nil)
	})
	r.awaitReady()
	drop(a, r.join("/stt"))
	r.awaitUnready("service stt", a.URL+" (backend a, circuit ", "no connection to "+b+" (backend b, circuit ", "refused")
	r.apply(func(c *config.Content) { setState(c, "a", "draining"); setState(c, "b", "disabled") })
	r.awaitReady() // there is no client to serve
}

// At the start, it waits for the first connection to each backend, or for why there is none.
func TestNotReadyBeforeAllWereTried(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startMoody(t)
	slow := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-slow; w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	url := "ws" + strings.TrimPrefix(server.URL, "http")
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.DialTimeout = wstest.Timeout })
		putBackend(c, "a", "stt", a.URL, 1, nil)
		putBackend(c, "b", "stt", url, 1, nil)
	})
	r.idle("a", 1)
	if err := r.services.Ready(nil); err == nil || !strings.Contains(err.Error(), "no connection to "+url+" (backend b): not dialed yet") {
		t.Errorf("got %v", err)
	}
	close(slow)
	r.awaitReady()
}

// That holds for servers that are discovered at the start, too, and not for those that are discovered later.
func TestNotReadyBeforeDiscoveredWereTried(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 1)
	silent := func(n int) net.Listener { // the system accepts, and nothing answers
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip(n), f.port))
		if err != nil {
			t.Skipf("the port is taken on another address: %v", err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
	second := silent(2)
	silent(3)
	f.resolve(1, 2)
	f.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.DialTimeout = 2 * wstest.Timeout })
		putBackend(c, "gpu", "stt", f.url(), 1, func(b *config.Backend) { b.Discover = config.DiscoverDNS })
	})
	f.idle(f.name(1), 1)
	if err := f.services.Ready(nil); err == nil || !strings.Contains(err.Error(), "backend "+f.name(2)+"): not dialed yet") {
		t.Errorf("got %v", err)
	}
	_ = second.Close()
	f.awaitReady()
	f.resolve(1, 2, 3)
	wstest.Eventually(t, "the third is dialed", func() bool { return f.backend(f.name(3)).Dialing == 1 })
	if err := f.services.Ready(nil); err != nil {
		t.Error(err)
	}
}

// What keeps a process from taking over is what makes its services unready, but not servers that are full, whose places the other process may have, nor
// first connections while a service can serve.
func TestLacks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, url := startMoody(t), "ws://"+wstest.FreeAddress(t)
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	a.RefuseWith.Store(http.StatusServiceUnavailable)
	lacks := func(required string, words ...string) {
		t.Helper()
		text := ""
		defer func() {
			if t.Failed() {
				t.Logf("%q", text)
			}
		}()
		wstest.Eventually(t, fmt.Sprintf("it lacks %q", words), func() bool {
			text = r.services.Lacks(strings.Fields(required))
			fits := (text == "") == (len(words) == 0)
			for _, word := range words {
				fits = fits && strings.Contains(text, word)
			}
			return fits
		})
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putService(c, "tts", func(s *config.Service) { s.DialTimeout = 2 * wstest.Timeout })
		putBackend(c, "b", "stt", url, 1, nil)
		putBackend(c, "c", "tts", "ws"+strings.TrimPrefix(silent.URL, "http"), 1, nil)
	})
	lacks("", "service stt: no connection to "+url, "refused", "service tts: no connection to ")
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", a.URL, 2, func(b *config.Backend) { b.Warm = 1 }) })
	lacks("") // it is full
	if err := r.services.Ready(nil); err == nil {
		t.Error("ready")
	}
	lacks("stt")
	lacks("tts", "service tts: no connection to ", "not dialed yet")
	lacks("none", "there is no such service")
	a.RefuseWith.Store(http.StatusForbidden)
	lacks("", "403")
	a.RefuseWith.Store(0)
	lacks("")
	r.idle("a", 1)
	if r.services.UsesAllPlaces() {
		t.Error("a place is free")
	}
	r.join("/stt")
	r.join("/stt")
	if !r.services.UsesAllPlaces() {
		t.Error("no place is free")
	}
}

// Where connections are dialed for clients, it is the circuit that counts.
func TestReadyOnDemand(t *testing.T) {
	t.Parallel()
	for name, onDemand := range map[string]func(*config.Content){
		"none warm": func(c *config.Content) {
			b := c.Backends["a"]
			b.Warm = 0
			c.Backends["a"] = b
		},
		"the profile": func(c *config.Content) {
			c.Profiles["own"] = config.Profile{YAML: "from: echo\npredial: never\n"}
			putService(c, "stt", func(s *config.Service) { s.Profile = "own" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a := startMoody(t)
			r.apply(func(c *config.Content) {
				putService(c, "stt", quickToTrip)
				putBackend(c, "a", "stt", a.URL, 1, nil)
				onDemand(c)
			})
			if err := r.services.Ready(nil); err != nil {
				t.Error(err)
			}
			a.RefuseWith.Store(http.StatusForbidden)
			answers := make(chan struct{})
			go func() { // who waits has it dialed
				defer close(answers)
				conn, _, err := (&websocket.Dialer{HandshakeTimeout: wstest.Timeout}).Dial("ws://"+r.address+"/stt", nil)
				if err == nil {
					_ = conn.Close()
				}
			}()
			r.awaitUnready("service stt", "no connection to "+a.URL, "circuit ", "403")
			a.RefuseWith.Store(0)
			<-answers
			r.awaitReady()
		})
	}
}

// A server that wants a client's own key is ready for clients, though none has come and nothing can be dialed ahead of them.
func TestReadyIfTheServerWantsClientsKeys(t *testing.T) {
	t.Parallel()
	var upgrader websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if c, err := upgrader.Upgrade(w, r, nil); err == nil {
			_ = wstest.LibraryEcho(c)
			_ = c.Close()
		}
	}))
	t.Cleanup(server.Close)
	r := newRig(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Pass = []string{"header:Authorization"} })
		putBackend(c, "a", "stt", "ws"+strings.TrimPrefix(server.URL, "http"), 1, nil)
	})
	r.awaitReady()
	if b := r.backend("a"); !b.Reachable {
		t.Errorf("not reachable: %s", b.Reason)
	}
}

// One service that can serve is enough, whether the others have served before or never, unless the settings name one of these.
func TestReadyWithOneOfTwoServices(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startMoody(t), startMoody(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putBackend(c, "a", "stt", a.URL, 1, nil)
		putService(c, "tts", quickToTrip)
		putBackend(c, "b", "tts", b.URL, 1, nil)
		putService(c, "new", nil) // without a server
		putService(c, "dead", quickToTrip)
		putBackend(c, "c", "dead", "ws://"+wstest.FreeAddress(t), 1, nil)
	})
	r.awaitReady()
	drop(b, r.join("/tts"))
	of := func(name string) string { // why a service cannot serve
		if err := r.services.Ready([]string{name}); err != nil {
			return err.Error()
		}
		return ""
	}
	wstest.Eventually(t, "tts cannot serve", func() bool { return strings.Contains(of("tts"), b.URL) })
	if err := r.services.Ready(nil); err != nil {
		t.Error(err)
	}
	now := r.services.Readiness(nil)
	for name, says := range map[string]string{"stt": "", "dead": "refused", "new": "none of its backends is enabled and has places", "other": "there is no such service"} {
		if reason := of(name); !strings.Contains(reason, says) || (says == "") != (reason == "") {
			t.Errorf("%s: %q; want %q", name, reason, says)
		}
	}
	if len(now.Services) != 4 || now.Reason != "" {
		t.Errorf("%+v", now)
	}
	for _, required := range [][]string{{"tts"}, {"stt", "tts"}, {"new"}, {"other"}} {
		if now := r.services.Readiness(required); !strings.HasSuffix(now.Reason, "cannot serve: "+required[len(required)-1]) {
			t.Errorf("%s are required: %q", required, now.Reason)
		}
	}
	if err := r.services.Ready([]string{"stt"}); err != nil {
		t.Error(err)
	}

	drop(a, r.join("/stt"))
	r.awaitUnready("service dead: no connection to ", "; service stt: ", a.URL, "; service tts: ")
	if now := r.services.Readiness(nil); now.Reason != "no service can serve" {
		t.Errorf("%q", now.Reason)
	}
	b.RefuseWith.Store(0)
	r.awaitReady()
	r.apply(func(c *config.Content) {
		setState(c, "a", "disabled")
		setState(c, "b", "disabled")
		setState(c, "c", "disabled")
	})
	if err := r.services.Ready(nil); err != nil { // there is no client to serve
		t.Error(err)
	}
}

// A service that is added to a proxy that serves none is all that clients can ask for: it counts from the beginning.
func TestReadyOfFirstService(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(func(c *config.Content) { putService(c, "stt", quickToTrip) })
	if err := r.services.Ready(nil); err != nil {
		t.Error(err)
	}
	a := startMoody(t)
	a.RefuseWith.Store(http.StatusForbidden)
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", a.URL, 1, nil) })
	r.awaitUnready("service stt", a.URL, "403")
	a.RefuseWith.Store(0)
	r.awaitReady()
}

// A backend whose probe fails serves no client.
func TestNotReadyWhileProbesFail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startMoody(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.Probe, s.ProbeInterval, s.ProbeFall, s.ProbeRise = "/", 10*time.Millisecond, 1, 1
		})
		putBackend(c, "a", "stt", a.URL, 1, nil)
	})
	r.idle("a", 1)
	a.PlainWith.Store(http.StatusServiceUnavailable)
	r.awaitUnready("service stt", "no new sessions for "+a.URL+" (backend a, probe fails)", "503")
	a.PlainWith.Store(http.StatusOK)
	r.awaitReady()
}
