package session

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/securetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// rig is a proxy between clients and a server that the test plays. Unless the test asks for more, there is one connection
// to the server, so that the test knows which one a client gets, and clients do not wait for it.
type rig struct {
	t        testing.TB
	script   *wstest.Server
	loops    *loop.Group
	meters   *meter.Registry
	held     []*meter.Backend // of the backends
	group    *pool.Group[*backend.Conn]
	backend  *backend.Backend
	backends []*backend.Backend // all, the one above first
	scripts  []*wstest.Server   // theirs
	peers    backend.Peers
	server   *Server
	scopes   *limits.Registry // with a limit on sessions that no test reaches, so that all are counted
	service  *route.Service
	address  string
	tls      *tls.Config // of the clients; nil for clients without TLS
	log      *logtest.Capture
}

// setup is what a test wants to be different.
type setup struct {
	profile string // default one-shot
	cap     int    // default 1, all of them warm
	loops   int    // default 1
	queue   int    // default 0: clients do not wait; otherwise they do for an hour
	balance pool.Balance
	now     func() pool.Instant // the group's clock; default the real one
	script  *wstest.Server
	more    []*wstest.Server // of further backends of the service
	other   *wstest.Server   // of the only backend of another service, at /v1/other
	options func(*Options)
	// recovers is told the guard of a rig that goes on after panics; nil for one that does not.
	recovers func(*panics.Guard)
	service  func(*route.Service)
	backend  func(*backend.Options)
}

func newRig(t testing.TB, o setup) *rig {
	t.Helper()
	if o.script == nil {
		o.script = new(wstest.Server)
	}
	r := &rig{t: t, script: o.script, log: &logtest.Capture{Lines: make(chan logtest.Line, 4096)}}
	var err error
	// The governor would have nothing to decide, and its looks allocate.
	loops := loop.Options{Min: max(o.loops, 1), Max: max(o.loops, 1), IOURing: loop.IOURingAuto, Interval: time.Hour}
	var guard *panics.Guard
	if o.recovers != nil {
		guard = panics.NewGuard(slog.New(slog.DiscardHandler))
		loops.OnPanic = func(value any) { guard.Caught("loop", value) }
		o.recovers(guard)
	}
	if r.loops, err = loop.NewGroup(loops); err != nil {
		t.Fatal(err)
	}
	r.meters = meter.NewRegistry(len(r.loops.Loops()))
	r.group = pool.NewGroup[*backend.Conn](pool.Options{Balance: o.balance, Queue: o.queue, Now: o.now})
	r.service = &route.Service{
		Name: "test", Path: "/v1/test", Group: r.group, QueueTimeout: time.Hour, Variants: new(backend.Variants),
		MaxMessage: 64 << 20, CloseTimeout: wstest.Timeout,
	}
	if o.service != nil {
		o.service(r.service)
	}
	services := []*route.Service{r.service}
	for _, s := range append([]*wstest.Server{o.script}, o.more...) {
		r.startBackend(s, r.group, o)
	}
	r.backend = r.backends[0]
	r.service.Profile = r.backend.Profile()
	if o.other != nil {
		group := pool.NewGroup[*backend.Conn](pool.Options{})
		services = append(services, &route.Service{Name: "other", Path: "/v1/other", Group: group, Profile: r.service.Profile, CloseTimeout: wstest.Timeout})
		r.startBackend(o.other, group, o)
	}
	r.scopes = limits.NewRegistry()
	r.scopes.SetProcess(route.Now(), limits.Limits{Sessions: 1 << 20})
	if limitAll {
		r.scopes.SetProcess(route.Now(), tinyTurns)
	}
	options := Options{
		Scopes: r.scopes, Services: services, Loops: r.loops, Meters: r.meters, Limits: admission.Limits{MaxHead: 4 << 10, HandshakeTimeout: wstest.Timeout}, Guard: guard, Log: slog.New(r.log),
	}
	if o.options != nil {
		o.options(&options)
	}
	r.server = NewServer(options)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	if overTLS {
		secured, client := securetest.NewAuthority(t).Loopback()
		r.tls = client
		r.server.ServeTLS(listener, func() *tls.Config { return secured })
	} else {
		r.server.Serve(listener)
	}
	t.Cleanup(r.close)
	if tapAll {
		r.tapAll()
	}
	return r
}

// startBackend starts the script's server, and a backend for it. Nothing happens by itself, at least not for as long as a
// test takes: no pings, no age, and connections beyond the warm ones stay.
func (r *rig) startBackend(s *wstest.Server, group *pool.Group[*backend.Conn], o setup) {
	r.t.Helper()
	s.Listen(r.t, overTLS)
	s.Start()
	p, err := profile.Named(or(o.profile, "one-shot"))
	if err != nil {
		r.t.Fatal(err)
	}
	held := r.meters.Backend("test", s.Target().URL)
	r.held = append(r.held, held)
	options := backend.Options{
		Target: s.Target(), Profile: p, Variants: r.service.Variants, Peers: &r.peers, Group: group, Loops: r.loops, Meter: held, Log: slog.New(r.log),
		Settings:     pool.Settings{Cap: max(o.cap, 1), Warm: max(o.cap, 1), Weight: 1},
		CloseTimeout: wstest.Timeout, MaxIdle: time.Hour, StallTimeout: r.service.StallTimeout,
	}
	if o.backend != nil {
		o.backend(&options)
	}
	r.scripts = append(r.scripts, s)
	r.backends = append(r.backends, backend.New(options))
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// close takes the proxy down, after the test's clients, and checks that every lease has ended in one of the two ways.
func (r *rig) close() {
	r.server.StopAccepting()
	r.server.Close()
	wstest.Eventually(r.t, "all sessions end", func() bool {
		r.server.EndAll(frame.GoingAway, "test over")
		return r.server.Active() == 0
	})
	for _, s := range r.scripts {
		s.Close()
	}
	if n := r.group.Queue().Waiting; n != 0 {
		r.t.Errorf("%d clients are left in the queue", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	for _, b := range r.backends {
		wstest.Eventually(r.t, "all leases end", func() bool {
			s := b.Stats()
			return s.Leased == 0 && s.Resetting == 0
		})
		if s := b.Stats(); s.Totals.Leased != s.Totals.Returned+s.Totals.Discarded {
			r.t.Errorf("the books do not balance: %+v", s.Totals)
		}
		b.Close(ctx)
		if s := b.Stats(); s.Used() != 0 {
			r.t.Errorf("connections are left after Close: %+v", s)
		}
	}
	if sessions, clients := r.server.registry.all(); len(sessions)+len(clients) != 0 {
		r.t.Errorf("%d sessions and %d waiting clients are left in the registry", len(sessions), len(clients))
	}
	r.checkMeters()
	r.checkLimits()
	r.loops.Close()
}

// checkMeters checks that each session that began was counted when it ended, with a class, and that nobody holds a backend's counters any
// more but the backend.
func (r *rig) checkMeters() {
	r.t.Helper()
	s := r.server.Stats()
	ended := uint64(0)
	for _, e := range s.Meters.Total.Ends {
		ended += e.Sessions
		if e.Class == meter.NotEnded {
			r.t.Errorf("%d sessions ended without a class: by %v, code %s", e.Sessions, e.By, e.Code())
		}
	}
	if total := s.Meters.Total; total.Begun != s.Total || ended != s.Total || total.Session.Count() != s.Total || total.Wait.Count() != s.Total {
		r.t.Errorf("%d sessions began; counted are %d, %d ends, %d lengths, %d waits", s.Total, total.Begun, ended, total.Session.Count(), total.Wait.Count())
	}
	for _, held := range r.held {
		held.Release()
	}
	if left := r.server.Stats().Meters; len(left.Backends) > 0 || left.Total.Relayed != s.Meters.Total.Relayed {
		r.t.Errorf("somebody still holds counters: %+v", left.Backends)
	}
}

// ready waits until so many connections to the first server are idle.
func (r *rig) ready(n int) {
	r.t.Helper()
	r.allReady(n, r.backend)
}

// allReady waits until so many connections to each of the servers are idle.
func (r *rig) allReady(n int, servers ...*backend.Backend) {
	r.t.Helper()
	for _, b := range servers {
		wstest.Eventually(r.t, "connections are idle", func() bool { return b.Stats().Idle >= n })
	}
}

// accepted returns the server's side of the next connection that the proxy made.
func (r *rig) accepted() *wstest.Peer {
	r.t.Helper()
	return r.script.Take()
}

// session begins a session and returns both ends, of a rig with one connection that was not used before.
func (r *rig) session(header ...string) (client, server *wstest.Peer) {
	r.t.Helper()
	client = r.join(header...)
	return client, r.accepted()
}

// on calls f with the only session there is, on its loop.
func (r *rig) on(f func(*Session)) {
	r.t.Helper()
	wstest.Eventually(r.t, "there is a session", func() bool {
		found := false
		r.each(func(s *Session) {
			if !found {
				found = true
				f(s)
			}
		})
		return found
	})
}

// each calls f with each session, on its loop.
func (r *rig) each(f func(*Session)) {
	sessions, _ := r.server.registry.all()
	r.server.each(sessions, f)
}
