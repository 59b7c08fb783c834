package services

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/discovery"
	"github.com/wsbouncer/wsbouncer/internal/testkit/dnstest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// farm is a proxy that finds its servers by a real DNS server. The simulated servers listen on 127.0.0.1, 127.0.0.2 and so on, at the
// same port.
type farm struct {
	*rig
	dns     *dnstest.Server
	servers []*sim.Server
	port    int
}

// name is what the servers' addresses are looked up by.
const name = "stt.test."

// newFarm starts a number of servers, each of which takes a number of connections, and a proxy that knows no service.
func newFarm(t *testing.T, servers, connections int, changes ...func(*Options)) *farm {
	t.Helper()
	f := &farm{dns: dnstest.Start(t)}
	for len(f.servers) < servers {
		f.start(t, servers, connections)
	}
	changes = append([]func(*Options){func(o *Options) {
		o.Resolver, o.LookupPace = discovery.NewResolver(f.dns.Address()), 10*time.Millisecond
	}}, changes...)
	f.rig = newLoggedRig(t, slog.DiscardHandler, changes...)
	return f
}

// start starts servers at a port that is free on all their addresses; it stops at one that is not.
func (f *farm) start(t *testing.T, servers, connections int) {
	t.Helper()
	if runtime.GOOS == "darwin" {
		t.Skip("macOS has no address 127.0.0.2 on its loopback interface")
	}
	f.servers, f.port = nil, 0
	for n := range servers {
		s, err := sim.Start(sim.Options{Listen: fmt.Sprintf("127.0.0.%d:%d", n+1, f.port), Sessions: connections})
		if err != nil {
			for _, started := range f.servers {
				started.Close()
			}
			f.servers = nil
			return
		}
		f.servers = append(f.servers, s)
		address, err := netip.ParseAddrPort(strings.Split(s.URL(), "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		f.port = int(address.Port())
	}
	for _, s := range f.servers {
		t.Cleanup(func() {
			if refused := s.Stats().Refused; refused > 0 {
				t.Errorf("%s takes %d connections, and had to refuse %d more", s.URL(), connections, refused)
			}
			s.Close()
		})
	}
}

// ip returns the address of a server; the first is 1.
func ip(n int) string { return fmt.Sprintf("127.0.0.%d", n) }

// resolve makes DNS answer with these servers.
func (f *farm) resolve(servers ...int) {
	f.t.Helper()
	var all []string
	for _, n := range servers {
		all = append(all, ip(n))
	}
	f.dns.Set(name, all...)
}

// url returns the URL of the name.
func (f *farm) url() string { return fmt.Sprintf("ws://%s:%d/", name, f.port) }

// discover adds the service stt and the backend gpu, which stands for the name.
func (f *farm) discover(connections int, change func(*config.Backend)) {
	f.t.Helper()
	f.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "gpu", "stt", f.url(), connections, func(b *config.Backend) {
			b.Discover = config.DiscoverDNS
			if change != nil {
				change(b)
			}
		})
	})
}

// name returns the name of a server's backend.
func (f *farm) name(n int) string { return fmt.Sprintf("gpu@%s:%d", ip(n), f.port) }

// running waits until exactly these servers run, each with that number of idle connections.
func (f *farm) running(idle int, servers ...int) {
	f.t.Helper()
	var want, got []string
	for _, n := range servers {
		want = append(want, fmt.Sprint(f.name(n), " ", idle))
	}
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("last seen: %v, wanted: %v", got, want)
		}
	})
	wstest.Eventually(f.t, fmt.Sprintf("servers %v run", servers), func() bool {
		got = nil
		for _, b := range f.stats().Backends {
			got = append(got, fmt.Sprint(b.Name, " ", b.Idle))
		}
		return slices.Equal(got, want)
	})
}

// lookup returns how the lookup of gpu goes.
func (f *farm) lookup() api.Discovery {
	for _, d := range f.stats().Discovery {
		if d.Backend == "gpu" {
			return d
		}
	}
	return api.Discovery{}
}

// asked waits until DNS was asked so often from now on.
func (f *farm) asked(more int) {
	f.t.Helper()
	before := f.lookup().Lookups
	wstest.Eventually(f.t, "DNS is asked", func() bool { return f.lookup().Lookups >= before+uint64(more) })
}

// Servers come as DNS names them, and go when they were missing for a while. A session on one that goes lives on.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 3, 2)
	f.resolve(1)
	f.discover(2, nil)
	f.running(2, 1)
	if b := f.backend(f.name(1)); b.DiscoveredFrom != "gpu" || b.URL != f.url() || b.Cap != 2 {
		t.Errorf("the backend is %+v", b)
	}
	session := f.join("/stt")
	session.echo("one")
	f.resolve(2, 3)
	wstest.Eventually(t, "the first is leaving", func() bool { return len(f.stats().Leaving) == 1 })
	f.running(2, 2, 3)
	session.echo("still there")
	if l := f.stats().Leaving[0]; l.Name != f.name(1) || l.Leased != 1 {
		t.Errorf("leaving: %+v", l)
	}
	session.leave()
	f.settled()
	f.running(2, 2, 3)
	if d := f.lookup(); d.Service != "stt" || d.Host != name || d.Records != "address" || d.Servers != 2 || d.Answered.IsZero() || !d.Failing.IsZero() {
		t.Errorf("the lookup is %+v", d)
	}
}

// InForce hears of the servers of a name, at first of none, and again whenever they change.
func TestInForce(t *testing.T) {
	t.Parallel()
	heard := make(chan []string, 100)
	f := newFarm(t, 2, 2, func(o *Options) {
		o.InForce = func(snapshot *config.Snapshot, found map[string][]string) {
			if snapshot == nil {
				t.Error("no snapshot is in force")
			}
			heard <- found["gpu"]
		}
	})
	expect := func(servers ...int) {
		t.Helper()
		var want []string
		for _, n := range servers {
			want = append(want, fmt.Sprintf("%s:%d", ip(n), f.port))
		}
		if got := wstest.Receive(t, heard, "the servers change"); !slices.Equal(got, want) {
			t.Errorf("InForce hears of %q; want %q", got, want)
		}
	}
	f.resolve(1)
	f.discover(1, nil)
	expect()
	expect(1)
	f.resolve(1, 2)
	expect(1, 2)
	f.running(1, 1, 2)
}

// A server that comes back before its last session has ended gets its pool back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, 2)
	f.resolve(1, 2)
	f.discover(2, nil)
	f.running(2, 1, 2)
	sessions := []*client{f.join("/stt"), f.join("/stt"), f.join("/stt"), f.join("/stt")}
	before := f.member("stt", f.name(1))
	f.resolve(2)
	f.running(0, 2)
	f.resolve(1, 2)
	f.running(0, 1, 2)
	if f.member("stt", f.name(1)) != before || len(f.stats().Leaving) > 0 {
		t.Errorf("it is another backend; leaving: %+v", f.stats().Leaving)
	}
	for _, s := range sessions {
		s.echo("still there")
		s.leave()
	}
	f.running(2, 1, 2)
}

// Whatever goes wrong with DNS, the servers stay, and the statistics say what it is.
func TestAnswersThatChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 2, 2)
	f.resolve(1, 2)
	f.discover(2, nil)
	f.running(2, 1, 2)
	for _, c := range []struct {
		change func()
		says   string
	}{
		{func() { f.dns.Remove(name) }, "no such host"},
		{func() { f.dns.Set(name) }, "no such host"},
		{func() { f.dns.Fail(name, dns.RcodeServerFailure) }, "server misbehaving"},
		{func() { f.dns.Fail(name, dns.RcodeRefused) }, ""},
		{func() { f.dns.Set(name, "0.0.0.0", "224.0.0.1") }, "none of its addresses can be used (2 left out)"},
		{func() { f.dns.Set(name, "::") }, "none of its addresses can be used (1 left out)"},
	} {
		f.resolve(1, 2)
		wstest.Eventually(t, "DNS answers", func() bool { return f.lookup().Failing.IsZero() })
		c.change()
		wstest.Eventually(t, "DNS fails", func() bool { return !f.lookup().Failing.IsZero() })
		f.asked(5)
		f.running(2, 1, 2)
		if d := f.lookup(); !strings.Contains(d.Reason, c.says) || d.Servers != 2 {
			t.Errorf("the lookup is %+v; want %s", d, c.says)
		}
		if err := f.services.Ready(nil); err != nil {
			t.Error(err)
		}
	}
	f.join("/stt").echo("served")
}

// A name that does not exist yet makes its service wait, and not ready; the services of others do not notice.
func TestNoServersYet(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 2)
	f.discover(2, nil)
	wstest.Eventually(t, "the lookup fails", func() bool { return f.lookup().Failures > 0 })
	want := fmt.Sprintf("not ready: service stt: no server for %s (backend gpu): lookup %s on %s: no such host", f.url(), name, f.dns.Address())
	if err := f.services.Ready(nil); err == nil || err.Error() != want {
		t.Errorf("ready: %v; want %s", err, want)
	}
	if n, err := f.services.Recycle("gpu"); err == nil || !strings.Contains(err.Error(), "backend gpu has no servers") {
		t.Errorf("recycled %d, %v", n, err)
	}
	answer := f.waiting("stt")
	f.resolve(1)
	if status := <-answer; status != 101 {
		t.Errorf("the client that waited got %d", status)
	}
	f.running(2, 1)
	if err := f.services.Ready(nil); err != nil {
		t.Error(err)
	}
}

// A lookup that lasts does not keep a snapshot from coming into force, and the service is not ready meanwhile.
func TestApplyDoesNotWaitForDNS(t *testing.T) {
	t.Parallel()
	f := newFarm(t, 1, 2)
	f.dns.Silence(true)
	f.discover(2, nil)
	if err := f.services.Ready(nil); err == nil || !strings.Contains(err.Error(), "(backend gpu) are being looked up") {
		t.Errorf("ready: %v", err)
	}
	f.apply(func(c *config.Content) { putBackend(c, "other", "stt", f.servers[0].URL(), 2, nil) })
	f.idle("other", 2)
	f.join("/stt").echo("served")
}

// SRV records say the port and the weight.
func TestServersBySRV(t *testing.T) {
	t.Parallel()
	const records = "_stt._tcp.test."
	f := newFarm(t, 2, 4)
	f.dns.Set("a.test.", ip(1))
	f.dns.Set("b.test.", ip(2))
	f.dns.Set(records, fmt.Sprintf("SRV 1 10 %d a.test.", f.port), fmt.Sprintf("SRV 1 5 %d b.test.", f.port), "SRV 2 1 9 a.test.")
	f.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "gpu", "stt", "ws://"+records+"/asr", 4, func(b *config.Backend) { b.Discover, b.Weight = config.DiscoverDNS, 3 })
	})
	f.running(4, 1, 2)
	if a, b := f.backend(f.name(1)).Weight, f.backend(f.name(2)).Weight; a != 3 || b != 1.5 {
		t.Errorf("the weights are %g and %g", a, b)
	}
	if d := f.lookup(); d.Records != "SRV" || d.Host != records {
		t.Errorf("the lookup is %+v", d)
	}
	f.join("/stt").echo("served")
	f.dns.Set(records, "SRV 1 0 "+fmt.Sprint(f.port)+" b.test.")
	f.running(4, 2)
	if b := f.backend(f.name(2)).Weight; b != 3 {
		t.Errorf("the weight is %g", b)
	}
}

// Servers get the name of the URL in the Host header, and probes go to each server.
func TestHostOfTheName(t *testing.T) {
	t.Parallel()
	rec := startRecorder(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(rec.url, "ws://"))
	f := newFarm(t, 0, 1)
	f.dns.Set(name, "127.0.0.1")
	f.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "gpu", "stt", fmt.Sprintf("ws://%s:%s/asr", name, port), 1, func(b *config.Backend) { b.Discover = config.DiscoverDNS })
	})
	f.join("/stt").echo("served")
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.requests) == 0 || rec.hosts[0] != name+":"+port {
		t.Errorf("the server was asked for %q", rec.hosts)
	}
}
