package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A proxy that drains still follows the configuration: a key that is revoked ends its session.
func TestDrainFollows(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.settings.DrainTimeout = time.Hour
	s.proxy.live.Store(&s.settings)
	s.serveVosk(nil)
	var client *websocket.Conn
	wstest.Eventually(t, "a client is served", func() bool {
		var err error
		client, _, err = s.dial(1)
		return err == nil
	})
	defer func() { _ = client.Close() }()
	drained := make(chan bool, 1)
	go func() { drained <- s.proxy.Drain() }()
	defer s.proxy.Close()
	wstest.Eventually(t, "the proxy drains", func() bool { end := s.proxy.end.Load(); return end != nil && !end.closed.IsZero() })
	revoke := config.Change{Who: "test", Mutations: []config.Mutation{{Verb: config.Remove, Kind: config.KindKey, Name: "phone"}}}
	if _, err := s.proxy.store.Apply(t.Context(), revoke); err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
	case <-time.After(wstest.Timeout):
		t.Error("the session of the revoked key continues")
		_ = client.Close()
		<-drained
	}
}

// A successor that does not take over ends at once: it has never accepted clients.
func TestHeldEndsAtOnce(t *testing.T) {
	s := DefaultSettings()
	s.Listen, s.Backends, s.Held, s.ShutdownDelay = []string{"127.0.0.1:0"}, []string{"ws://127.0.0.1:1/,warm=0"}, true, 10*time.Minute
	p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.Shutdown()
}

// What has changed in a configuration that is kept in memory would be lost with an upgrade.
func TestUpgradeForgetsNothing(t *testing.T) {
	s := DefaultSettings()
	s.Listen, s.Backends, s.Program = []string{"127.0.0.1:0"}, []string{"ws://127.0.0.1:1/,warm=0"}, &takeover.Program{Path: "/none"}
	p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Shutdown()
	upgrade := func(is string) {
		t.Helper()
		if _, err := p.Upgrade(t.Context(), "", time.Minute, func(string) {}); err == nil || !strings.Contains(err.Error(), is) {
			t.Errorf("%v", err)
		}
	}
	upgrade("the program cannot be started")
	set := func(state string) {
		content := p.services.Snapshot().Content()
		name := content.Names(config.KindBackend)[0]
		b := content.Backends[name]
		b.State = state
		content.Backends[name] = b
		snapshot, err := config.NewSnapshot(state, &content, config.CheckProfiles)
		if err == nil {
			err = p.services.Apply(snapshot)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set("draining")
	if p.prepare("") == nil {
		t.Error("a process that takes over by itself may")
	}
	upgrade("the new process would begin without what has changed since the start, such as backend")
	set("enabled")
	upgrade("the program cannot be started")
}
