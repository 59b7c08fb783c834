package faults

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The size of all tests. With these numbers the sessions and the warm connections beside them fill every pool to its cap, and
// two of the servers may have room for some clients more while the third is out of service. With the race detector it is half of that: all
// sides of all connections are in this process.
const servers = 3

var (
	sessions    = size(500)
	connections = size(200) // cap of each server
	warm        = size(50)
)

func size(n int) int {
	if wstest.Race {
		return n / 2
	}
	return n
}

// lastBackoff is the longest that the proxy waits before it tries again whether a server is back (internal/servers/health/circuit.go).
const lastBackoff = 15 * time.Second

// rig is a proxy with its servers for one test. The first of them is the victim of what goes wrong.
type rig struct {
	t        testing.TB
	settings app.Settings
	servers  []*server
	proxy    *app.Proxy
	journal  *journal
	watch    *watch
	crowd    *crowd
	atRest   int // descriptors with full pools and no session
}

// newRig starts all, and returns when the pools are full. Before the proxy starts, prepare is called. At the end of the test
// nothing may be left.
func newRig(t testing.TB, profile string, prepare ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, journal: newJournal(), settings: app.DefaultSettings()}
	before := steadyDescriptors(t)
	t.Cleanup(func() { r.awaitDescriptors("the end of everything", before) })
	for i := range servers {
		s := startServer(t, [servers]string{"victim", "second", "third"}[i])
		r.servers = append(r.servers, s)
		r.settings.Backends = append(r.settings.Backends, s.url())
	}
	s := &r.settings
	s.Listen, s.Profile = []string{"127.0.0.1:0"}, profile
	s.Connections, s.Warm, s.ConnectionMaxIdle = connections, warm, 200*time.Millisecond
	// Servers that are well always answer in time, however little of the processor this process gets. Tests of silence have a shorter time.
	s.PingInterval, s.PingTimeout = time.Second, 20*time.Second
	s.CloseTimeout = time.Second
	s.SlowStart = time.Second
	s.QueueTimeout = wstest.Timeout
	for _, f := range prepare {
		f(r)
	}
	r.start()
	return r
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	if r.proxy, err = app.Start(r.t.Context(), r.settings, "test", slog.New(r.journal)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if !r.proxy.Shutdown() && !r.t.Failed() {
			r.t.Error("the proxy has ended with sessions")
		}
		if r.t.Failed() {
			r.t.Logf("the proxy's log:\n%s", strings.Join(r.journal.others(), "\n"))
		}
	})
	r.watch = startWatch(r)
	r.t.Cleanup(r.watch.stop)
	r.crowd = newCrowd(r.t, r.proxy.Addresses()[0].String())
	wstest.Eventually(r.t, "the pools are full", func() bool { return r.full(0, 1, 2) })
	r.atRest = descriptors()
}

func (r *rig) awaitDescriptors(when string, want int) {
	r.t.Helper()
	if r.t.Failed() || want < 0 {
		return
	}
	wstest.Eventually(r.t, "no descriptor is left open at "+when, func() bool { return descriptors() <= want })
}

func (r *rig) victim() *server { return r.servers[0] }

// backend returns the statistics of a backend.
func (r *rig) backend(i int) api.Backend { return r.proxy.Stats().Backends[i] }

// roomBeside returns how many more clients the other servers take, n at most. How many the victim has is not certain: clients that come
// together wait for whichever connection is ready first.
func (r *rig) roomBeside(n int) int {
	room := 0
	for i := 1; i < servers; i++ {
		b := r.backend(i)
		room += b.Cap - b.Leased
	}
	return min(n, room)
}

// full reports whether backends' pools have the size that they should have, and nothing is under way in them.
func (r *rig) full(backends ...int) bool {
	all := r.proxy.Stats().Backends
	for _, i := range backends {
		b := all[i]
		if b.Dialing+b.Resetting+b.Retiring > 0 || b.Idle != min(b.Warm, b.Cap-b.Leased) {
			return false
		}
	}
	return true
}

// settle has all clients leave, waits until all pools are as they were before the first of them came, and checks that
// nothing has leaked: no slot of the books, no place on a server, no descriptor.
func (r *rig) settle() api.Stats {
	r.t.Helper()
	r.crowd.finish()
	var all api.Stats
	defer func() {
		if r.t.Failed() {
			r.t.Logf("statistics: %+v", all)
		}
	}()
	wstest.Eventually(r.t, "all sessions are over and the pools are full", func() bool {
		all = r.proxy.Stats()
		return all.Sessions.Active == 0 && r.full(0, 1, 2)
	})
	all = r.proxy.Stats()
	leases, ended := uint64(0), uint64(0)
	for i, b := range all.Backends {
		leases += b.Totals.Leased
		if b.Totals.Leased != b.Totals.Returned+b.Totals.Discarded {
			r.t.Errorf("%s: some leases have not ended: %+v", r.servers[i].way.Name, b.Pool)
		}
		wstest.Eventually(r.t, "the servers have the connections that the books say", func() bool {
			book := r.backend(i)
			return r.servers[i].sim.Stats().Connections == book.Used()
		})
	}
	for _, n := range all.Sessions.Ended {
		ended += n
	}
	if all.Sessions.Total != ended || leases < ended || ended != uint64(len(r.crowd.clients)) {
		r.t.Errorf("%d sessions of %d clients, with %d leases; %d have ended", all.Sessions.Total, len(r.crowd.clients), leases, ended)
	}
	r.awaitDescriptors("full pools without sessions", r.atRest)
	return all
}

// checkUnharmed checks that nothing went wrong with backends, as far as the proxy knows: they were always in service, and no
// connection was given up before its time.
func (r *rig) checkUnharmed(backends ...int) {
	r.t.Helper()
	all := r.proxy.Stats()
	for _, i := range backends {
		b := all.Backends[i]
		var harm []string
		for reason, n := range b.Totals.Reasons {
			if reason != pool.Surplus.String() && reason != pool.Served.String() {
				harm = append(harm, fmt.Sprintf("%d connections retired: %v", n, reason))
			}
		}
		if b.Broken+b.CircuitOpened+b.Totals.DialFailed > 0 || len(harm) > 0 || !b.Reachable {
			r.t.Errorf("%s was harmed: %d sessions broken, %d dials failed, circuit opened %d times, reachable: %v; %s",
				r.servers[i].way.Name, b.Broken, b.Totals.DialFailed, b.CircuitOpened, b.Reachable, strings.Join(harm, ", "))
		}
	}
}
