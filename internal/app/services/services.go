// Package services runs the configuration: routes, queues and pools of connections. [Services.Apply] takes a whole snapshot and
// changes what differs from the one before; running sessions keep what they have.
//
//   - New services and backends start at once: a service gets its route, a backend is dialed and gets clients as soon as it has
//     a connection.
//   - Settings that only the proxy uses (limits, weights, sizes, time-outs) apply at once. When a setting changes that servers
//     were told in the handshake (address, headers, subprotocol, profile), their connections are replaced, a few at a time.
//   - Removed services and backends are drained: a backend gets no new sessions, and each connection is closed when its session
//     has ended. Until then it counts against the cap of any other backend with the same server. If backends of the service
//     were added or enabled with or shortly before the change, the drain starts only after they have their warm connections,
//     or cannot get them.
package services

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/apikey"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/external"
	"github.com/wsbouncer/wsbouncer/internal/access/auth/token"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/discovery"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	// pollInterval is how often warming and leaving backends are checked.
	pollInterval = 50 * time.Millisecond
	// replacementTimeout is how long a drain waits at most for the warm connections of new backends.
	replacementTimeout = 10 * time.Second
	// variantMaxIdle is how long connections of a variant are kept warm after the last client used it.
	variantMaxIdle = 10 * time.Minute
)

// Options are the parts that services use. Fields are required unless their comment says otherwise.
type Options struct {
	// Descriptors limits the connections that are dialed; nil for no limit.
	Descriptors *machine.Descriptors
	// DialFrom are the local addresses from which servers are dialed; none for the system's choice.
	DialFrom []netip.Addr
	// Secrets reads the secrets that backends refer to; nil for whatever the process can read.
	Secrets *secret.Source
	// Meters has the backends' counters; default a new registry.
	Meters *meter.Registry
	// Guard recovers from panics in the backends' goroutines; nil to let them end the process.
	Guard *panics.Guard
	// Loops are the event loops that own the connections.
	Loops *loop.Group
	// Resolver looks up the names of backends with discover: dns; default the system's.
	Resolver discovery.Resolver
	// Kubernetes is asked for backends with discover: kubernetes; default the cluster that this process runs in.
	Kubernetes *discovery.Kubernetes
	// MoveAway is called with a backend that was removed because its pod has left, whose sessions should move to others, such as
	// [session.Server.MoveAway]. It must not call Services. May be nil.
	MoveAway func(*backend.Backend)
	// Own reports whether this process itself accepts clients at an address, which then is no server; nil for never.
	Own func(netip.AddrPort) bool
	// LookupPace, if set, is the time between two lookups of a name instead of each backend's own. Tests use it.
	LookupPace time.Duration
	// InForce is called whenever a snapshot was put in force or the discovered servers have changed, with the servers, host:port, of
	// each backend with discover that has some. Calls do not overlap, and it must not call Services. May be nil.
	InForce func(snapshot *config.Snapshot, found map[string][]string)
	// CheckCredentials is called after API keys, or how services authenticate their clients, have changed, such as
	// [session.Server.CheckCredentials], and after a key has left a key set. Calls may overlap, and must not call Services. May be nil.
	CheckCredentials func()
	// SetRoutes receives the services that clients can ask for, such as [session.Server.SetServices].
	SetRoutes func([]*route.Service)
	// Scopes has the limits of tenants and keys, as record.Shared.Scopes; default a new registry.
	Scopes *limits.Registry
	// LimitsChanged is called when limits have changed that running sessions may be under, such as [session.Server.LimitsChanged]. It must
	// not wait for sessions. May be nil.
	LimitsChanged func()
	// Fleet tells that the proxy shares the servers' places with others: it has none until [Services.SetGrants] says so.
	Fleet bool
	// Permission says whether servers may be dialed, within the grants; nil for always.
	Permission backend.Permission
	// Demand is called when clients wait for whom the grants leave no room, and when a connection beyond a grant that was lowered has been
	// closed. Many calls in a row say no more than one. It must not block, nor call Services. May be nil.
	Demand func()
	// Log receives a line for each change of state.
	Log *slog.Logger
}

// Services are the running services. Their methods may be called from any goroutine.
type Services struct {
	o        Options
	stopping context.Context
	stop     context.CancelFunc
	woken    chan struct{} // of size one: a backend is warming or leaving
	done     chan struct{}
	closing  sync.WaitGroup // removed backends; the goroutine that closes done adds to it

	discovery *discovery.Discovery // static
	keys      *apikey.Method       // static; all services share it
	keySets   *token.KeySets       // static; of tokens
	answered  atomic.Bool          // discovered servers have changed, see replan

	applying sync.Mutex // held by putInForce, so that plans are applied one after the other; taken before mu

	// mu is never held while waiting for the network or for another goroutine, because monitoring needs it.
	mu          sync.Mutex
	begun       bool                      // guarded by mu: a snapshot was applied before
	started     bool                      // guarded by mu: the first connections have been tried, see Readiness
	authChanged bool                      // guarded by mu: how a service authenticates its clients has changed
	released    bool                      // guarded by mu: no connection is kept without a session, see Release
	desired     *plan                     // guarded by mu: the plan that was applied last
	services    map[string]*service       // guarded by mu: by name
	leaving     []*member                 // guarded by mu: removed backends that still have connections
	servers     map[string][]*member      // guarded by mu: backends of services and leaving ones, by their server, see keys
	sharedLines map[string]sharedLine     // guarded by mu: by backend, see logShared
	pendingLogs []func()                  // guarded by mu: log lines, written after mu is unlocked
	grants      map[string]int            // guarded by mu: by server, see SetGrants; nil if no places are shared
	ledger      *Ledger                   // guarded by mu; nil for none
	accounts    map[string]*fleet.Account // guarded by mu: of ledger, by server
	proxyNames  map[fleet.ID]string       // guarded by mu: of ledger
}

// service is a running service. It is guarded by Services.mu.
type service struct {
	name     string
	group    *pool.Group[*backend.Conn] // static
	variants *backend.Variants          // static
	peers    *backend.Peers             // static
	dropped  *route.Dropped             // static
	affinity *route.Affinity            // static
	scopes   *limits.ServiceScopes      // static
	removed  chan struct{}              // static; closed when the service is removed
	auth     *auth.Policy               // how its clients are authenticated; nil for not at all
	authBy   config.Service             // that auth was made for, if that is not nil
	checker  *external.Checker          // of auth; nil for none
	atStart  bool                       // static; it had enabled backends when the proxy started
	served   bool                       // a backend that was removed had a connection
	plan     *servicePlan
	members  map[string]*member // by name
	tenants  *pool.TenantSettings
	// hadReconnect is set once a plan has Reconnect, see [route.Service].
	hadReconnect bool
}

// member is a running backend of a service. It is guarded by Services.mu.
type member struct {
	*backend.Backend
	service   string
	meter     *meter.Backend // held until the backend is gone
	server    string         // the same for the same server, see config.ServerOf
	byName    string         // what server is for the URL, if this server was discovered; otherwise empty
	atStart   bool           // it was enabled when the proxy started, or is one of the first that were discovered
	plan      *backendPlan
	mode      pool.Mode
	taken     int
	grant     int // if places are shared: how many this proxy may have at the server, as this backend sees it
	published published
	// warming is when the service's other backends stop waiting for its warm connections; zero if none waits.
	warming time.Time
	// leaves is when it leaves at the latest, if it waits for their warm connections; zero if it is not to leave.
	leaves time.Time

	// relieved is when a session was last to leave it for another backend, see SessionsLag.
	relieved time.Time

	// told is set when the log has the line that it is being removed: the line that it is gone comes after that.
	told atomic.Bool
}

// New returns Services with no service in it. Close ends it.
func New(o Options) *Services {
	if o.Scopes == nil {
		o.Scopes = limits.NewRegistry()
	}
	if o.Meters == nil {
		o.Meters = meter.NewRegistry(len(o.Loops.Loops()))
	}
	s := &Services{
		o: o, services: make(map[string]*service), servers: make(map[string][]*member), sharedLines: make(map[string]sharedLine),
		woken: make(chan struct{}, 1), done: make(chan struct{}), keys: apikey.NewMethod(time.Now),
		keySets: token.NewKeySets(o.Log, o.Guard, o.CheckCredentials),
	}
	if o.Fleet {
		s.grants = make(map[string]int)
	}
	s.discovery = discovery.New(discovery.Options{
		Resolver: o.Resolver, Kubernetes: o.Kubernetes, Own: o.Own, Guard: o.Guard, Log: o.Log,
		Changed: func() {
			s.answered.Store(true)
			s.wake()
		},
	})
	s.stopping, s.stop = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Apply puts a snapshot in force. It does not wait for connections or sessions. If the snapshot cannot be put in force, it
// returns [config.Problems] and changes nothing.
func (s *Services) Apply(snapshot *config.Snapshot) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	return s.putInForce(snapshot)
}

// putInForce puts a snapshot in force, with the servers that are discovered so far. It is called with applying held.
func (s *Services) putInForce(snapshot *config.Snapshot) error {
	s.mu.Lock()
	before := s.desired
	s.mu.Unlock()
	next, err := newPlan(snapshot, before, s.discovery.Servers) // takes a while for thousands of backends
	if err != nil {
		return err
	}
	next.logCanaries(s.o.Log, before)
	recheck := s.applyKeys(snapshot, before) // before a route leads to them
	s.mu.Lock()
	s.desired = next
	s.logShared(time.Now())
	s.reconcile(time.Now())
	limited := s.o.Scopes.Generation()
	s.applyLimits(snapshot)
	s.route()
	s.forgetUnusedMethods()
	s.begun = true
	recheck, s.authChanged = recheck || s.authChanged, false
	s.unlock()
	if recheck && s.o.CheckCredentials != nil {
		s.o.CheckCredentials()
	}
	if s.o.Scopes.Generation() != limited && s.o.LimitsChanged != nil {
		s.o.LimitsChanged()
	}
	s.discovery.Watch(next.watched(s.o.LookupPace))
	if s.o.InForce != nil {
		s.o.InForce(snapshot, next.found())
	}
	return nil
}

// replan puts the snapshot in force once more, since other servers were discovered.
func (s *Services) replan() {
	s.applying.Lock()
	defer s.applying.Unlock()
	if snapshot := s.Snapshot(); snapshot != nil {
		if err := s.putInForce(snapshot); err != nil { // it was good before
			s.o.Log.Error("discovered servers cannot be used", "reason", err)
		}
	}
}

// Snapshot returns the snapshot that was applied last; nil before the first.
func (s *Services) Snapshot() *config.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desired == nil {
		return nil
	}
	return s.desired.snapshot
}

// logLater logs a line after mu is unlocked, since the log may be slow. It is called with mu held.
func (s *Services) logLater(message string, about ...any) {
	s.pendingLogs = append(s.pendingLogs, func() { s.o.Log.Info(message, about...) })
}

// unlock unlocks mu and writes the pending log lines.
func (s *Services) unlock() {
	lines := s.pendingLogs
	s.pendingLogs = nil
	s.mu.Unlock()
	for _, log := range lines {
		log()
	}
}

// run completes what Apply started, until Close.
func (s *Services) run() {
	defer close(s.done)
	for {
		select {
		case <-s.woken:
		case <-s.stopping.Done():
			return
		}
		for s.advance() {
			if !tasks.Sleep(s.stopping, pollInterval) {
				return
			}
		}
	}
}

// advance continues warming and draining, and returns whether anything is left to do.
func (s *Services) advance() (more bool) {
	if s.answered.Swap(false) {
		s.replan()
	}
	s.mu.Lock()
	gone := s.reap()
	more = s.reconcile(time.Now())
	s.unlock()
	for _, m := range gone {
		s.closing.Go(func() { // it has no connections, but one of its checks may read a file on a mount that hangs
			m.Close(s.stopping)
			m.meter.Release()
			s.o.Log.Info("backend removed", "backend", m.Name(), "service", m.service)
		})
	}
	return more
}

// reap forgets the backends that have no connections left, and returns them. It is called with mu held.
func (s *Services) reap() (gone []*member) {
	s.leaving = slices.DeleteFunc(s.leaving, func(m *member) bool {
		if book := m.Stats(); book.Used() > 0 || !m.told.Load() {
			return false
		}
		gone = append(gone, m)
		return true
	})
	for _, m := range gone {
		for _, key := range m.keys() {
			s.forget(key, m)
		}
	}
	return gone
}

// wake makes run continue.
func (s *Services) wake() { tasks.Wake(s.woken) }

// route passes the routes to the session server. It is called with mu held.
func (s *Services) route() {
	var routes []*route.Service
	for _, name := range slices.Sorted(maps.Keys(s.services)) {
		routes = append(routes, s.services[name].route())
	}
	s.o.SetRoutes(routes)
}

// route returns the service as clients see it.
func (v *service) route() *route.Service {
	c := &v.plan.Service
	affinity := v.affinity
	if v.plan.profile.Affinity() == nil {
		affinity = nil
	}
	return &route.Service{
		Name: v.name, Host: c.Host, Path: c.Path, Group: v.group, Profile: v.plan.profile, Variants: v.variants,
		QueueTimeout: c.QueueTimeout, HashBy: v.plan.hashBy, Affinity: affinity, Origins: c.AllowOrigin,
		Cookies: c.TakesCookies() || v.plan.passing.PassesCookies(), Certificates: c.TakesCertificates(),
		MaxMessage: c.MaxMessage, IdleTimeout: c.IdleTimeout, AudioIdle: c.AudioIdle, Keepalive: c.Keepalive, MaxDuration: c.MaxSession, CloseTimeout: c.CloseTimeout,
		Failover: c.Replays(), ReplayWindow: c.ReplayWindow, StallTimeout: mostStall(c), StallLearned: c.StallTimeout == config.StallAuto, LagLimit: c.LagLimit, TellClients: c.TellClients,
		Reconnect: c.Reconnect, HadReconnect: v.hadReconnect, ReconnectEvict: c.ReconnectEvict, SessionAge: c.SessionAge,
		MoveTimeout: moveTimeout, Rebalance: c.Rebalance, Backends: v.rebalanced(),
		Passing: v.plan.passing, Dropped: v.dropped, Scopes: v.scopes, Removed: v.removed, Auth: v.auth,
	}
}

// Release gives back the servers' places that no session uses: from now on, no connection is opened in advance, and none is kept after its
// session. Sessions continue, and connections are still dialed for those that wait. Pauses end, since the successor knows none.
func (s *Services) Release() {
	s.mu.Lock()
	groups := make([]*pool.Group[*backend.Conn], 0, len(s.services))
	for _, v := range s.services {
		groups = append(groups, v.group)
	}
	s.mu.Unlock()
	for _, g := range groups {
		g.Resume()
	}
	s.mu.Lock()
	defer s.unlock()
	s.released = true
	for _, v := range s.services {
		for _, m := range v.members {
			m.Update(s.options(v, m), false)
		}
	}
}

// Share closes an idle connection of the backend that has the most, if it has more than one, to make room for a backend that has
// none.
func (s *Services) Share() {
	s.mu.Lock()
	var richest *member
	most := 1
	for _, v := range s.services {
		for _, m := range v.members {
			if book := m.Stats(); book.Idle > most {
				richest, most = m, book.Idle
			}
		}
	}
	s.mu.Unlock()
	if richest != nil {
		richest.Shed()
	}
}

// Shed closes up to n idle connections, taking from all backends in turn, and returns how many it closed.
func (s *Services) Shed(n int) (shed int) {
	s.mu.Lock()
	var all []*member
	for _, v := range s.services {
		all = append(all, v.inOrder()...)
	}
	s.mu.Unlock()
	for shed < n && len(all) > 0 {
		all = slices.DeleteFunc(all, func(m *member) bool {
			if shed == n || !m.Shed() {
				return true
			}
			shed++
			return false
		})
	}
	return shed
}

func (s *Services) inOrder() []*service { return byName(s.services) }

func (v *service) inOrder() []*member { return byName(v.members) }

func byName[T any](all map[string]T) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// Close closes all connections, and returns when they are closed or ctx ends. All sessions must have ended, and Apply must no longer be
// called.
func (s *Services) Close(ctx context.Context) {
	s.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.discovery.Close()
		<-s.done
		s.closing.Wait()
		s.keySets.Close()
	}()
	select {
	case <-ended:
	case <-ctx.Done(): // a file that one of them reads may be on a mount that hangs
	}
	s.mu.Lock()
	all := s.leaving
	for _, v := range s.services {
		all = append(all, v.inOrder()...)
		if v.checker != nil {
			v.checker.Close()
		}
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, m := range all {
		closing.Go(func() { m.Close(ctx) })
	}
	closing.Wait()
}
