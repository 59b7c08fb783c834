package relay

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

const withKeys = `
profiles:
  p:
    from: one-shot
    predial: never
    variant: {private: {query: ["*"], headers: [Authorization]}}`

// wantsKey refuses clients without the key as hosted services do.
func wantsKey(req *handshake.Request) *handshake.Refusal {
	if req.Header.Get("Authorization") == "Token good" {
		return nil
	}
	return &handshake.Refusal{
		Status: http.StatusUnauthorized, Header: http.Header{"Content-Type": {"application/json"}, "Dg-Error": {"bad key"}},
		Body: []byte(`{"err_code":"INVALID_AUTH"}`),
	}
}

// A server that refuses a client's key has answered that client, which gets the answer as it is. The server serves all others
// as before, however often that happens.
func TestBadKeyHarmsNoOther(t *testing.T) {
	r := newRig(t, setup{Cap: 4, Queue: 8, Script: &wstest.Server{Answer: wstest.AcceptUnless(wantsKey)}, Backend: withYAML(t, withKeys)})
	good := r.askFor("", "Authorization: Token good")
	server := r.Accepted()
	talk(t, good, server, "before")
	for range 20 {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Authorization: Token bad"))
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusUnauthorized || string(body) != `{"err_code":"INVALID_AUTH"}` ||
			response.Header.Get("Content-Type") != "application/json" || response.Header.Get("Dg-Error") != "bad key" {
			t.Fatalf("%s, %v, %q, %v; want the server's answer", response.Status, response.Header, body, err)
		}
		_ = p.Close()
	}
	h, s := r.Backend.Health(), r.Backend.Stats()
	if h.Circuit != "closed" || h.CircuitOpened != 0 || !h.Reachable || s.Totals.DialFailed != 0 || s.Totals.Refused != 20 {
		t.Errorf("health %+v, stats %+v", h, s)
	}
	if n := r.Script.Counts().Upgrades; n != 21 {
		t.Errorf("%d upgrade requests for 21 clients", n)
	}
	other := r.askFor("", "Authorization: Token good")
	talk(t, other, r.Accepted(), "after")
	talk(t, good, server, "still")
	if q := r.Group.Queue(); q.Totals.Refused != 20 || q.Waiting != 0 {
		t.Errorf("queue: %+v", q)
	}
}

// So has a server that neither accepts the client nor refuses it as HTTP would: it sends it to another address, sends a page, or chooses a
// subprotocol that the client does not offer. Its client gets 502 at once, and nobody is in its way.
func TestOddAnswerHarmsNoOther(t *testing.T) {
	refused := func(status int, header http.Header, body string) wstest.Answer {
		return wstest.AcceptUnless(func(*handshake.Request) *handshake.Refusal {
			return &handshake.Refusal{Status: status, Header: header, Body: []byte(body)}
		})
	}
	const notOffered = "server chose a subprotocol or an extension that its client did not offer\n"
	for name, c := range map[string]struct {
		answer wstest.Answer
		body   string // of the client's answer
	}{
		"redirect":    {refused(http.StatusTemporaryRedirect, http.Header{"Location": {"/v1/test/"}}, "see there"), "see there"},
		"page":        {refused(http.StatusOK, http.Header{"Content-Type": {"text/html"}}, "<html>"), "<html>"},
		"subprotocol": {wstest.Accept("other"), notOffered},
		"unasked":     {wstest.Accept("other"), notOffered}, // by a client that offers none
	} {
		t.Run(name, func(t *testing.T) {
			accept := wstest.Accept("")
			r := newRig(t, setup{
				Cap: 4, Queue: 8, Backend: withYAML(t, withKeys),
				Script: &wstest.Server{Answer: func(nc net.Conn, req *handshake.Request) bool {
					if req.Header.Get("Authorization") == "Token good" {
						return accept(nc, req)
					}
					return c.answer(nc, req)
				}},
				Service: func(s *route.Service) {
					s.Passing = &profile.HandshakePolicy{Profile: s.Profile, Pass: profile.PassRules{Headers: []string{"Authorization"}, Subprotocol: true}}
				},
			})
			r.Service.Passing.Profile = r.Service.Profile
			for range 20 {
				fields := []string{"Authorization: Token bad", "Sec-WebSocket-Protocol: mine"}
				if name == "unasked" {
					fields = fields[:1]
				}
				p, response := r.Request(wstest.UpgradeRequest("/v1/test", fields...))
				body, err := io.ReadAll(response.Body)
				if err != nil || response.StatusCode != http.StatusBadGateway || string(body) != c.body {
					t.Fatalf("%s, %q, %v", response.Status, body, err)
				}
				_ = p.Close()
				if c.body == notOffered { // the server has taken the connection for open
					_ = r.Accepted().Close()
				}
			}
			talk(t, r.askFor("", "Authorization: Token good"), r.Accepted(), "good")
			wstest.Eventually(t, "the proxy has noted that the server can be reached", func() bool { return r.Backend.Health().Reachable })
			h, s := r.Backend.Health(), r.Backend.Stats()
			if h.Circuit != "closed" || h.CircuitOpened != 0 || s.Totals.DialFailed != 0 || s.Totals.Refused != 20 {
				t.Errorf("health %+v, stats %+v", h, s)
			}
			if n := r.Script.Counts().Upgrades; n != 21 {
				t.Errorf("%d upgrade requests for 21 clients", n)
			}
		})
	}
}

// A server that closes the connection in answer to one client's own values harms only that client, which waits and asks again: the circuit stays
// closed, and others get their sessions immediately.
func TestNoAnswerHarmsNoOther(t *testing.T) {
	accept := wstest.Accept("")
	r := newRig(t, setup{
		Cap: 8, Queue: 8, Backend: withYAML(t, withKeys),
		Script: &wstest.Server{Answer: func(nc net.Conn, req *handshake.Request) bool {
			if req.Header.Get("Authorization") == "Token good" {
				return accept(nc, req)
			}
			_ = nc.Close()
			return false
		}},
		Service: func(s *route.Service) {
			s.QueueTimeout = 500 * time.Millisecond
			s.Passing = &profile.HandshakePolicy{Profile: s.Profile, Pass: profile.PassRules{Headers: []string{"Authorization"}}}
		},
	})
	r.Service.Passing.Profile = r.Service.Profile
	good := func(ip string) {
		t.Helper()
		client := wstest.DialFrom(t, ip, r.Address, wstest.UpgradeRequest("/v1/test", "Authorization: Token good"))
		client.ExpectUpgrade()
		talk(t, client, r.Accepted(), "good")
	}
	good("127.0.1.1")
	var refused sync.WaitGroup
	for range 5 { // as many as open the circuit
		refused.Go(func() {
			_, response := r.Request(wstest.UpgradeRequest("/v1/test", "Authorization: Token bad"))
			if response.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("the client got %s", response.Status)
			}
		})
	}
	wstest.Eventually(t, "the server has been asked often", func() bool { return r.Backend.Stats().Totals.Refused >= 5 })
	good("127.0.2.1")
	refused.Wait()
	good("127.0.3.1")
	if h, s := r.Backend.Health(), r.Backend.Stats(); h.Circuit != "closed" || h.CircuitOpened != 0 || s.Totals.DialFailed != 0 {
		t.Errorf("health %+v, stats %+v", h, s)
	}
}

// A server that gives a client's upgrade no answer has failed, also if that client did not wait for it.
func TestNoAnswerAfterClientLeft(t *testing.T) {
	asked, left := make(chan struct{}, 16), make(chan struct{})
	r := newRig(t, setup{
		Cap: 1, Queue: 1,
		Script: &wstest.Server{Answer: func(nc net.Conn, req *handshake.Request) bool {
			if req.Header.Get("Authorization") != "" {
				asked <- struct{}{}
				<-left
			}
			_ = nc.Close()
			return false
		}},
		Backend: func(o *backend.Options) {
			withYAML(t, withKeys)(o)
			o.CircuitFailures, o.Settings.Warm = 1, 0
		},
	})
	p := r.Connect(wstest.UpgradeRequest("/v1/test", "Authorization: Token mine"))
	<-asked
	p.Reset()
	wstest.Eventually(t, "nobody waits", func() bool { return r.Group.Queue().Waiting == 0 && r.Gate.Arriving() == 0 })
	close(left)
	wstest.Eventually(t, "the circuit opens", func() bool { return r.Backend.Health().CircuitOpened == 1 })
}

// A status that HTTP does not have reaches the client as 502, with the rest of the server's answer.
func TestUnknownStatusOfServer(t *testing.T) {
	unknown := func(*handshake.Request) *handshake.Refusal {
		return &handshake.Refusal{Status: 999, Header: http.Header{"Dg-Error": {"bad key"}}, Body: []byte("request denied")}
	}
	r := newRig(t, setup{Cap: 4, Queue: 8, Script: &wstest.Server{Answer: wstest.AcceptUnless(unknown)}, Backend: withYAML(t, withKeys)})
	p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Authorization: Token mine"))
	defer p.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusBadGateway || string(body) != "request denied" || response.Header.Get("Dg-Error") != "bad key" {
		t.Errorf("%s, %v, %q, %v", response.Status, response.Header, body, err)
	}
}

// A circuit that was open closes when the server answers again, even if it refuses the trial because that bears no key.
func TestTrialWithoutKeyClosesCircuit(t *testing.T) {
	down := make(chan struct{})
	refuse := func(req *handshake.Request) *handshake.Refusal {
		select {
		case <-down:
			return wantsKey(req)
		default:
			return &handshake.Refusal{Status: http.StatusBadGateway, Reason: "starting"}
		}
	}
	r := newRig(t, setup{Cap: 1, Queue: 1, Script: &wstest.Server{Answer: wstest.AcceptUnless(refuse)}, Backend: func(o *backend.Options) {
		withYAML(t, withKeys)(o)
		o.CircuitFailures = 1
	}})
	p := r.Connect(wstest.UpgradeRequest("/v1/test", "Authorization: Token good"))
	wstest.Eventually(t, "the circuit opens", func() bool { return r.Backend.Health().CircuitOpened == 1 })
	close(down)
	p.ExpectUpgrade()
	talk(t, p, r.Accepted(), "back")
	if h := r.Backend.Health(); h.Circuit != "closed" {
		t.Errorf("health: %+v", h)
	}
}

// Dialing ahead without a key, where the server wants one, stops for a while. It opens no circuit, and clients with a key are
// served.
func TestDialingAheadWithoutKeyHarmsNoClient(t *testing.T) {
	ahead := strings.Replace(withKeys, "predial: never", "predial: idle", 1)
	r := newRig(t, setup{Cap: 2, Queue: 8, Script: &wstest.Server{Answer: wstest.AcceptUnless(wantsKey)}, Backend: func(o *backend.Options) {
		withYAML(t, ahead)(o)
		o.CircuitFailures = 1
	}})
	for range 5 {
		client := r.askFor("", "Authorization: Token good")
		server := r.Accepted()
		talk(t, client, server, "hello")
		_ = client.Close()
		_ = server.Close()
	}
	wstest.Eventually(t, "the leases end", func() bool { s := r.Backend.Stats(); return s.Used() == 0 })
	if n := r.Script.Counts().Upgrades; n > 5+4 { // two are dialed ahead at once, and none again
		t.Errorf("%d upgrade requests for 5 clients", n)
	}
	if h := r.Backend.Health(); h.CircuitOpened != 0 {
		t.Errorf("health: %+v", h)
	}
}

// A client without a key that the server wants gets the server's answer, and does not have the server dialed again and again.
func TestNoKeyHarmsNoOther(t *testing.T) {
	shared := strings.NewReplacer("from: one-shot", "from: echo", "predial: never", "predial: idle").Replace(withKeys)
	r := newRig(t, setup{Cap: 2, Queue: 8, Script: &wstest.Server{Answer: wstest.AcceptUnless(wantsKey)}, Backend: withYAML(t, shared)})
	for range 5 {
		p, response := r.Request(wstest.UpgradeRequest("/v1/test"))
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusUnauthorized || string(body) != `{"err_code":"INVALID_AUTH"}` {
			t.Fatalf("%s, %q, %v; want the server's answer", response.Status, body, err)
		}
		_ = p.Close()
	}
	if n := r.Script.Counts().Upgrades; n > 5+2 { // two are dialed ahead
		t.Errorf("%d upgrade requests for 5 clients", n)
	}
	talk(t, r.askFor("", "Authorization: Token good"), r.Accepted(), "after")
	if h, q := r.Backend.Health(), r.Group.Queue(); h.Circuit != "closed" || h.CircuitOpened != 0 || q.Totals.Refused != 5 || q.Waiting != 0 {
		t.Errorf("health %+v, queue %+v", h, q)
	}
}

// What a server says right behind its 101, and its end, belong to the client that the connection was dialed for. It is not
// asked again for that client.
func TestRefusedBehindUpgrade(t *testing.T) {
	closing := wstest.ServerFrame(true, frame.Close, frame.AppendClosePayload(nil, frame.PolicyViolation, "bad key"))
	says := wstest.ServerFrame(true, frame.Text, `{"type":"error"}`)
	long := wstest.ServerFrame(true, frame.Binary, make([]byte, 300<<10))
	for name, c := range map[string]struct {
		greeting []byte
		expect   func(*wstest.Peer)
	}{
		"message and close": {append(says[:len(says):len(says)], closing...), func(p *wstest.Peer) {
			p.Expect(frame.Text, `{"type":"error"}`)
			p.ExpectClose(frame.PolicyViolation, "bad key")
		}},
		"close":                {closing, func(p *wstest.Peer) { p.ExpectClose(frame.PolicyViolation, "bad key") }},
		"close without a code": {wstest.ServerFrame(true, frame.Close, ""), func(p *wstest.Peer) { p.Expect(frame.Close, "") }},
		"a long message and close": {append(long[:len(long):len(long)], closing...), func(p *wstest.Peer) {
			p.Expect(frame.Binary, string(make([]byte, 300<<10)))
			p.ExpectClose(frame.PolicyViolation, "bad key")
		}},
	} {
		for kind, setup := range map[string]setup{
			"private":               {Backend: withYAML(t, withKeys)},
			"private and reusable":  {Backend: withYAML(t, strings.Replace(withKeys, "one-shot", "echo", 1))},
			"private with greeting": {Backend: withYAML(t, strings.Replace(withKeys, "predial", `greeting: {json: {type: hello}}`+"\n    predial", 1))},
			"one-shot on demand":    {Backend: func(o *backend.Options) { o.Settings.Warm = 0 }},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				if kind != "private" && kind != "one-shot on demand" && name == "a long message and close" {
					t.Skip("such a profile knows no message that is as long: the session ends with 1011")
				}
				setup.Cap, setup.Queue, setup.Script = 2, 8, &wstest.Server{Answer: wstest.Accept("", c.greeting...), Serve: readAll}
				r := newRig(t, setup)
				for range 8 {
					p := r.askFor("", "Authorization: Token bad")
					c.expect(p)
					_ = p.Close()
				}
				wstest.Eventually(t, "the leases end", func() bool { return r.Backend.Stats().Leased == 0 })
				if n := r.Script.Counts().Upgrades; n != 8 {
					t.Errorf("%d upgrade requests for 8 clients", n)
				}
				if h := r.Backend.Health(); h.CircuitOpened != 0 || h.Broken != 0 {
					t.Errorf("health: %+v", h)
				}
			})
		}
	}
}

// readAll plays a server that has no more to say.
func readAll(p *wstest.Peer) { _, _ = io.Copy(io.Discard, p) }

// A connection that was dialed for one client and then vanishes is not dialed again for it.
func TestVanishedBehindUpgrade(t *testing.T) {
	r := newRig(t, setup{Cap: 2, Queue: 8, Script: &wstest.Server{Serve: func(*wstest.Peer) {}}, Backend: withYAML(t, withKeys)})
	for range 8 {
		p := r.askFor("", "Authorization: Token bad")
		h, payload, err := p.Next()
		if err != nil || h.Opcode != frame.Close || !strings.HasPrefix(string(payload), "\x03\xf3backend connection lost") &&
			!strings.HasPrefix(string(payload), "\x03\xf3server ended the connection") {
			t.Fatalf("%v %q, %v; want a close with 1011", h.Opcode, payload, err)
		}
		_ = p.Close()
	}
	if n := r.Script.Counts().Upgrades; n != 8 {
		t.Errorf("%d upgrade requests for 8 clients", n)
	}
	if h := r.Backend.Health(); h.CircuitOpened != 0 {
		t.Errorf("health: %+v", h)
	}
}

// A server that answers 500 to many clients' own values, and no other does, gets no more of them for a while. Two clients do not keep it from
// others.
func TestServerThatRefusesAllIsOutlier(t *testing.T) {
	for clients, out := range map[int]bool{20: true, 2: false} {
		o := behind(t, origin.XForwardedFor, origin.ProxyOff, "127.0.0.0/8")
		o.Profile, o.Cap, o.Queue, o.Backend = "", 40, 8, withYAML(t, withKeys)
		o.Script, o.More = &wstest.Server{Answer: wstest.Refuse(http.StatusInternalServerError, "broken")}, []*wstest.Server{{Serve: readAll}}
		r := newRig(t, o)
		refused := 0
		for i := range 20 {
			address := fmt.Sprintf("X-Forwarded-For: 10.0.%d.1", i%clients)
			p, response := r.Request(wstest.UpgradeRequest("/v1/test", "Authorization: Token mine", address))
			switch response.StatusCode {
			case http.StatusSwitchingProtocols: // it stays, so that the other server is less loaded
			case http.StatusInternalServerError:
				refused++
				_ = p.Close()
			default:
				t.Fatal(response.Status)
			}
		}
		if h := r.Backend.Health(); (h.Outliers > 0) != out || h.CircuitOpened != 0 || (refused < 15) != out {
			t.Errorf("%d clients: %d of 20 were refused, %+v", clients, refused, h)
		}
	}
}

// A server that answers one client's own values with 503 may be full for that client only, whose others are served elsewhere, say. It waits, and is in
// nobody's way: others get the last place, and neither does the ceiling fall nor the circuit open.
func TestFullForOneClientHarmsNoOther(t *testing.T) {
	const good, busy = "Authorization: Token good", "Authorization: Token busy"
	from := func(network int) string { return fmt.Sprintf("X-Forwarded-For: 10.0.%d.1", network) }
	for name, stays := range map[string]bool{"beside a session": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			full.Store(true)
			o := behind(t, origin.XForwardedFor, origin.ProxyOff, "127.0.0.0/8")
			o.Profile, o.Cap, o.Queue, o.Backend = "", 2, 8, withYAML(t, withKeys)
			o.Script = &wstest.Server{Answer: wstest.AcceptUnless(func(req *handshake.Request) *handshake.Refusal {
				if full.Load() && req.Header.Get("Authorization") == "Token busy" {
					return &handshake.Refusal{Status: http.StatusServiceUnavailable, Reason: "too many connections of this key"}
				}
				return nil
			})}
			r := newRig(t, o)
			first := r.askFor("", good, from(1))
			server := r.Accepted()
			talk(t, first, server, "first")
			if !stays {
				_, _ = first.Close(), server.Close()
				wstest.Eventually(t, "it has ended", func() bool { s := r.Backend.Stats(); return s.Used() == 0 })
			}
			waits := r.Connect(wstest.UpgradeRequest("/v1/test", busy, from(2)))
			wstest.Eventually(t, "it is refused several times", func() bool { return r.Script.Counts().Upgrades >= 4 })
			other := r.askFor("", good, from(3))
			server = r.Accepted()
			talk(t, other, server, "other")
			if s, h := r.Backend.Stats(), r.Backend.Health(); s.Ceiling != 2 || s.Totals.DialFailed != 0 || h.CircuitOpened != 0 || !h.Reachable {
				t.Errorf("stats %+v, health %+v", s, h)
			}
			_, _ = other.Close(), server.Close()
			full.Store(false)
			waits.ExpectUpgrade()
			talk(t, waits, r.Accepted(), "it was not in vain")
		})
	}
}

// It goes to another server at once.
func TestFullForOneClientElsewhere(t *testing.T) {
	o := behind(t, origin.XForwardedFor, origin.ProxyOff, "127.0.0.0/8")
	o.Profile, o.Cap, o.Queue, o.Backend = "", 9, 8, withYAML(t, withKeys)
	only := "192.0.2.7"
	o.Script = &wstest.Server{Answer: wstest.AcceptUnless(func(req *handshake.Request) *handshake.Refusal {
		if req.Header.Get("Authorization") == "Token "+only {
			return &handshake.Refusal{Status: http.StatusServiceUnavailable}
		}
		return nil
	})}
	o.More = []*wstest.Server{{}}
	r := newRig(t, o)
	for i := range 8 { // the other server has more sessions then, so that this one is asked first
		address := fmt.Sprintf("10.0.%d.1", i%2)
		if i >= 4 {
			address = only
		}
		r.askFor("", "Authorization: Token "+address, "X-Forwarded-For: "+address)
	}
	if a, b := r.Backend.Stats(), r.Backends[1].Stats(); a.Leased+b.Leased != 8 || b.Leased < 4 || a.Ceiling != 9 || a.Totals.Refused == 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}
