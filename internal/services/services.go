// Package services makes of a configuration what runs: routes, queues, pools of connections. [Services.Apply] takes a whole
// snapshot and changes what differs from the one before; live sessions keep what they have.
//
//   - What is new is there at once: a new service has a route, a new backend is dialed, and gets clients as soon as it has a
//     connection.
//   - What changes only for the proxy (limits, weights, sizes, time-outs) is in force from then on. What servers were told when
//     they were dialed (address, headers, subprotocol, profile) has their connections replaced, a part at a time.
//   - What goes is drained: a backend gets no session any more, and its connections are closed when theirs have ended. Until
//     then they count against the cap of whatever backend leads to the same server. It goes only when backends of its service
//     that have come, or were enabled, just before or with the same change have their warm connections, or cannot get them.
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
	// look is how often what is under way (warming, leaving) is looked at.
	look = 50 * time.Millisecond
	// replacementTimeout is how long backends that are to go wait for those that come.
	replacementTimeout = 10 * time.Second
	// variantMaxIdle is for how long connections of a variant are kept warm that no client has come for.
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
	woken    chan struct{} // of size one: something is under way
	done     chan struct{}

	applying sync.Mutex // held by Apply, so that plans are made one after the other; taken before mu

	// mu is never held while anybody waits, for a network or for another goroutine: monitoring is answered under it.
	mu       sync.Mutex
	begun    bool                 // guarded by mu: a snapshot was applied before
	desired  *plan                // guarded by mu: the last that was applied
	services map[string]*service  // guarded by mu: by name
	leaving  []*member            // guarded by mu: backends that are to go, until their last connection has
	servers  map[string][]*member // guarded by mu: all of both, by their server
	said     []func()             // guarded by mu: lines for the log
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

// Apply makes what runs what the snapshot says. It does not wait for connections or sessions. An error, which is
// [config.Problems], says that it cannot be made so, and that nothing has changed.
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

// say has a line be logged when the mutex is given up, which is held: whoever reads the log may be slow.
func (s *Services) say(message string, about ...any) {
	s.said = append(s.said, func() { s.o.Log.Info(message, about...) })
}

// unlock gives the mutex up, and logs what was said meanwhile.
func (s *Services) unlock() {
	said := s.said
	s.said = nil
	s.mu.Unlock()
	for _, log := range said {
		log()
	}
}

// run looks after what is under way.
func (s *Services) run() {
	defer close(s.done)
	for {
		select {
		case <-s.woken:
		case <-s.stopping.Done():
			return
		}
		for s.settle() {
			pause := time.NewTimer(look)
			select {
			case <-pause.C:
			case <-s.stopping.Done():
				pause.Stop()
				return
			}
		}
	}
}

// settle brings what is under way further, and returns whether anything is left.
func (s *Services) settle() (more bool) {
	s.mu.Lock()
	gone := s.reap()
	more = s.reconcile(time.Now())
	s.unlock()
	for _, m := range gone { // it has no connections, so this takes no time
		m.Close(s.stopping)
		s.o.Log.Info("backend removed", "backend", m.Name(), "service", m.service)
	}
	return more
}

// reap returns those who have left.
func (s *Services) reap() (gone []*member) {
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

// wake has what is under way looked after.
func (s *Services) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// route tells the server of clients what there is. It is called with the mutex held.
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

// Share closes an idle connection of the backend that has the most, if those are several, to make room for one that has none.
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
