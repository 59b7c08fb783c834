// Package sessiontest is a proxy without its sessions, between clients and servers that the test plays: loops, pools, a service, and the gate
// that admits clients. What the gate hands clients over to is the test's own, so that the tests of the session storey's packages share one rig.
package sessiontest

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Sessions are what the gate hands clients over to, and what the rig checks and ends.
type Sessions interface {
	admission.Sessions
	SetRoutes(*route.Routes)
	IDs() []record.ID
	Active() int64
	Begun() uint64
	EndAll(code frame.CloseCode, reason string)
	Close()
}

// Rig is a proxy between clients and a server that the test plays. Unless the test asks for more, there is one connection to the server, so
// that the test knows which one a client gets, and clients do not wait for it. Its fields are static, except those that say otherwise.
type Rig struct {
	T        testing.TB
	Script   *wstest.Server
	Loops    *loop.Group
	Meters   *meter.Registry
	Group    *pool.Group[*backend.Conn]
	Backend  *backend.Backend
	Backends []*backend.Backend // all, the one above first
	Scripts  []*wstest.Server   // theirs
	Shared   record.Shared
	Scopes   *limits.Registry // with a limit on sessions that no test reaches, so that all are counted
	Arena    *replay.Arena    // the memory for what clients have sent; checked to be free at the end
	Service  *route.Service
	Gate     *admission.Gate
	Address  string      // of the proxy; the test may change it
	TLS      *tls.Config // of the clients; nil for clients without TLS; the test may change it
	Log      *logtest.Capture

	sessions Sessions
	held     []*meter.Backend // of the backends
	peers    backend.Peers
}

// New returns a rig with the sessions that start returns. start is called once all else is there but the gate. The rig ends with the test, and
// checks then that nothing is left.
func New(t testing.TB, o Setup, start func(*Rig) Sessions) *Rig {
	t.Helper()
	if o.Script == nil {
		o.Script = new(wstest.Server)
	}
	r := &Rig{T: t, Script: o.Script, Arena: replay.NewArena(64 << 20), Log: &logtest.Capture{Lines: make(chan logtest.Line, 4096)}}
	var err error
	// The governor would have nothing to decide, and its looks allocate.
	loops := loop.Options{Min: max(o.Loops, 1), Max: max(o.Loops, 1), IOURing: loop.IOURingAuto, Interval: time.Hour}
	var guard *panics.Guard
	if o.Recovers != nil {
		guard = panics.NewGuard(slog.New(slog.DiscardHandler))
		loops.OnPanic = func(value any) { guard.Caught("loop", value) }
		o.Recovers(guard)
	}
	if r.Loops, err = loop.NewGroup(loops); err != nil {
		t.Fatal(err)
	}
	r.Meters = meter.NewRegistry(len(r.Loops.Loops()))
	r.Group = pool.NewGroup[*backend.Conn](pool.Options{Balance: o.Balance, Queue: o.Queue, Now: o.Now})
	r.Service = &route.Service{
		Name: "test", Path: "/v1/test", Group: r.Group, QueueTimeout: time.Hour, Variants: new(backend.Variants),
		MaxMessage: 64 << 20, CloseTimeout: wstest.Timeout,
	}
	if o.Service != nil {
		o.Service(r.Service)
	}
	services := []*route.Service{r.Service}
	for _, s := range append([]*wstest.Server{o.Script}, o.More...) {
		r.startBackend(s, r.Group, o)
	}
	r.Backend = r.Backends[0]
	r.Service.Profile = r.Backend.Profile()
	if o.Other != nil {
		group := pool.NewGroup[*backend.Conn](pool.Options{})
		services = append(services, &route.Service{Name: "other", Path: "/v1/other", Group: group, Profile: r.Service.Profile, CloseTimeout: wstest.Timeout})
		r.startBackend(o.Other, group, o)
	}
	r.Scopes = limits.NewRegistry()
	r.Scopes.SetProcess(route.Now(), limits.Limits{Sessions: 1 << 20})
	r.Shared = record.NewShared(r.Scopes, guard, slog.New(r.Log))
	r.sessions = start(r)
	gate := admission.Options{Limits: admission.Limits{MaxHead: 4 << 10, HandshakeTimeout: wstest.Timeout}}
	if o.Gate != nil {
		o.Gate(&gate)
	}
	r.Gate = admission.New(r.Shared, gate, r.sessions)
	r.SetServices(services)
	listener := wstest.Listen(t)
	r.Address = listener.Addr().String()
	if o.TLS {
		secured, client := securetest.NewAuthority(t).Loopback()
		r.TLS = client
		r.Gate.ServeTLS(listener, func() *tls.Config { return secured })
	} else {
		r.Gate.Serve(listener)
	}
	t.Cleanup(r.close)
	return r
}

// startBackend starts the script's server, and a backend for it. Nothing happens by itself, at least not for as long as a
// test takes: no pings, no age, and connections beyond the warm ones stay.
func (r *Rig) startBackend(s *wstest.Server, group *pool.Group[*backend.Conn], o Setup) {
	r.T.Helper()
	s.Listen(r.T, o.TLS)
	s.Start()
	p, err := profile.Named(cmp.Or(o.Profile, "one-shot"))
	if err != nil {
		r.T.Fatal(err)
	}
	held := r.Meters.Backend("test", s.Target().URL)
	r.held = append(r.held, held)
	options := backend.Options{
		Target: s.Target(), Profile: p, Variants: r.Service.Variants, Peers: &r.peers, Group: group, Loops: r.Loops, Meter: held, Log: slog.New(r.Log),
		Settings:     pool.Settings{Cap: max(o.Cap, 1), Warm: max(o.Cap, 1), Weight: 1},
		CloseTimeout: wstest.Timeout, MaxIdle: time.Hour, StallTimeout: r.Service.StallTimeout,
	}
	if o.Backend != nil {
		o.Backend(&options)
	}
	r.Scripts = append(r.Scripts, s)
	r.Backends = append(r.Backends, backend.New(options))
}

// SetServices replaces all services in one step.
func (r *Rig) SetServices(services []*route.Service) {
	routes := route.NewRoutes(services)
	r.sessions.SetRoutes(routes)
	r.Gate.SetServices(services, routes)
}

// Stop cuts handshakes short, ends what works on sessions, and waits for all goroutines. Call the gate's StopAccepting before.
func (r *Rig) Stop() {
	r.Gate.Close()
	r.sessions.Close()
	r.Shared.LimitLog.Close()
}

// close takes the proxy down, after the test's clients, and checks that every lease has ended in one of the two ways.
func (r *Rig) close() {
	r.Gate.StopAccepting()
	r.Stop()
	wstest.Eventually(r.T, "all sessions end", func() bool {
		r.sessions.EndAll(frame.GoingAway, "test over")
		return r.sessions.Active() == 0
	})
	for _, s := range r.Scripts {
		s.HangUpAll()
		defer s.Close() // after the backends, which may dial it until they are closed
	}
	if n := r.Group.Queue().Waiting; n != 0 {
		r.T.Errorf("%d clients are left in the queue", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	for _, b := range r.Backends {
		wstest.Eventually(r.T, "all leases end", func() bool {
			s := b.Stats()
			return s.Leased == 0 && s.Resetting == 0
		})
		if s := b.Stats(); s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded {
			r.T.Errorf("the books do not balance: %+v", s.Totals)
		}
		b.Close(ctx)
		if s := b.Stats(); s.Used() != 0 {
			r.T.Errorf("connections are left after Close: %+v", s)
		}
	}
	if ids := r.sessions.IDs(); len(ids) != 0 {
		r.T.Errorf("%d sessions and waiting clients are left in the registry", len(ids))
	}
	r.checkMeters()
	r.checkLimits()
	r.Loops.Close()
	if n := r.Arena.Used(); n != 0 {
		r.T.Errorf("%d bytes of the arena are still in use", n)
	}
}

// checkMeters checks that each session that began was counted when it ended, with a class, and that nothing holds a backend's counters
// afterwards but the backend.
func (r *Rig) checkMeters() {
	r.T.Helper()
	s, begun := r.metered(), r.sessions.Begun()
	ended := uint64(0)
	for _, e := range s.Total.Ends {
		ended += e.Sessions
		if e.Class == meter.NotEnded {
			r.T.Errorf("%d sessions ended without a class: by %v, code %s", e.Sessions, e.By, e.Code())
		}
	}
	if total := s.Total; total.Begun != begun || ended != begun || total.Session.Count() != begun || total.Wait.Count() != begun {
		r.T.Errorf("%d sessions began; counted are %d, %d ends, %d lengths, %d waits", begun, total.Begun, ended, total.Session.Count(), total.Wait.Count())
	}
	for _, held := range r.held {
		held.Release()
	}
	if left := r.metered(); len(left.Backends) > 0 || left.Total.Relayed != s.Total.Relayed {
		r.T.Errorf("counters are still held: %+v", left.Backends)
	}
}

// metered returns what was counted for the backends.
func (r *Rig) metered() meter.Snapshot {
	loops := r.Loops.Loops()
	return r.Meters.Snapshot(func(i int, f func()) { loops[i].Call(f) })
}

// checkLimits checks that no session has kept its places.
func (r *Rig) checkLimits() {
	r.T.Helper()
	left := map[string]int{"the process": r.Scopes.Process().Sessions()}
	for name, n := range r.Scopes.Tenants() {
		left["tenant "+name] = n
	}
	for name, n := range left {
		if n != 0 {
			r.T.Errorf("%d sessions are counted for %s after the last", n, name)
		}
	}
}

// Ready waits until n connections to the first server are idle.
func (r *Rig) Ready(n int) {
	r.T.Helper()
	r.AllReady(n, r.Backend)
}

// AllReady waits until n connections to each of the servers are idle.
func (r *Rig) AllReady(n int, servers ...*backend.Backend) {
	r.T.Helper()
	for _, b := range servers {
		wstest.Eventually(r.T, "connections are idle", func() bool { return b.Stats().Idle >= n })
	}
}

// Accepted returns the server's side of the next connection that the proxy made.
func (r *Rig) Accepted() *wstest.Peer {
	r.T.Helper()
	return r.Script.Take()
}

// Line returns the next line of the log that says message.
func (r *Rig) Line(message string) map[string]slog.Value {
	r.T.Helper()
	timeout := time.After(wstest.Timeout)
	for {
		select {
		case line := <-r.Log.Lines:
			if line.Message == message {
				return line.Attrs
			}
		case <-timeout:
			r.T.Fatalf("no line says %q", message)
		}
	}
}

// Record waits for the record of the next session that ends, as the log has it.
func (r *Rig) Record() map[string]slog.Value {
	r.T.Helper()
	return r.Line("session ended")
}

// ServeTLS has the clients from now on speak TLS, and returns the authority that signed the proxy's certificate. change, if not nil, may change
// the configuration of the listener.
func (r *Rig) ServeTLS(change func(*tls.Config)) *securetest.Authority {
	r.T.Helper()
	authority := securetest.NewAuthority(r.T)
	secured, client := authority.Loopback()
	secured.NextProtos = []string{"http/1.1"}
	if change != nil {
		change(secured)
	}
	listener := wstest.Listen(r.T)
	r.Address, r.TLS = listener.Addr().String(), client
	r.Gate.ServeTLS(listener, func() *tls.Config { return secured })
	return authority
}
