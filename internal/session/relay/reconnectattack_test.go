package relay

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A server that was not read because its client was slow is read on while the client is away, as far as there is room.
func TestServerOfParkedIsRead(t *testing.T) {
	r, client, _, server := newReturning(t)
	_ = server.SetDeadline(time.Time{})
	go func() {
		message := wstest.ServerFrame(true, frame.Binary, make([]byte, 200<<10))
		for {
			if _, err := server.Conn.Write(message); err != nil {
				return
			}
		}
	}()
	stopped := func() (stopped bool) {
		r.on(func(s *Session) { stopped = s.leg.conn != nil && s.leg.conn.Stream().Paused() })
		return stopped
	}
	wstest.Eventually(t, "the server is not read", stopped)
	client.Reset()
	r.parked(1)
	wstest.Eventually(t, "the server is read until no more is kept", func() (full bool) {
		r.on(func(s *Session) { full = s.client.Pending() > 0 })
		return full
	})
	r.sessions.EndAll(frame.GoingAway, "the test is over")
}

// A client that comes back is granted the subprotocol that it was granted first.
func TestComesBackWithSubprotocol(t *testing.T) {
	r := newRig(t, setup{Script: &wstest.Server{Protocol: "speech"}, Service: reconnects})
	r.Ready(1)
	client, answer := r.comes("Sec-WebSocket-Protocol: other, speech")
	r.Accepted()
	for range 2 {
		client.Reset()
		r.parked(1)
		token := answer.Get("Wsbouncer-Resume")
		client, answer = r.comes("Sec-WebSocket-Protocol: other, speech, wsbouncer-resume." + token)
		if got := answer.Get("Sec-WebSocket-Protocol"); got != "speech" {
			t.Errorf("granted %q", got)
		}
	}
}

// Tokens that are good for nothing say nothing about who comes with them: after a restart all clients do, perhaps from one address.
func TestOldTokensAreNoGuesses(t *testing.T) {
	guard := auth.NewGuard(limits.Rate{N: 5, Per: time.Minute}, nil, time.Now)
	r := newRig(t, setup{
		Service: func(s *route.Service) { s.Reconnect, s.Auth = time.Minute, new(auth.Policy) },
		Gate:    func(o *admission.Options) { o.AuthGuard = guard },
	})
	r.Service.Auth = nil
	r.SetServices([]*route.Service{r.Service})
	for range 20 {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+strings.Repeat("x", 30)))
		if response.StatusCode != http.StatusGone {
			t.Errorf("status %d", response.StatusCode)
		}
		_ = p.Close()
	}
	if stats := guard.Stats(); stats.Suspects != 0 {
		t.Errorf("%+v", stats)
	}
}

// A token is good only with the credential that its session began with, also where no client has a name.
func TestTokensAreBoundToCredentials(t *testing.T) {
	r := newRig(t, setup{Service: func(s *route.Service) {
		reconnects(s)
		s.Auth = policyOf(t, "header", fixedMethod{})
	}})
	r.Ready(1)
	client, answer := r.comes("Authorization: Bearer k1")
	r.Accepted()
	client.Reset()
	r.parked(1)
	with := "Wsbouncer-Resume: " + answer.Get("Wsbouncer-Resume")
	p, response := r.Request(wstest.UpgradeRequest("/v1/test", with, "Authorization: Bearer k2"))
	if response.StatusCode != http.StatusGone {
		t.Errorf("another credential: status %d", response.StatusCode)
	}
	_ = p.Close()
	r.comes(with, "Authorization: Bearer k1")
}

// Many come with the same token at once: one has the session afterwards, and the others are told so.
func TestManyTakeOver(t *testing.T) {
	r := newRig(t, setup{Service: reconnects, Loops: 2})
	r.Ready(1)
	_, answer := r.comes()
	server := r.Accepted()
	token := answer.Get("Wsbouncer-Resume")
	var all sync.WaitGroup
	var accepted, gone atomic.Int64
	for range 20 {
		all.Go(func() {
			for range 20 {
				p, err := r.TryConnect()
				if err != nil {
					t.Error(err)
					return
				}
				p.SendBytes([]byte(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+token)))
				switch response, err := p.TryResponse(); {
				case err != nil:
				case response.StatusCode == http.StatusSwitchingProtocols:
					accepted.Add(1)
				case response.StatusCode == http.StatusGone:
					gone.Add(1)
				}
				_ = p.Close()
			}
		})
	}
	all.Wait()
	if accepted.Load() == 0 {
		t.Error("no one got the session")
	}
	client, _ := r.comes("Wsbouncer-Resume: " + token)
	client.Send(frame.Text, "I have it")
	server.Expect(frame.Text, "I have it")
	if stats := r.sessions.lines.Stats(); stats.Lines != 1 || stats.Parked != 0 {
		t.Errorf("%+v", stats)
	}
}

// Whatever a client comes with, it gets its own session or an answer.
func TestHostileReturns(t *testing.T) {
	r := newRig(t, setup{Service: reconnects, Other: new(wstest.Server)})
	r.Ready(1)
	client, answer := r.comes()
	server := r.Accepted()
	token := answer.Get("Wsbouncer-Resume")
	server.Send(frame.Text, "one")
	client.Expect(frame.Text, "one")
	client.Reset()
	r.parked(1)
	own, other := "Wsbouncer-Resume: "+token, "Wsbouncer-Resume: x."+token
	for _, c := range []struct {
		name, path string
		header     []string
		status     int
	}{
		{"more than was sent", "/v1/test", []string{own, "Wsbouncer-Received: 2"}, 400},
		{"far more", "/v1/test", []string{own, "Wsbouncer-Received: 9223372036854775807"}, 400},
		{"too many digits", "/v1/test", []string{own, "Wsbouncer-Received: 99999999999999999999"}, 400},
		{"less than nothing", "/v1/test", []string{own, "Wsbouncer-Received: -1"}, 400},
		{"no number", "/v1/test", []string{own, "Wsbouncer-Received: x"}, 400},
		{"another one first", "/v1/test", []string{other, own}, 410},
		{"another one in the header", "/v1/test?wsbouncer-resume=" + token, []string{other}, 410},
		{"a part of it", "/v1/test", []string{own[:len(own)-1]}, 410},
		{"a huge query", "/v1/test?wsbouncer-resume=" + strings.Repeat("x", 3000), nil, 410},
		{"a larger one", "/v1/test?wsbouncer-resume=" + strings.Repeat("x", 30_000), nil, 431},
	} {
		p, response := r.Request(wstest.UpgradeRequest(c.path, c.header...))
		if response.StatusCode != c.status {
			t.Errorf("%s: status %d; want %d", c.name, response.StatusCode, c.status)
		}
		_ = p.Close()
	}
	if all := r.sessions.List(); len(all) != 1 || all[0].State != StateParked {
		t.Errorf("shown as %v", all)
	}
	client, _ = r.back(token, "0", "0", "0")
	expect(t, client, frame.Text, "one")
	if all := r.sessions.List(); len(all) != 1 || all[0].State != "relaying" {
		t.Errorf("shown as %v", all)
	}
}

// An operator ends a session that waits for its client, who is told when it comes; the process ends, and nothing waits.
func TestParkedEnds(t *testing.T) {
	r := newRig(t, setup{Service: reconnects, Cap: 2})
	r.Ready(2)
	client, answer := r.comes()
	r.Accepted()
	client.Reset()
	r.parked(1)
	r.each(func(s *Session) { s.End(meter.Killed, frame.ServiceRestart, KillReason("")) })
	wstest.Eventually(t, "the session ends", func() bool { return r.sessions.Active() == 0 })
	client, _ = r.comes("Wsbouncer-Resume: " + answer.Get("Wsbouncer-Resume"))
	client.ExpectClose(frame.ServiceRestart, KillReason(""))
	client.SendClose(frame.ServiceRestart, "") // otherwise it could have lost the end, too
	_ = client.Close()
	wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
	client, _ = r.comes()
	client.Reset()
	r.parked(1)
	r.sessions.EndAll(frame.GoingAway, "shutting down")
	wstest.Eventually(t, "no session waits", func() bool { return r.sessions.Active() == 0 })
	r.sessions.lines.Close()
	wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
}

// Many clients are lost at once and come back at once, over several loops.
func TestAllLostAndBack(t *testing.T) {
	n := lostAtOnce
	r := newRig(t, setup{Profile: "echo", Cap: n, Loops: 2, Script: &wstest.Server{Serve: wstest.Echo}, Service: reconnects})
	r.Ready(n)
	clients, tokens := make([]*wstest.Peer, n), make([]string, n)
	for i := range n {
		client, answer := r.comes()
		client.Ask("hello")
		clients[i], tokens[i] = client, answer.Get("Wsbouncer-Resume")
	}
	for _, c := range clients {
		c.Reset()
	}
	r.parked(n)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range n {
		all.Go(func() {
			p, err := r.TryConnect()
			if err != nil {
				t.Error(err)
				return
			}
			clients[i] = p
			p.SendBytes([]byte(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+tokens[i], "Wsbouncer-Received: 1")))
			if response, err := p.TryResponse(); err != nil || response.Header.Get("Wsbouncer-Received") != "1" {
				t.Errorf("%v, %v", response, err)
			}
		})
	}
	all.Wait()
	t.Logf("%d clients are back after %v", n, time.Since(begun))
	if stats := r.sessions.lines.Stats(); fmt.Sprint(stats) != fmt.Sprintf("{%d 0 %d %d 0 0}", n, n, n) {
		t.Errorf("%+v", stats)
	}
	for _, c := range clients {
		c.Send(frame.Text, "again")
		expect(t, c, frame.Text, "again")
		_ = c.Close()
	}
	r.parked(n)
	r.sessions.EndAll(frame.GoingAway, "")
	r.sessions.lines.Close()
	wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 && r.Arena.Used() == 0 })
}

// lostAtOnce is small for the sake of busy machines.
const lostAtOnce = 100
