// Package discovery finds the servers behind names: it looks each name up in DNS again and again, or follows its EndpointSlices in
// Kubernetes, and says which servers it stands for at present. Package services calls it, and makes a backend of each server.
//
//   - [Discovery] has a watch, which is a goroutine, for each name.
//   - lookup asks DNS once: for addresses (A, or AAAA if there is none), or for SRV records and the addresses of their targets.
//   - service lists and watches the EndpointSlices of a Service (kubernetes.go).
//   - members decides from one answer after the other, without I/O and without a clock, which servers come and go.
//
// A failed or empty answer changes nothing.
package discovery

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
)

const (
	// lookupTimeout bounds a lookup. Resolvers wait 5 s before they repeat a query that was lost (resolv.conf(5)).
	lookupTimeout = 10 * time.Second
	// maxLookups is how many lookups have a turn at once, so that a start with hundreds of them does not flood the DNS server. A lookup that
	// takes longer than turnGrace gives its turn to another: names whose DNS server is silent do not hold up the others.
	maxLookups = 16
	turnGrace  = 500 * time.Millisecond
	// retryInterval is the longest time until the next lookup after one that failed.
	retryInterval = 5 * time.Second
)

// Question is what DNS is asked, or Kubernetes.
type Question struct {
	// Host is the name.
	Host string
	// SRV tells to look up SRV records (RFC 2782), which say the port. Otherwise the name's addresses are looked up.
	SRV bool
	// Port is the port of all servers if their addresses are looked up.
	Port uint16
	// Service is the Service of Kubernetes that the name stands for; empty to ask DNS. Namespace is its namespace; empty for that of this
	// process' pod.
	Service, Namespace string
}

// source names who is asked.
func (q Question) source() string {
	if q.Service != "" {
		return "Kubernetes"
	}
	return "DNS"
}

// Watched is a question, and how often it is asked.
type Watched struct {
	Question
	Interval time.Duration
}

// Server is one server that a name stands for.
type Server struct {
	Address netip.AddrPort
	// Share is the fraction, above 0 and at most 1, of what the server of the name that gets most clients gets, by the weights of SRV
	// records. It is 1 for servers that were found by their addresses.
	Share float64
}

// Options are the settings of a Discovery. Fields are required unless their comment says otherwise.
type Options struct {
	// Resolver asks DNS; default that of the system.
	Resolver Resolver
	// Kubernetes is asked for Services; default the cluster that this process runs in.
	Kubernetes *Kubernetes
	// Own reports whether this process itself accepts clients at an address; nil for never.
	Own func(netip.AddrPort) bool
	// Changed is called when servers of any name have changed, also for the first answer. It must not block.
	Changed func()
	// Guard recovers from panics in lookups; nil to let them end the process.
	Guard *panics.Guard
	// Log gets a line for each change of state.
	Log *slog.Logger
}

// Discovery looks names up. Its methods may be called from any goroutine.
type Discovery struct {
	o       Options       // static
	turns   chan struct{} // static; one element for each lookup that has a turn, see maxLookups
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool              // guarded by mu
	watches map[string]*watch // guarded by mu: by the name of the backend
}

// New returns a Discovery that looks nothing up yet. Close ends it.
func New(o Options) *Discovery {
	if o.Resolver == nil {
		o.Resolver = NewResolver("")
	}
	if o.Own == nil {
		o.Own = func(netip.AddrPort) bool { return false }
	}
	return &Discovery{o: o, turns: make(chan struct{}, maxLookups), watches: make(map[string]*watch)}
}

// Watch looks these questions up from now on, and no others. The keys are the names of backends, for logs and the other methods. It
// does not wait for an answer. What is known about a question that was watched before stays known.
func (d *Discovery) Watch(wanted map[string]Watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for backend, w := range d.watches {
		if next, ok := wanted[backend]; !ok || next.Question != w.question {
			w.cancel()
			delete(d.watches, backend)
		}
	}
	if d.closed {
		return
	}
	for backend, next := range wanted {
		if w := d.watches[backend]; w != nil {
			w.setInterval(next.Interval)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		w := &watch{
			o: &d.o, turns: d.turns, backend: backend, question: next.Question, cancel: cancel, changed: make(chan struct{}, 1),
			interval: next.Interval, status: Status{Backend: backend, Question: next.Question},
		}
		d.watches[backend] = w
		d.running.Go(func() { w.run(ctx) })
	}
}

// Servers returns the servers of a backend, in order. The result is false before the first answer to this question. The caller must
// not change the list.
func (d *Discovery) Servers(backend string, q Question) ([]Server, bool) {
	d.mu.Lock()
	w := d.watches[backend]
	d.mu.Unlock()
	if w == nil || w.question != q {
		return nil, false
	}
	return w.known()
}

// Status returns how the lookup of a backend's name goes; false if there is none.
func (d *Discovery) Status(backend string) (Status, bool) {
	d.mu.Lock()
	w := d.watches[backend]
	d.mu.Unlock()
	if w == nil {
		return Status{}, false
	}
	return w.report(), true
}

// Close ends all lookups, and returns when their goroutines have ended.
func (d *Discovery) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.Watch(nil)
	d.running.Wait()
}
