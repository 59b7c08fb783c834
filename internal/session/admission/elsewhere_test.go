package admission_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// refusedLog has the clients that a gate has refused. Any goroutine may use it.
type refusedLog struct {
	mu  sync.Mutex
	all []record.Refused
}

func (l *refusedLog) add(r *record.Refused) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, *r)
}

// expectClosed reads up to the close frame, which must have this reason.
func expectClosed(t *testing.T, p *wstest.Peer, reason string) {
	t.Helper()
	for {
		h, payload, err := p.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case h.Opcode != frame.Close:
			continue
		case string(payload) != string(frame.ClosePayload(frame.NormalClosure, reason)):
			t.Errorf("closed with %q", payload)
		}
		return
	}
}

// The proxy that has the session authenticates a forwarded client, as the one that it came from, and refuses it as any other.
func TestForwardedCredential(t *testing.T) {
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			tenants := withTenants(t)
			service := func(s *route.Service) {
				tenants(s)
				s.Reconnect = time.Minute
			}
			refused := new(refusedLog)
			owner := newRig(t, setup{Service: service, Gate: func(o *admission.Options) { o.Refused = refused.add }})
			client := origin.Address{AddrPort: netip.MustParseAddrPort("192.0.2.7:5000")}
			other := newRig(t, setup{Service: service, TLS: secured, Gate: func(o *admission.Options) {
				o.Elsewhere = func(_ context.Context, p record.Process, c *admission.Forwarded) (string, net.Conn, error) {
					if p != owner.Shared.Process || !c.Address.Addr().IsLoopback() {
						t.Errorf("asked for %s, about a client at %v", p, c.Address)
					}
					listener := wstest.Listen(t)
					defer listener.Close()
					to, err := net.Dial("tcp", listener.Addr().String())
					if err != nil {
						return "", nil, err
					}
					from, err := listener.Accept()
					if err != nil {
						return "", nil, err
					}
					owner.Gate.TakeForwarded(from, &admission.Forwarded{Address: client, Peer: &c.Address})
					return "", to, nil
				}
			}})
			owner.Ready(1)
			p, answer := owner.Request(wstest.UpgradeRequest("/v1/test", ofTenant("one")))
			server := owner.Accepted()
			token := answer.Header.Get("Wsbouncer-Resume")
			p.Reset()
			wstest.Eventually(t, "the session waits", func() bool { return owner.sessions.Stats().Resume.Parked == 1 })
			for _, header := range []string{ofTenant("two"), "X-None: 1"} {
				p, answer := other.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+token, header, "X-Forwarded-For: 198.51.100.1"))
				if answer.StatusCode != http.StatusGone {
					t.Errorf("%s: %s", header, answer.Status)
				}
				_ = p.Close()
			}
			wstest.Eventually(t, "no client is forwarded", func() bool { return other.Gate.Stats().Forwarding == 0 && owner.Gate.Arriving() == 0 })
			refused.mu.Lock()
			if r := refused.all; len(r) != 2 || r[0].Client != client || !r[0].Peer.Addr().IsLoopback() || r[0].Identity.Tenant != "two" {
				t.Errorf("%+v", refused.all)
			}
			refused.mu.Unlock()
			early := string(wstest.ClientFrame(true, frame.Text, "early"))
			p, answer = other.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+token, ofTenant("one")) + early)
			if answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(answer.Status)
			}
			server.Expect(frame.Text, "early")
			server.SendClose(frame.NormalClosure, "done")
			expectClosed(t, p, "done")
			p.Reset() // which is no orderly end: perhaps it has not got that
			wstest.Eventually(t, "the end waits for the client", func() bool {
				return owner.sessions.Stats().Resume.Parked == 1 && other.Gate.Stats().Forwarding == 0
			})
			p, _ = other.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+answer.Header.Get("Wsbouncer-Resume"), ofTenant("one")))
			expectClosed(t, p, "done")
			p.SendClose(frame.NormalClosure, "")
			p.ExpectEnd()
			_ = p.Close()
			wstest.Eventually(t, "nothing is left", func() bool { return owner.sessions.Stats().Resume.Lines == 0 && other.Gate.Stats().Forwarding == 0 })
			if stats := other.Gate.Stats(); stats.Forwarded != 4 || stats.Refused[http.StatusGone] != 0 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// A proxy that takes no more from a client does not hold up the end of the one that forwards it.
func TestForwardedStandstill(t *testing.T) {
	to, from := net.Pipe() // a write lasts until all of it is read
	r := newRig(t, setup{
		Service: func(s *route.Service) { s.Reconnect = time.Minute },
		Gate: func(o *admission.Options) {
			o.Elsewhere = func(context.Context, record.Process, *admission.Forwarded) (string, net.Conn, error) {
				return "", to, nil
			}
		},
	})
	answered := make(chan error, 1)
	go func() {
		buf := bufio.NewReader(from)
		_, err := http.ReadRequest(buf)
		if err == nil {
			_, err = from.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"))
		}
		answered <- err
	}()
	token := resume.NewToken(record.Process{'o', 't', 'h', 'e', 'r', 'o', 'n', 'e'})
	p, answer := r.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+token))
	if err := <-answered; err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(err, answer.Status)
	}
	p.Send(frame.Text, "audio")
	if _, err := io.ReadFull(from, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Gate.StopAccepting()
	r.Gate.Close()
	if _, err := io.Copy(io.Discard, from); err != nil {
		t.Error(err)
	}
}

// No other proxy is asked, and no credential looked at, for who has no session: neither count in the limits of an address.
func TestElsewhereIsGuarded(t *testing.T) {
	asked, authenticated := new(atomic.Int64), new(atomic.Int64)
	guard := auth.NewGuard(limits.Rate{N: 1, Per: time.Hour}, slog.New(slog.DiscardHandler), time.Now)
	tenants := withTenants(t)
	r := newRig(t, setup{
		Service: func(s *route.Service) {
			tenants(s)
			s.Auth.Methods = auth.Chain{countedMethod{s.Auth.Methods[0], authenticated}}
			s.Reconnect = time.Minute
		},
		Gate: func(o *admission.Options) {
			o.AuthGuard = guard
			o.Elsewhere = func(context.Context, record.Process, *admission.Forwarded) (string, net.Conn, error) {
				asked.Add(1)
				return "", nil, errors.New("no answer")
			}
		},
	})
	other := resume.NewToken(record.Process{'o', 't', 'h', 'e', 'r', 'o', 'n', 'e'})
	expect := func(token string, status int, wantAsked int64) {
		t.Helper()
		p, answer := r.Request(wstest.UpgradeRequest("/v1/test", "Wsbouncer-Resume: "+token, ofTenant("one")))
		_ = p.Close()
		if answer.StatusCode != status || asked.Load() != wantAsked || authenticated.Load() != 0 {
			t.Errorf("%s: %s, asked %d times, want %d, authenticated %d times", token, answer.Status, asked.Load(), wantAsked, authenticated.Load())
		}
	}
	expect(resume.NewToken(r.Shared.Process), http.StatusGone, 0)
	expect(other, http.StatusGone, 1)
	for range 2 {
		guard.Failed(netip.MustParseAddr("127.0.0.1"), "test")
	}
	expect(other, http.StatusTooManyRequests, 1)
	without := *r.Service
	without.Reconnect = 0
	r.SetServices([]*route.Service{&without})
	expect(other, http.StatusGone, 1)
	had := without
	had.HadReconnect = true
	r.SetServices([]*route.Service{&had})
	guard.SetRate(limits.Rate{})
	expect(other, http.StatusGone, 2)
}

// countedMethod counts the clients that a method authenticates.
type countedMethod struct {
	auth.Method
	n *atomic.Int64
}

func (m countedMethod) Authenticate(ctx context.Context, a *auth.Attempt) (*identity.Identity, error) {
	m.n.Add(1)
	return m.Method.Authenticate(ctx, a)
}
