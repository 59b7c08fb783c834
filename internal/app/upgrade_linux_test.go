package app

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/fleet/takeover"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// upgrade has a proxy with these settings take over from another one, by the admin socket, as 'wsbouncer serve --take-over' does. The other one drains
// until the test ends.
func upgrade(t *testing.T, old *Proxy, s Settings) *Proxy {
	t.Helper()
	operator, err := client.New("unix:"+s.AdminSocket, s.Token)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	nc, err := operator.TakeOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := takeover.Ask(t.Context(), nc, s.Itself("v1.2.4"))
	if err != nil {
		t.Fatal(err)
	}
	s.Inherited, s.Held = taken.Sockets, true
	p, err := Start(t.Context(), s, "v1.2.4", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown() })
	if err := taken.Ready(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	p.Accept()
	before, err := taken.Serving(p.Kept())
	if err != nil {
		t.Fatal(err)
	}
	p.Lend(before)
	<-old.TakenOver()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		old.DrainTakenOver(t.Context())
		old.Close()
	}()
	t.Cleanup(func() { <-drained })
	return p
}

// After an upgrade without a token, clients come back to the sessions of the old process, and commands reach it: processes of one directory find each
// other's admin sockets, and the kernel says whose they are.
func TestUpgradeReachesSessions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Settings){
		"a socket only":             func(*Settings) {},
		"a loopback address":        func(s *Settings) { s.Admin = "127.0.0.1:0" },
		"a socket only and a token": func(s *Settings) { s.Tokens, s.AdminToken = settings.Tokens{Token: "s3cret"}, "env:X" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := DefaultSettings()
			s.Listen, s.Backends, s.Connections = []string{"127.0.0.1:0"}, []string{wstest.StartLibraryServer(t, wstest.LibraryEcho).URL}, 6
			s.StateDirectory, s.DrainTimeout, s.Service.Reconnect = t.TempDir(), 0, time.Hour
			s.AdminSocket = filepath.Join(s.StateDirectory, "admin.sock")
			change(&s)
			old, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			wstest.Eventually(t, "the old process is ready", func() bool { return old.Stats().Backends[0].Idle > 0 })
			comes := func(want int, header ...string) (*wstest.Peer, http.Header) {
				t.Helper()
				p := wstest.Dial(t, old.Addresses()[0].String(), wstest.UpgradeRequest("/", header...))
				answer := p.Response()
				if answer.StatusCode != want {
					t.Fatalf("status %d; want %d", answer.StatusCode, want)
				}
				return p, answer.Header
			}
			lost := func(n uint64) {
				t.Helper()
				wstest.Eventually(t, "the client is lost", func() bool { return old.Stats().Sessions.Reconnects.Lost == n })
			}
			phone, answer := comes(http.StatusSwitchingProtocols)
			phone.Send(frame.Text, "one")
			phone.Expect(frame.Text, "one")
			next := upgrade(t, old, s)
			phone.Reset()
			lost(1)
			phone, answer = comes(http.StatusSwitchingProtocols, "Wsbouncer-Resume: "+answer.Get("Wsbouncer-Resume"), "Wsbouncer-Received: 1")
			phone.Send(frame.Text, "two")
			expectText(t, phone, "two")
			phone.Reset() // over both connections
			lost(2)
			comes(http.StatusSwitchingProtocols, "Wsbouncer-Resume: "+answer.Get("Wsbouncer-Resume"), "Wsbouncer-Received: 2")

			operator, err := client.Open("unix:"+s.AdminSocket, client.Options{Token: s.Token, Fleet: true})
			if err != nil {
				t.Fatal(err)
			}
			defer operator.Close()
			var list api.SessionList
			if err := operator.Get(t.Context(), api.SessionsPath, nil, &list); err != nil || len(list.Sessions) != 1 || len(list.Missing) > 0 {
				t.Fatalf("%+v, %v", list, err)
			}
			// The old process, asked where it answers alone, finds the new one, too.
			own := old.OwnAddresses()
			alone, err := client.Open(own[len(own)-1], client.Options{Token: s.Token, Fleet: true})
			if err != nil {
				t.Fatal(err)
			}
			defer alone.Close()
			var f api.Fleet
			if err := alone.Get(t.Context(), api.ProxiesPath, nil, &f); err != nil || len(f.Missing) > 0 || len(f.Proxies) != 2 {
				t.Errorf("%+v, %v", f, err)
			}
			var outcome api.Outcome
			kill := client.Request{Method: http.MethodDelete, Path: api.SessionsPath + "/" + list.Sessions[0].ID, Body: api.Order{Who: "alice"}}
			if err := operator.Do(t.Context(), kill, &outcome); err != nil {
				t.Errorf("%+v, %v", outcome, err)
			}
			wstest.Eventually(t, "the session is ended", func() bool { return old.sessions.Active() == 0 })
			if r := next.Stats().Sessions.Reconnects; r.Forwarded != 2 || r.Refused != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The clients that wait for a connection have no more time after an upgrade than sessions.
func TestUpgradeEndsWaits(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.Listen, s.Backends, s.Connections = []string{"127.0.0.1:0"}, []string{wstest.StartLibraryServer(t, wstest.LibraryEcho).URL}, 1
	s.StateDirectory, s.DrainTimeout, s.UpgradeDrainTimeout, s.Service.QueueTimeout = t.TempDir(), 0, time.Millisecond, time.Hour
	s.AdminSocket = filepath.Join(s.StateDirectory, "admin.sock")
	old, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := wstest.Dial(t, old.Addresses()[0].String(), wstest.UpgradeRequest("/"))
	first.ExpectUpgrade()
	waiter := wstest.Dial(t, old.Addresses()[0].String(), wstest.UpgradeRequest("/"))
	wstest.Eventually(t, "a client waits", func() bool { return old.sessions.Arriving() == 1 })
	upgrade(t, old, s)
	if answer := waiter.Response(); answer.StatusCode != http.StatusServiceUnavailable {
		t.Error(answer.Status)
	}
	first.ExpectClose(frame.GoingAway, shuttingDown)
	_ = first.Close()
}
