package services

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/wire/dialfrom"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// callers are the hosts that a server was dialed from.
type callers struct {
	mu    sync.Mutex
	hosts map[string]int // guarded by mu: how often each
}

func (c *callers) add(address string) {
	host, _, _ := net.SplitHostPort(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hosts == nil {
		c.hosts = make(map[string]int)
	}
	c.hosts[host]++
}

// are reports whether it was dialed from these hosts, and from no others.
func (c *callers) are(hosts ...netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.hosts) == len(hosts) && !slices.ContainsFunc(hosts, func(a netip.Addr) bool { return c.hosts[a.String()] == 0 })
}

// Connections, with TLS and without, and probes come from the addresses to dial from.
func TestDialFrom(t *testing.T) {
	t.Parallel()
	from := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	if err := dialfrom.Check(from); err != nil {
		t.Skip(err) // only Linux has all of 127.0.0.0/8
	}
	for name, withTLS := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var upgrades, probes callers
			accept := wstest.Accept("")
			server := &wstest.Server{Answer: func(nc net.Conn, req *handshake.Request) bool {
				upgrades.add(nc.RemoteAddr().String())
				return accept(nc, req)
			}, Serve: func(p *wstest.Peer) {
				_, _ = p.Read(make([]byte, 1)) // the close frame
			}}
			server.Listen(t, withTLS)
			server.Start()
			t.Cleanup(server.Close)
			health := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { probes.add(r.RemoteAddr) }))
			t.Cleanup(health.Close)

			r := newRig(t)
			r.services.o.DialFrom = from
			r.apply(func(c *config.Content) {
				putService(c, "stt", func(s *config.Service) { s.Probe, s.ProbeInterval = health.URL, 10*time.Millisecond })
				putBackend(c, "a", "stt", server.Target().URL, 4, func(b *config.Backend) { b.TLSCA = server.CA })
			})
			r.idle("a", 4)
			if !upgrades.are(from...) {
				t.Errorf("the server is dialed from %v", upgrades.hosts)
			}
			wstest.Eventually(t, "probes come from both", func() bool { return probes.are(from...) })
		})
	}
}
