package app

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// elsewhere is a fleet of two: the first has a session whose client comes back to the second.
type elsewhere struct {
	t       *testing.T
	proxies [2]*Proxy
	ledgers [2]ledger
	view    agent.Status // that both have, but for Self
}

func newElsewhere(t *testing.T, secured bool, change func(i int, s *Settings)) *elsewhere {
	t.Helper()
	e := &elsewhere{t: t, view: agent.Status{Mode: agent.Shared}}
	server := wstest.StartLibraryServer(t, wstest.LibraryEcho)
	authority := securetest.NewAuthority(t)
	for i := range e.proxies {
		s := DefaultSettings()
		s.Listen, s.Admin, s.Backends, s.DrainTimeout = []string{"127.0.0.1:0"}, "127.0.0.1:0", []string{server.URL}, 0
		s.Fleet, s.ledger, s.Service.Reconnect = settings.Off, &e.ledgers[i], time.Minute
		s.Tokens, s.AdminToken = settings.Tokens{Token: "s3cret"}, "env:X"
		if secured {
			s.AdminTLSCert, s.AdminTLSKey = securetest.Files(t, authority.Issue(nil, "fleet.example.org")) // as several pods have it
			s.FleetServerName = "fleet.example.org"
		}
		change(i, &s)
		p, err := Start(t.Context(), s, "v1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if secured {
			p.fleetCA = authority.Pool()
		}
		t.Cleanup(func() {
			if end := p.end.Load(); end == nil || end.began.IsZero() { // the test has not ended it
				p.Shutdown()
			}
		})
		e.proxies[i] = p
		m := fleet.Member{ID: fleet.ID("ab"[i : i+1]), Name: "proxy", Address: p.adminURL(p.AdminAddress()), Host: "h", Process: string(p.process[:])}
		e.view.Members = append(e.view.Members, m)
		p.announced.Store(m.Address, struct{}{})
	}
	e.tell()
	return e
}

// tell tells both proxies the view.
func (e *elsewhere) tell() {
	for i := range e.ledgers {
		own := e.view
		own.Self, own.Members = own.Members[i].ID, slices.Clone(own.Members)
		e.ledgers[i].view.Store(&own)
	}
}

// comes connects a client to a proxy.
func (e *elsewhere) comes(i, want int, header ...string) (*wstest.Peer, http.Header) {
	e.t.Helper()
	p := wstest.Dial(e.t, e.proxies[i].Addresses()[0].String(), wstest.UpgradeRequest("/", header...))
	answer := p.Response()
	if answer.StatusCode != want {
		e.t.Fatalf("status %d; want %d", answer.StatusCode, want)
	}
	return p, answer.Header
}

// reconnects waits until the first proxy has counted what came back, and what broke.
func (e *elsewhere) reconnects(resumed, lost uint64) {
	e.t.Helper()
	wstest.Eventually(e.t, "the session is resumed and lost", func() bool {
		r := e.proxies[0].Stats().Sessions.Reconnects
		return r.Resumed == resumed && r.Lost == lost
	})
}

// begin begins a session at the first proxy, whose client breaks off in the middle of a message. It returns the token.
func (e *elsewhere) begin() (token string) {
	e.t.Helper()
	wstest.Eventually(e.t, "the first proxy is ready", func() bool { return e.proxies[0].Stats().Backends[0].Idle > 0 })
	client, answer := e.comes(0, http.StatusSwitchingProtocols)
	client.Send(frame.Text, "one")
	client.Expect(frame.Text, "one")
	client.SendBytes(wstest.ClientFrame(true, frame.Text, "two")[:7])
	client.Reset()
	e.reconnects(0, 1)
	return answer.Get("Wsbouncer-Resume")
}

// expectText expects a text behind pings, which it answers, and notes of what the session has got.
func expectText(t *testing.T, p *wstest.Peer, want string) {
	t.Helper()
	for {
		h, payload, err := p.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case h.Opcode == frame.Ping:
			p.Send(frame.Pong, string(payload))
			continue
		case strings.HasPrefix(string(payload), `{"wsbouncer":{"received":`):
			continue
		case h.Opcode != frame.Text || string(payload) != want:
			t.Fatalf("%+v %q; want %q", h, payload, want)
		}
		return
	}
}

// A client that comes to another proxy is forwarded, in whatever way its connection broke, and both proxies take a break for a break.
func TestForwarded(t *testing.T) {
	t.Parallel()
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newElsewhere(t, secured, func(int, *Settings) {})
			token := e.begin()
			client, answer := e.comes(1, http.StatusSwitchingProtocols, "Wsbouncer-Resume: "+token, "Wsbouncer-Received: 1")
			if got := answer.Get("Wsbouncer-Received") + answer.Get("Wsbouncer-Sent"); got != "11" {
				t.Errorf("received and sent %s; want 11", got)
			}
			client.Send(frame.Text, "two")
			expectText(t, client, "two")
			client.SendBytes(wstest.ClientFrame(true, frame.Text, "three")[:9])
			client.Reset()
			e.reconnects(1, 2)
			token = answer.Get("Wsbouncer-Resume")
			offer := "Sec-WebSocket-Protocol: wsbouncer.v1, wsbouncer-resume." + token + ", wsbouncer-received.2"
			client, answer = e.comes(1, http.StatusSwitchingProtocols, offer)
			token = answer.Get("Wsbouncer-Resume")
			expectText(t, client, `{"wsbouncer":{"resume":"`+token+`","received":2,"sent":2}}`)
			client.Send(frame.Text, "three")
			expectText(t, client, "three")
			if r := e.proxies[1].Stats().Sessions.Reconnects; r.Forwarding != 1 || r.Forwarded != 2 || r.Resumed != 0 {
				t.Errorf("%+v", r)
			}
			e.proxies[1].Shutdown()
			for { // the connection breaks without a close frame
				h, _, err := client.Next()
				if err != nil {
					break
				}
				if h.Opcode == frame.Close {
					t.Fatal("a close frame")
				}
			}
			e.reconnects(2, 3)
			client, _ = e.comes(0, http.StatusSwitchingProtocols, "Wsbouncer-Resume: "+token)
			client.Send(frame.Text, "four")
			for text := ""; text != "four"; {
				_, payload, err := client.Next()
				if err != nil {
					t.Fatal(err)
				}
				text = string(payload)
			}
		})
	}
}

// A client whose proxy has a URL for clients is told to go there, unless that proxy has handed it over.
func TestRedirected(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, false, func(i int, s *Settings) {
		s.ReconnectURL = []string{"wss://a.example.com/stt/", "wss://b.example.com"}[i]
	})
	token := e.begin()
	client, answer := e.comes(1, http.StatusTemporaryRedirect, "Wsbouncer-Resume: "+token)
	if at := answer.Get("Location"); at != "wss://a.example.com/stt/" {
		t.Errorf("Location: %s", at)
	}
	_ = client.Close()
	client, _ = e.comes(1, http.StatusSwitchingProtocols, "Sec-WebSocket-Protocol: wsbouncer.v1, wsbouncer-resume."+token)
	client.Expect(frame.Text, `{"wsbouncer":{"go":"wss://a.example.com/stt/"}}`)
	client.ExpectClose(4307, "another proxy has the session")
	_ = client.Close()
	e.proxies[0].sessions.StopAccepting() // the URL leads to its successor, perhaps
	e.proxies[0].end.Store(&ending{closed: time.Now()})
	client, _ = e.comes(1, http.StatusSwitchingProtocols, "Wsbouncer-Resume: "+token, "Wsbouncer-Received: 1")
	client.Send(frame.Text, "two")
	expectText(t, client, "two")
	if r := e.proxies[1].Stats().Sessions.Reconnects; r.Redirected != 2 || r.Forwarded != 1 {
		t.Errorf("%+v", r)
	}
}

// If the proxy of a token is gone, or another program answers in its place, the client learns at once that its session is.
func TestElsewhereGone(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, false, func(int, *Settings) {})
	token := e.begin()
	gone := func(why string) {
		t.Helper()
		client, _ := e.comes(1, http.StatusGone, "Wsbouncer-Resume: "+token)
		_ = client.Close()
		client, _ = e.comes(1, http.StatusSwitchingProtocols, "Sec-WebSocket-Protocol: wsbouncer.v1, wsbouncer-resume."+token)
		client.ExpectClose(4410, "there is no such session for this credential: it has ended, or the token was used")
		_ = client.Close()
	}
	impostor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") == "Wsbouncer-Fleet" {
			w.Header().Set("WWW-Authenticate", "Wsbouncer-Fleet AAAA")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"kind":"refused","text":"prove it"}}`)
			return
		}
		w.Header().Set("Location", "wss://elsewhere.example.com")
		w.Header().Set(api.ProofHeader, "AAAA")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(impostor.Close)
	at := e.view.Members[0].Address
	e.view.Members[0].Address = impostor.URL
	e.tell()
	gone("what answers does not know the fleet's token")
	e.view.Members[0].Address = at
	e.proxies[0].Shutdown()
	gone("it does not answer")
	e.view.Members[0].Process = "other234"
	e.tell()
	gone("it is not known")
	if r := e.proxies[1].Stats().Sessions.Reconnects; r.Refused != 6 || r.Forwarded != 0 {
		t.Errorf("%+v", r)
	}
}

// A client cannot forward itself: what it writes into its request is not believed, and the admin API wants the proof of a proxy.
func TestForgedForward(t *testing.T) {
	t.Parallel()
	e := newElsewhere(t, false, func(int, *Settings) {})
	body := `{"address":"192.0.2.7:5000"}`
	request := "POST " + api.ForwardPath + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: " + api.ForwardProtocol + "\r\n" + api.PeerHeader +
		": b\r\n" + api.ForHeader + ": a\r\nContent-Type: application/json\r\nContent-Length: 28\r\n"
	p := wstest.Dial(t, e.proxies[0].AdminAddress().String(), request+"Authorization: Bearer "+e.proxies[0].settings.Token+"\r\n\r\n"+body)
	if answer := p.Response(); answer.StatusCode != http.StatusBadRequest { // an operator is no proxy
		t.Error(answer.Status)
	}
	_ = p.Close()
	for at, want := range map[string]int{
		e.proxies[0].Addresses()[0].String(): http.StatusUpgradeRequired, e.proxies[0].AdminAddress().String(): http.StatusUnauthorized,
	} {
		for _, credential := range []string{"", "Authorization: Wsbouncer-Fleet YQ.YQ.1.YQ\r\n", "Authorization: Bearer wrong\r\n"} {
			p := wstest.Dial(t, at, request+credential+"\r\n"+body)
			if answer := p.Response(); answer.StatusCode != want {
				t.Errorf("%q: %s; want %d", credential, answer.Status, want)
			}
			_ = p.Close()
		}
	}
	now := e.proxies[0].live.Load()
	e.proxies[0].Reconfigure(now.Settings, settings.Tokens{}) // no token proves anything now
	forged := httptest.NewRequest(http.MethodPost, api.ForwardPath, nil)
	forged.Header.Set("Authorization", "Wsbouncer-Fleet YQ.YQ.1.YQ")
	if _, _, _, err := e.proxies[0].takeForwarded(forged, &api.ForwardedClient{Address: "192.0.2.7:5000"}); err == nil {
		t.Error("without a token, a client is forwarded by what is not known to be of the proxy's user")
	}
	wstest.Eventually(t, "the first proxy is ready", func() bool { return e.proxies[0].Stats().Backends[0].Idle > 0 })
	client, _ := e.comes(0, http.StatusSwitchingProtocols, api.PeerHeader+": b", api.ForHeader+": a", "Forwarded: for=192.0.2.7", "Upgrade: "+api.ForwardProtocol)
	client.Send(frame.Text, "one")
	expectText(t, client, "one")
	if all := e.proxies[0].allSessions(); len(all) != 1 || !strings.HasPrefix(all[0].Client, "127.0.0.1:") {
		t.Errorf("%+v", all)
	}
}

// A proxy that ends waits for lost clients as long as they can come back: by way of another proxy.
func TestDrainWithLostClients(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alone", "with another proxy", "with one that cannot reach it"} {
		t.Run(name, func(t *testing.T) {
			comes := name == "with another proxy"
			t.Parallel()
			e := newElsewhere(t, false, func(_ int, s *Settings) { s.DrainTimeout, s.Service.Reconnect = time.Hour, time.Hour })
			token := e.begin()
			switch name {
			case "alone":
				view := e.view
				view.Self, view.Members = view.Members[0].ID, view.Members[:1]
				e.ledgers[0].view.Store(&view)
			case "with one that cannot reach it":
				e.view.Members[0].Address = ""
				e.tell()
			}
			drained := make(chan bool, 1)
			go func() { drained <- e.proxies[0].Drain() }()
			if comes {
				wstest.Eventually(t, "the proxy drains", func() bool { end := e.proxies[0].end.Load(); return end != nil && !end.closed.IsZero() })
				client, _ := e.comes(1, http.StatusSwitchingProtocols, "Wsbouncer-Resume: "+token, "Wsbouncer-Received: 1")
				client.Send(frame.Text, "two")
				expectText(t, client, "two")
				client.SendClose(frame.NormalClosure, "")
			}
			select {
			case clean := <-drained:
				if !clean {
					t.Error("sessions did not finish by themselves")
				}
			case <-time.After(wstest.Timeout):
				t.Error("the proxy waits on")
			}
			e.proxies[0].Close()
		})
	}
}
