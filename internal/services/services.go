// Package services runs a configuration: routes, queues, pools of connections. [Services.Apply] takes a whole snapshot and changes
// what differs from the one before; live sessions keep what they have.
//
//   - Additions are in force at once: a new service has a route; a new backend is dialed, and gets clients as soon as it has a
//     connection.
//   - Changes that concern the proxy alone (limits, weights, sizes, timeouts) are in force at once. Changes of what a server is told
//     when it is dialed (address, headers, subprotocol, profile) replace its connections, a part at a time.
//   - Removals drain: a backend gets no more sessions, and each connection closes when its session has ended. Until then it counts
//     against the cap of any backend with the same server. If other backends of the service were added or enabled shortly before or
//     with the same change, a backend leaves only when they have their warm connections or cannot get them.
package services

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/machine"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

const (
	// pollInterval is the time between two checks of backends that are warming or leaving.
	pollInterval = 50 * time.Millisecond
	// replacementTimeout is how long a backend that was removed, drained or disabled stays for its replacement to warm up.
	replacementTimeout = 10 * time.Second
	// variantMaxIdle is how long the connections of a variant stay warm without a client.
	variantMaxIdle = 10 * time.Minute
)

// Options are what services are made with. All fields are required, unless it is said otherwise.
type Options struct {
	// Descriptors are the file descriptors that connections are dialed with; nil for without limits.
	Descriptors *machine.Descriptors
	// Guard recovers from panics in the backends' goroutines; nil for not at all.
	Guard *mistake.Guard
	// Loops are the event loops that connections live on.
	Loops *loop.Group
	// SetRoutes is told what clients can ask for, such as [session.Server.SetServices].
	SetRoutes func([]*session.Service)
	// Log gets a line for each change of state.
	Log *slog.Logger
}

// Services are the services that run. Their methods may be called from any goroutine.
type Services struct {
	o        Options
	stopping context.Context
	stop     context.CancelFunc
	woken    chan struct{} // of size one: a backend is warming or leaving
	done     chan struct{}

	applying sync.Mutex // held by Apply, so that plans are made one after the other; taken before mu

	// mu is never held while anybody waits, for a network or for another goroutine: monitoring is answered under it.
	mu       sync.Mutex
	begun    bool                 // guarded by mu: a snapshot was applied before
	desired  *plan                // guarded by mu: the last that was applied
	services map[string]*service  // guarded by mu: by name
	leaving  []*member            // guarded by mu: backends that were removed, until their last connection is gone
	servers  map[string][]*member // guarded by mu: all backends, leaving ones included, by their server
	toLog    []func()             // guarded by mu: lines to log when mu is released
}

// service is a service that runs. It is guarded by Services.mu.
type service struct {
	name     string
	group    *pool.Group[*backend.Conn] // static
	variants *backend.Variants          // static
	peers    *backend.Peers             // static
	dropped  *session.Dropped           // static
	removed  chan struct{}              // static; closed when the service is removed
	atStart  bool                       // static; it had enabled backends at the start
	served   bool                       // a backend that has gone had a connection
	plan     *servicePlan
	members  map[string]*member // by name
}

// member is one backend of a service, as it runs. It is guarded by Services.mu.
type member struct {
	*backend.Backend
	service string
	server  string // the same for the same server, see config.ServerOf
	atStart bool   // it was there at the start, enabled
	plan    *backendPlan
	mode    pool.Mode
	taken   int
	// warming is until when it may keep others of the service from leaving, because it is to take their place; zero for not.
	warming time.Time
}

// New returns services without any. Close ends them.
func New(o Options) *Services {
	s := &Services{
		o: o, services: make(map[string]*service), servers: make(map[string][]*member),
		woken: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Apply puts a snapshot in force. It does not wait for connections or sessions. An error, which is [config.Problems], says why the
// snapshot cannot be put in force, and that nothing has changed.
func (s *Services) Apply(snapshot *config.Snapshot) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	before := s.desired
	s.mu.Unlock()
	next, err := newPlan(snapshot, before) // which takes a while for thousands of backends
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.desired = next
	s.reconcile(time.Now())
	s.route()
	s.begun = true
	s.unlock()
	return nil
}

// Snapshot returns what was applied last; nil before the first.
func (s *Services) Snapshot() *config.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desired == nil {
		return nil
	}
	return s.desired.snapshot
}

// logLater logs a line when mu, which the caller holds, is released: a reader of the log may be slow.
func (s *Services) logLater(message string, about ...any) {
	s.toLog = append(s.toLog, func() { s.o.Log.Info(message, about...) })
}

// unlock releases mu, and logs the lines of logLater.
func (s *Services) unlock() {
	lines := s.toLog
	s.toLog = nil
	s.mu.Unlock()
	for _, log := range lines {
		log()
	}
}

// run reconciles while backends are warming or leaving, until Close.
func (s *Services) run() {
	defer close(s.done)
	for {
		select {
		case <-s.woken:
		case <-s.stopping.Done():
			return
		}
		for s.settle() {
			pause := time.NewTimer(pollInterval)
			select {
			case <-pause.C:
			case <-s.stopping.Done():
				pause.Stop()
				return
			}
		}
	}
}

// settle closes backends that have left, reconciles once, and returns whether work is left.
func (s *Services) settle() (more bool) {
	s.mu.Lock()
	gone := s.collectGone()
	more = s.reconcile(time.Now())
	s.unlock()
	for _, m := range gone { // it has no connections, so this takes no time
		m.Close(s.stopping)
		s.o.Log.Info("backend removed", "backend", m.Name(), "service", m.service)
	}
	return more
}

// collectGone removes the backends without connections from those that are leaving, and returns them.
func (s *Services) collectGone() (gone []*member) {
	s.leaving = slices.DeleteFunc(s.leaving, func(m *member) bool {
		if book := m.Stats(); book.Used() > 0 {
			return false
		}
		gone = append(gone, m)
		return true
	})
	for _, m := range gone {
		others := slices.DeleteFunc(s.servers[m.server], func(other *member) bool { return other == m })
		if s.servers[m.server] = others; len(others) == 0 {
			delete(s.servers, m.server)
		}
	}
	return gone
}

// wake has run reconcile.
func (s *Services) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// route hands the services to the server of clients. The caller holds mu.
func (s *Services) route() {
	var routes []*session.Service
	for _, name := range slices.Sorted(maps.Keys(s.services)) {
		routes = append(routes, s.services[name].route())
	}
	s.o.SetRoutes(routes)
}

// route returns the service as clients see it.
func (v *service) route() *session.Service {
	c := &v.plan.Service
	return &session.Service{
		Name: v.name, Host: c.Host, Path: c.Path, Group: v.group, Profile: v.plan.profile, Variants: v.variants,
		QueueTimeout: c.QueueTimeout, HashBy: v.plan.hashBy, Origins: c.AllowOrigin,
		MaxMessage: c.MaxMessage, IdleTimeout: c.IdleTimeout, MaxDuration: c.MaxSession, CloseTimeout: c.CloseTimeout,
		Passing: v.plan.passing, Dropped: v.dropped, Removed: v.removed,
	}
}

// Share closes an idle connection of the backend that has most of them, if it has several, to make room for a backend without one.
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

// Shed closes up to n idle connections, of all backends in turn, and returns how many.
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

// Close closes all connections in order, and returns when they are gone, or ctx ends. The sessions must have ended before, and
// Apply must not be called any more.
func (s *Services) Close(ctx context.Context) {
	s.stop()
	<-s.done
	s.mu.Lock()
	all := s.leaving
	for _, v := range s.services {
		all = append(all, v.inOrder()...)
	}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, m := range all {
		closing.Go(func() { m.Close(ctx) })
	}
	closing.Wait()
}
