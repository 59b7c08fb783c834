package app

import (
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// stack is a proxy with a database, and a simulated Vosk server.
type stack struct {
	t        *testing.T
	settings Settings
	proxy    *Proxy
	key      string // of the clients
}

// newStack starts a proxy with an empty database.
func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{t: t, settings: DefaultSettings(), key: apikey.New()}
	s.settings.Listen, s.settings.Admin, s.settings.Fleet, s.settings.DrainTimeout = []string{"127.0.0.1:0"}, "", "off", 0
	s.settings.Database, s.settings.StateDirectory = filepath.Join(t.TempDir(), "config.db"), t.TempDir()
	s.settings.AdminSocket, s.settings.Level = "", new(slog.LevelVar)
	s.start()
	return s
}

// serveVosk adds a service for a simulated Vosk server, whose clients have the key phone of the tenant acme.
func (s *stack) serveVosk(tenant config.Values) {
	s.t.Helper()
	server, err := sim.Start(sim.Options{Protocol: "vosk"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { server.Close() })
	content := config.NewContent()
	for _, e := range []struct {
		kind   config.Kind
		name   string
		values config.Values
	}{
		{config.KindService, "stt", config.Values{"path": "/v1", "profile": "vosk", "auth": `["keys"]`, "auth-from": `["query:key"]`, "end-unauthorized": "true"}},
		{config.KindBackend, "gpu-1", config.Values{"service": "stt", "url": server.URL(), "connections": "4"}},
		{config.KindTenant, "acme", tenant},
		{config.KindKey, "phone", config.Values{"tenant": "acme", "hash": apikey.HashOf(s.key).String()}},
	} {
		if problems := content.Set(e.kind, e.name, e.values); len(problems) > 0 {
			s.t.Fatal(problems)
		}
	}
	if _, err := s.proxy.store.Apply(s.t.Context(), config.Change{Who: "test", Expect: "0", Content: &content}); err != nil {
		s.t.Fatal(err)
	}
}

// start starts the proxy, also once more.
func (s *stack) start() {
	s.t.Helper()
	var err error
	if s.proxy, err = Start(s.t.Context(), s.settings, "test", slog.New(slog.DiscardHandler)); err != nil {
		s.t.Fatal(err)
	}
}

// dial connects a client, and sends seconds of audio.
func (s *stack) dial(seconds int) (*websocket.Conn, *http.Response, error) {
	client, response, err := websocket.DefaultDialer.Dial("ws://"+s.proxy.Addresses()[0].String()+"/v1?key="+s.key, nil)
	if err == nil {
		err = client.WriteMessage(websocket.TextMessage, []byte(`{"config":{"sample_rate":16000}}`))
	}
	for range seconds * 10 {
		if err == nil {
			err = client.WriteMessage(websocket.BinaryMessage, make([]byte, 3200))
		}
	}
	return client, response, err
}

// used waits until so much audio is reported.
func (s *stack) used(seconds float64) {
	s.t.Helper()
	wstest.Eventually(s.t, "the audio is reported", func() bool {
		q := api.UsageQuery{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour), By: []string{"tenant", "key"}}
		report, err := s.proxy.reportUsage(s.t.Context(), q)
		return err == nil && len(report.Rows) == 1 && *report.Rows[0].Tenant == "acme" && *report.Rows[0].Key == "phone" && report.Rows[0].AudioInSeconds == seconds
	})
}

// What clients use is reported over restarts, and a quota ends a session and refuses the next client.
func TestUsageAndQuota(t *testing.T) {
	s := newStack(t)
	s.serveVosk(config.Values{"audio-quota": "5s/month"})
	wstest.Eventually(t, "a client is served", func() bool {
		client, response, err := s.dial(2)
		if err != nil {
			return false
		}
		if left := response.Header.Get(record.AudioLeftHeader); left != "5" {
			t.Errorf("%q seconds are left, want 5", left)
		}
		// A socket that is closed with results unread is reset, and what the proxy has not read by then is lost.
		_ = client.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
		for err == nil {
			_, _, err = client.ReadMessage()
		}
		return client.Close() == nil
	})
	s.used(2)
	s.proxy.Shutdown()
	s.start()
	defer func() { s.proxy.Shutdown() }()
	s.used(2)
	client, _, err := s.dial(2)
	if err == nil { // in one message, so that the quota is not used up by a part of it
		err = client.WriteMessage(websocket.BinaryMessage, make([]byte, 64000))
	}
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, _, err = client.ReadMessage()
	}
	var end *websocket.CloseError
	if !errors.As(err, &end) || end.Code != websocket.ClosePolicyViolation || !strings.HasPrefix(end.Text, "audio quota used up: it renews at 20") {
		t.Errorf("the session ends with %v", err)
	}
	_ = client.Close()
	s.used(6)
	_, response, err := s.dial(1)
	if err == nil || response == nil || response.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("the next client gets %v, %v", response, err)
	}
	if wait, err := strconv.Atoi(response.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 31*86400 {
		t.Errorf("Retry-After: %q", response.Header.Get("Retry-After"))
	}
	stats := s.proxy.Stats()
	if q := stats.Tenant("acme").AudioQuota; q == nil || q.LeftSeconds != 0 || q.UsedSeconds != 6 {
		t.Errorf("the quota: %+v", q)
	}
}
