package services

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// recorder is an echo server that remembers what it was asked with.
type recorder struct {
	url string

	mu       sync.Mutex
	requests []http.Header     // guarded by mu
	hosts    []string          // guarded by mu: of the requests
	closes   []int             // guarded by mu: codes of the close frames that came
	open     []*websocket.Conn // guarded by mu
	ended    bool              // guarded by mu
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	rec := new(recorder)
	var handlers sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		upgrader := websocket.Upgrader{Subprotocols: websocket.Subprotocols(req)}
		conn, err := upgrader.Upgrade(w, req, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		rec.mu.Lock()
		rec.requests, rec.hosts = append(rec.requests, req.Header), append(rec.hosts, req.Host)
		rec.open = append(rec.open, conn)
		ended := rec.ended
		rec.mu.Unlock()
		if ended {
			return
		}
		for {
			kind, message, err := conn.ReadMessage()
			if closed, ok := err.(*websocket.CloseError); ok {
				rec.mu.Lock()
				rec.closes = append(rec.closes, closed.Code)
				rec.mu.Unlock()
			}
			if err != nil || conn.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	rec.url = "ws" + strings.TrimPrefix(server.URL, "http")
	t.Cleanup(func() {
		server.Close()
		rec.mu.Lock()
		rec.ended = true
		for _, conn := range rec.open {
			_ = conn.Close()
		}
		rec.mu.Unlock()
		handlers.Wait()
	})
	return rec
}

// last returns the header of the latest request, and how many there were.
func (rec *recorder) last() (http.Header, int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.requests[len(rec.requests)-1], len(rec.requests)
}

// What servers are told when they are dialed has their connections replaced, but no session ended.
func TestRenewal(t *testing.T) {
	t.Setenv("WSBOUNCER_TEST_SECRET", "hush")
	r := newRig(t)
	a := startRecorder(t)
	r.apply(func(c *config.Content) {
		c.Profiles["own"] = config.Profile{YAML: "from: echo\n"}
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.url, 3, nil)
	})
	r.idle("a", 3)
	for _, c := range []struct {
		name   string
		change func(*config.Content)
		field  string
		want   string
	}{
		{"profile", func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Profile = "own" }) }, "", ""},
		{"what the profile says", func(c *config.Content) { c.Profiles["own"] = config.Profile{YAML: "from: echo\nsubprotocol: v1\n"} }, "Sec-Websocket-Protocol", "v1"},
		{"subprotocol", func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Subprotocol = "v2" }) }, "Sec-Websocket-Protocol", "v2"},
		{"header", func(c *config.Content) {
			putBackend(c, "a", "stt", a.url, 3, func(b *config.Backend) { b.Headers = map[string]string{"X-Model": "large"} })
		}, "X-Model", "large"},
		{"secret", func(c *config.Content) {
			putBackend(c, "a", "stt", a.url, 3, func(b *config.Backend) {
				b.Headers = map[string]string{"Authorization": "Bearer env:WSBOUNCER_TEST_SECRET"}
			})
		}, "Authorization", "Bearer hush"},
	} {
		session, before := r.join("/stt"), r.backend("a").Totals.Reasons["outdated"]
		r.apply(c.change)
		wstest.Eventually(t, c.name+": idle connections are replaced", func() bool {
			s := r.backend("a")
			return s.Totals.Reasons["outdated"] == before+2 && s.Idle == 2 && s.Leased == 1 && s.Dialing+s.Retiring == 0
		})
		session.echo("on the old one")
		session.leave()
		wstest.Eventually(t, c.name+": the session's connection is replaced as well", func() bool {
			s := r.backend("a")
			return s.Totals.Reasons["outdated"] == before+3 && s.Idle == 3
		})
		header, _ := a.last()
		if got := header.Get(c.field); got != c.want {
			t.Errorf("%s: the server was asked with %s %q; want %q", c.name, c.field, got, c.want)
		}
	}
}

// A session ends as the profile has it that its connection was dialed for: a one-shot session's close is for the server.
func TestSessionKeepsItsProfile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startRecorder(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Profile = "one-shot" })
		putBackend(c, "a", "stt", a.url, 1, nil)
	})
	r.idle("a", 1)
	session := r.join("/stt")
	session.echo("1")
	r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Profile = "echo" }) })
	session.echo("2")
	bye := websocket.FormatCloseMessage(4001, "bye")
	if err := session.WriteControl(websocket.CloseMessage, bye, wstest.Deadline()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := session.ReadMessage(); !websocket.IsCloseError(err, 4001) {
		t.Errorf("the client got %v", err)
	}
	r.idle("a", 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.closes) != 1 || a.closes[0] != 4001 {
		t.Errorf("the server got close frames with %v; want 4001", a.closes)
	}
}

// A secret that cannot be had keeps its backend from being dialed, and says so; the others work.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startRecorder(t), startServer(t, 1)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.url, 1, func(b *config.Backend) { b.Headers = map[string]string{"Authorization": "env:WSBOUNCER_TEST_NONE"} })
		putBackend(c, "b", "stt", b.URL(), 1, nil)
	})
	r.idle("b", 1)
	wstest.Eventually(t, "a says what is missing", func() bool {
		return strings.Contains(r.backend("a").Reason, "header: Authorization: env:WSBOUNCER_TEST_NONE: the environment variable is not set")
	})
	r.apply(func(c *config.Content) {
		putBackend(c, "a", "stt", a.url, 1, func(b *config.Backend) { b.Headers = nil })
	})
	wstest.Eventually(t, "a is dialed without it", func() bool { return r.backend("a").Idle == 1 })
}

// While a secret cannot be read, no change of anything else forgets what was read before: whatever a backend is called, and whose it is.
func TestChangeWhileSecretIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := startServer(t, 10)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	put := func(c *config.Content, name, service string, connections int) {
		putBackend(c, name, service, server.URL()+"?key=file:"+file, connections, func(b *config.Backend) {
			b.Headers = map[string]string{"Authorization": "Bearer file:" + file}
		})
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		put(c, "a", "stt", 1)
	})
	r.idle("a", 1)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) { s.Queue++ })
		put(c, "a", "stt", 2)
	})
	r.idle("a", 2)
	r.apply(func(c *config.Content) {
		delete(c.Backends, "a")
		put(c, "b", "stt", 3)
	})
	r.idle("b", 3)
	r.apply(func(c *config.Content) {
		putService(c, "tts", nil)
		put(c, "b", "tts", 4)
	})
	r.idle("b", 4)
}

// What only the proxy cares for is in force from then on, and no connection is dialed for it.
func TestLimitsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 2)
	r.serve("a", a.URL(), 2)
	old := r.join("/stt")
	r.apply(func(c *config.Content) {
		putService(c, "stt", func(s *config.Service) {
			s.MaxMessage, s.AllowOrigin, s.Balance, s.Queue = 4, []string{"https://example.org"}, "hash", 1
		})
		putBackend(c, "a", "stt", a.URL(), 2, func(b *config.Backend) {
			b.Weight, b.Labels = 3, map[string]string{"zone": "a"}
		})
	})
	old.echo("longer than four") // it began before
	if s := r.stats().Services[0]; s.Balance != "hash" || s.Queue.Limit != 1 || r.backend("a").Weight != 3 {
		t.Errorf("in force: %+v, weight %v", s, r.backend("a").Weight)
	}
	if _, status := r.ask("/stt", "", "Origin", "https://example.com"); status != http.StatusForbidden {
		t.Errorf("another origin: status %d", status)
	}
	fresh := r.join("/stt")
	fresh.echo("four")
	if err := fresh.WriteMessage(websocket.TextMessage, []byte("five!")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fresh.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("a message that is too long now: %v", err)
	}
	old.leave()
	r.settled()
	if n := r.backend("a").Totals.Reasons["outdated"]; n != 0 {
		t.Errorf("%d connections were replaced", n)
	}
}

// A queue that becomes shorter turns no waiting client away; one that becomes longer lets more wait.
func TestQueueChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := startServer(t, 1)
	resize := func(n int) {
		r.apply(func(c *config.Content) { putService(c, "stt", func(s *config.Service) { s.Queue = n }) })
	}
	resize(2)
	r.apply(func(c *config.Content) { putBackend(c, "a", "stt", a.URL(), 1, nil) })
	r.idle("a", 1)
	session := r.join("/stt")
	waiting := []<-chan int{r.waiting("stt"), r.waiting("stt")}
	resize(1)
	if _, status := r.ask("/stt", ""); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the queue: status %d", status)
	}
	resize(3)
	waiting = append(waiting, r.waiting("stt"))
	session.leave()
	for i, answer := range waiting {
		if status := <-answer; status != http.StatusSwitchingProtocols {
			t.Errorf("client %d of the queue: status %d", i, status)
		}
	}
	r.settled()
}

// What cannot be made so changes nothing, and says what it is.
func TestImpossible(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := startServer(t, 1), startServer(t, 1)
	r.serve("a", a.URL(), 1)
	before := r.services.desired
	next := r.content.Clone()
	putBackend(&next, "b", "stt", b.URL(), 1, nil)
	delete(next.Backends, "a")
	next.Profiles["broken"] = config.Profile{YAML: "from: nothing"}
	snapshot, err := config.NewSnapshot("9", &next, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.services.Apply(snapshot); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("got %v", err)
	}
	if r.services.desired != before || len(r.stats().Backends) != 1 || b.Stats().Accepted != 0 {
		t.Error("something has changed")
	}
	session := r.join("/stt")
	session.echo("as before")
	session.leave()
	r.settled()
}
