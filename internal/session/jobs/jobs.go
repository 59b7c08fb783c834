// Package jobs works on many sessions at a time, outside of them: it moves sessions to other backends, evens out the load of a service's
// backends, and ends sessions over a time. Its goroutines reach sessions through the registry of package relay, and each session on its loop.
//
//   - moving.go: an operator's order to move the sessions of a backend, or one session
//   - rebalancing.go: moves sessions between the backends of services with Rebalance
//   - endingmany.go: ends the sessions of a backend, or all
//
// Package session joins it with the rest.
package jobs

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// Jobs work on the sessions of a process: they move them, even out the load of their servers, and end many of them over a time. Any goroutine
// may use it, but no loop.
type Jobs struct {
	sessions *relay.Sessions // static
	guard    *panics.Guard   // static: recovers from panics in the jobs' goroutines; nil to let them end the process
	closing  context.Context // ends when Close is called
	close    context.CancelFunc
	pending  tasks.Group // the goroutines of jobs

	routes atomic.Pointer[route.Routes] // for any goroutine

	mu         sync.Mutex
	orders     map[string]*order // guarded by mu: by backend, see carryOut
	moveJobs   moveJobs          // has its own mutex
	closed     bool              // guarded by mu
	rebalances bool              // guarded by mu: rebalance runs
}

// New returns what works on sessions. Close ends it.
func New(sessions *relay.Sessions, guard *panics.Guard) *Jobs {
	j := &Jobs{sessions: sessions, guard: guard, orders: make(map[string]*order)}
	j.closing, j.close = context.WithCancel(context.Background())
	return j
}

// SetServices replaces all services in one step.
func (j *Jobs) SetServices(services []*route.Service, r *route.Routes) {
	j.routes.Store(r)
	j.startRebalancing(services)
}

// Close cancels all jobs, and waits for their goroutines.
func (j *Jobs) Close() {
	j.close()
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.pending.End()
}
