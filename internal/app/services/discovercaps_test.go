package services

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// plain adds a backend with the address of a server.
func (f *farm) plain(c *config.Content, name string, server, connections int) {
	putBackend(c, name, "stt", fmt.Sprintf("ws://%s:%d", ip(server), f.port), connections, nil)
}

// all returns the names of the backends that run.
func (f *farm) all() (names []string) {
	for _, b := range f.stats().Backends {
		names = append(names, b.Name)
	}
	return names
}

// A server that the configuration names itself belongs to that backend, which takes it over with its sessions, and gives it back. So one
// server can be drained that DNS still names.
func TestServerOfAnotherBackend(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, 2)
	f.resolve(1, 2)
	f.discover(2, nil)
	f.running(2, 1, 2)
	sessions := []*client{f.join("/stt"), f.join("/stt"), f.join("/stt"), f.join("/stt")}
	f.apply(func(c *config.Content) {
		f.plain(c, "hot", 1, 2)
		setState(c, "hot", "draining")
	})
	wstest.Eventually(t, "the backend has taken the server over", func() bool {
		return slices.Equal(f.all(), []string{f.name(2), "hot"}) && len(f.stats().Leaving) == 0
	})
	if hot := f.backend("hot"); hot.Leased != 2 || hot.State != "draining" {
		t.Errorf("hot is %+v", hot.Pool)
	}
	want := fmt.Sprintf("%s:%d: it belongs to the backend hot", ip(1), f.port)
	if d := f.lookup(); d.Servers != 1 || !slices.Equal(d.LeftOut, []string{want}) {
		t.Errorf("the lookup is %+v; want %s", d, want)
	}
	f.apply(func(c *config.Content) { delete(c.Backends, "hot") })
	f.running(0, 1, 2)
	for _, s := range sessions {
		s.echo("still there")
		s.leave()
	}
	f.running(2, 1, 2)
}

// Two names that lead to one server share it: the first in order has it, and its cap holds.
func TestTwoNamesOfAServer(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, 2)
	f.resolve(1, 2)
	f.dns.Set("other.test.", ip(2))
	f.discover(2, nil)
	f.running(2, 1, 2)
	f.apply(func(c *config.Content) {
		putService(c, "mt", nil)
		putBackend(c, "a", "mt", fmt.Sprintf("ws://other.test.:%d/", f.port), 2, func(b *config.Backend) { b.Discover = config.DiscoverDNS })
	})
	a := fmt.Sprintf("a@%s:%d", ip(2), f.port)
	f.idle(a, 2)
	if got := f.all(); !slices.Equal(got, []string{a, f.name(1)}) {
		t.Errorf("there are %v", got)
	}
	f.dns.Set("other.test.", ip(1))
	f.idle(f.name(2), 2)
	f.idle(fmt.Sprintf("a@%s:%d", ip(1), f.port), 2)
	f.settled()
}

// An answer that leads to the proxy itself is left out.
func TestProxyItself(t *testing.T) {
	t.Parallel()
	var own netip.AddrPort
	f := newFarm(t, 2, 2, func(o *Options) { o.Own = func(a netip.AddrPort) bool { return a == own } })
	own = netip.AddrPortFrom(netip.MustParseAddr(ip(2)), uint16(f.port))
	f.resolve(1, 2)
	f.discover(2, nil)
	f.running(2, 1)
	if d := f.lookup(); len(d.LeftOut) != 1 || !strings.HasSuffix(d.LeftOut[0], "this proxy itself listens there") {
		t.Errorf("the lookup is %+v", d)
	}
}

// Discover is switched on and off while sessions run. None is cut, and no server sees more connections than its cap, though
// connections that were dialed by name may lead to any server. The address stands for the name here.
func TestSwitchDiscover(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 3)
	f.dns.Set("localhost.", ip(1))
	put := func(discover string) {
		f.apply(func(c *config.Content) {
			putService(c, "stt", nil)
			putBackend(c, "gpu", "stt", fmt.Sprintf("ws://localhost:%d/", f.port), 3, func(b *config.Backend) { b.Discover = discover })
		})
	}
	put("")
	f.idle("gpu", 3)
	first := f.join("/stt")
	put(config.DiscoverDNS)
	wstest.Eventually(t, "the discovered server runs", func() bool { return f.backend(f.name(1)).Idle == 2 })
	second := f.join("/stt")
	put("")
	wstest.Eventually(t, "the backend runs by its name", func() bool { return f.backend("gpu").Idle == 1 })
	for range 5 {
		put(config.DiscoverDNS)
		put("")
		first.echo("still there")
		second.echo("still there")
	}
	first.leave()
	second.leave()
	f.settled()
	f.idle("gpu", 3)
}

// A backend that was configured by its address becomes a discovered server with its sessions, and then one that is dialed by name. The
// server sees no more connections than its cap.
func TestAddressNameAndAddress(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 3)
	put := func(name, host, discover string) {
		f.apply(func(c *config.Content) {
			clear(c.Backends)
			putService(c, "stt", nil)
			putBackend(c, name, "stt", fmt.Sprintf("ws://%s:%d/", host, f.port), 3, func(b *config.Backend) { b.Discover = discover })
		})
	}
	put("plain", ip(1), "")
	f.idle("plain", 3)
	session := f.join("/stt")
	put("gpu", "localhost", config.DiscoverDNS)
	wstest.Eventually(t, "the discovered server runs", func() bool { return f.backend(f.name(1)).Idle == 2 })
	put("gpu", "localhost", "")
	wstest.Eventually(t, "the backend runs by its name", func() bool { return f.backend("gpu").Idle == 2 })
	session.echo("still there")
	session.leave()
	f.settled()
	f.idle("gpu", 3)
}

// A backend that is renamed keeps its servers with their pools and sessions, even while DNS fails.
func TestRenameDiscovered(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, 2)
	f.resolve(1, 2)
	f.discover(2, nil)
	f.running(2, 1, 2)
	f.dns.Fail(name, dns.RcodeServerFailure)
	sessions := []*client{f.join("/stt"), f.join("/stt"), f.join("/stt")}
	leased := func(service string) (n int) {
		for _, b := range f.stats().Backends {
			if b.Service == service && b.DiscoveredFrom == "zpu" {
				n += b.Leased
			}
		}
		return n
	}
	for step := range 3 {
		if step == 1 {
			wstest.Eventually(t, "the lookup fails under the new name", func() bool {
				all := f.stats().Discovery
				return len(all) == 1 && all[0].Backend == "zpu" && all[0].Failures > 0
			})
		}
		f.apply(func(c *config.Content) {
			delete(c.Backends, "gpu")
			putBackend(c, "zpu", "stt", f.url(), 2, func(b *config.Backend) {
				b.Discover, b.Labels = config.DiscoverDNS, map[string]string{"step": fmt.Sprint(step)}
			})
		})
		if s := f.stats(); len(s.Backends) != 2 || len(s.Leaving) > 0 || leased("stt") != 3 {
			t.Fatalf("there are %+v, and %+v leave", s.Backends, s.Leaving)
		}
	}
	sessions = append(sessions, f.join("/stt"))
	f.resolve(1, 2)
	for _, s := range sessions {
		s.echo("still there")
		s.leave()
	}
	wstest.Eventually(t, "all is idle", func() bool { return leased("stt") == 0 })
	for _, s := range f.servers {
		if n := s.Stats().Accepted; n != 2 {
			t.Errorf("%d connections were dialed to %s; want 2", n, s.URL())
		}
	}
}

// As long as DNS has not answered to a change, what was before stays in force.
func TestChangeBeforeAnswer(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, 2)
	f.resolve(1)
	f.discover(2, nil)
	f.running(2, 1)
	change := func(host string, change func(*config.Backend)) {
		f.apply(func(c *config.Content) {
			putBackend(c, "gpu", "stt", fmt.Sprintf("ws://%s:%d/", host, f.port), 2, func(b *config.Backend) {
				b.Discover = config.DiscoverDNS
				if change != nil {
					change(b)
				}
			})
		})
	}
	change("missing.test.", nil)
	wstest.Eventually(t, "the lookup fails", func() bool { return f.lookup().Failures > 3 })
	f.running(2, 1)
	change("missing.test.", func(b *config.Backend) { b.Warm = 1 }) // other settings apply at once
	if b := f.backend(f.name(1)); b.Warm != 1 {
		t.Errorf("the backend is %+v", b.Pool)
	}
	f.join("/stt").echo("served")
	f.dns.Set("missing.test.", ip(2))
	wstest.Eventually(t, "the other server is in force", func() bool { return slices.Equal(f.all(), []string{f.name(2)}) })
	change("missing.test.", func(b *config.Backend) { b.State = "draining" })
	wstest.Eventually(t, "it is drained", func() bool { return f.backend(f.name(2)).State == "draining" })
}

// Gone servers leave nothing behind: neither in the statistics nor in the meters.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 1)
	f.dns.Set(name, "127.0.1.1")
	f.discover(1, nil)
	for n := range 20 {
		f.dns.Set(name, fmt.Sprintf("127.0.1.%d", n+1)) // no server listens there
		f.asked(2)
	}
	f.resolve(1)
	f.running(1, 1)
	wstest.Eventually(t, "only the last server is remembered", func() bool {
		f.services.mu.Lock()
		servers := len(f.services.servers) // by address and by name
		f.services.mu.Unlock()
		meters := f.services.o.Meters.Snapshot(func(int, func()) {}).Backends
		return servers == 2 && len(meters) == 1 && meters[0].Backend == f.name(1)
	})
}

// TestAnswersUnderLoad changes the answers at random while sessions come and go: regular ones, parts of all, failures, the proxy itself,
// and hundreds of addresses. No session is cut, no server sees more connections than its cap, and in the end those that DNS names run.
func TestAnswersUnderLoad(t *testing.T) {
	t.Parallel()
	const most, steps = 3, 60
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newFarm(t, 4, most)
	f.resolve(1, 2, 3, 4)
	f.discover(most, nil)
	f.apply(func(c *config.Content) { // a client that finds no free connection gets 503 at once: none leaves while it waits
		putService(c, "stt", func(s *config.Service) { s.Queue = 0 })
	})
	f.running(most, 1, 2, 3, 4)
	var sessions []*client
	for step := range steps {
		switch random.IntN(8) {
		case 0:
			f.dns.Remove(name)
		case 1:
			f.dns.Set(name, "0.0.0.0")
		case 2: // no server listens at the others
			f.resolve(1, 2, 100+random.IntN(100))
		case 3:
			f.apply(func(c *config.Content) { putBackend(c, "gpu", "stt", f.url(), 1+random.IntN(most), nil) })
		case 4:
			f.apply(func(c *config.Content) {
				if delete(c.Backends, "own"); random.IntN(2) == 0 {
					f.plain(c, "own", 1+random.IntN(4), most)
				}
			})
		default:
			some := random.Perm(4)[:1+random.IntN(4)]
			for i := range some {
				some[i]++
			}
			f.resolve(some...)
		}
		f.asked(random.IntN(5))
		if s, status := f.ask("/stt", ""); s != nil {
			sessions = append(sessions, s)
		} else if status != 503 {
			t.Fatalf("step %d: status %d", step, status)
		}
		for i, s := range slices.Backward(sessions) {
			if s.echo(fmt.Sprint(step)); random.IntN(3) == 0 || len(sessions) > 2 {
				s.leave()
				sessions = slices.Delete(sessions, i, i+1)
			}
		}
	}
	f.resolve(1, 2, 3, 4)
	f.apply(func(c *config.Content) {
		delete(c.Backends, "own")
		putBackend(c, "gpu", "stt", f.url(), most, nil)
	})
	for _, s := range sessions {
		s.leave()
	}
	f.running(most, 1, 2, 3, 4)
	f.settled()
}

// Hundreds of addresses make as many servers as a name may have, and no more.
func TestHundredsOfServers(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 1)
	var all []string
	for n := range 300 {
		all = append(all, fmt.Sprintf("127.0.%d.%d", 1+n/200, 1+n%200))
	}
	f.dns.Set(name, append(all, ip(1))...)
	f.discover(1, nil)
	wstest.Eventually(t, "the servers run", func() bool { return len(f.all()) == 256 })
	f.idle(f.name(1), 1)
	f.asked(5)
	if d := f.lookup(); d.Servers != 256 || len(d.LeftOut) != 6 || d.LeftOut[5] != "and 40 more" {
		t.Errorf("the lookup is %+v", d)
	}
	session := f.join("/stt")
	f.resolve(1)
	f.running(0, 1)
	session.echo("still there")
	session.leave()
	f.running(1, 1)
}
