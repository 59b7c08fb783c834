// Package backend runs the connections to one inference server: it dials them, keeps them while they are idle, leases them
// to sessions, makes them clean again or closes them in order.
//
// A [Backend] may be used from any goroutine. Its connections belong to the event loops that they live on; see [Conn].
package backend

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Backend is one inference server and its pool.
type Backend struct {
	config atomic.Pointer[dialConfig]
	group  *pool.Group[*Conn] // static
	log    *slog.Logger       // static
	pool   *pool.Pool[*Conn]  // static
	report report
	worker worker[*Conn]

	updating sync.Mutex // held by Update; never by whoever relays, and never while anybody waits
	probing  *probing   // guarded by updating: the last one; nil for none so far
}

// New returns a backend whose worker has begun to fill the pool. Close ends it.
func New(o Options) *Backend {
	o.setDefaults()
	o.keepTo(o.Profile)
	b := &Backend{group: o.Group, log: o.Log}
	b.config.Store(&dialConfig{Options: o, backend: b})
	b.report.init(o.Name, o.Log, o.Probe != nil)
	b.worker = worker[*Conn]{
		report: &b.report, limits: o.limits(), now: o.Group.Now, descriptors: o.Descriptors, guard: o.Guard,
		establish: b.establish,
		retire:    func(c *Conn) { c.stream.Post(c.closeWithdrawn) },
	}
	b.worker.init()
	b.pool = o.Group.Add(o.Target.URL, o.Settings, b.worker.signal)
	b.pool.SetMode(o.Mode)
	b.worker.pool = b.pool
	b.worker.peer = o.Peers.join(func() bool {
		s := b.pool.Stats()
		return s.Usable && s.State == pool.Enabled.String() && s.Weight > 0 && s.Ceiling > 0
	})
	b.expect()
	go b.worker.run()
	b.updating.Lock()
	defer b.updating.Unlock()
	b.probeBy(o.Probe, false)
	return b
}

// expect has the variant kept warm that clients who say nothing want.
func (b *Backend) expect() {
	if name, ok := b.options().expected(); ok {
		b.pool.KeepWarm(name)
	}
}

// Name returns what logs call the backend.
func (b *Backend) Name() string { return b.options().Name }

// URL returns the server's address.
func (b *Backend) URL() string { return b.options().Target.URL }

// Profile returns the profile of the server's protocol.
func (b *Backend) Profile() *profile.Profile { return b.options().Profile }

// Stats returns the state of the pool.
func (b *Backend) Stats() pool.Stats { return b.pool.Stats() }

// Variants returns what there is of each variant of connections.
func (b *Backend) Variants() []pool.VariantStats { return b.pool.Variants() }

// Health returns what is known of how the server does.
func (b *Backend) Health() Health { return b.report.get() }

// Set changes the size of the pool and the backend's part of the clients. Sessions go on.
func (b *Backend) Set(s pool.Settings) { b.pool.Set(keepSettingsTo(s, b.options().Profile)) }

// SetMode notes what the operator wants of the backend. Sessions go on.
func (b *Backend) SetMode(m pool.Mode) { b.pool.SetMode(m) }

// Shed closes the idle connection that was used longest ago, because its file descriptor is needed for clients. It returns false
// when none is idle.
func (b *Backend) Shed() bool {
	conn, ok := b.pool.RetireOldest(pool.Shed)
	if ok {
		b.worker.retire(conn)
	}
	return ok
}

// Close stops dialing, closes the idle connections in order and waits until all connections are gone, or ctx ends. The
// sessions must have ended before, or else their connections stay.
func (b *Backend) Close(ctx context.Context) {
	b.worker.stop()
	b.worker.peer.leave()
	b.probesEnd(ctx)
	b.group.Remove(b.pool)
	for {
		// Again and again: one that was dialed is on its way to its loop, another is being reset.
		for conn, ok := b.pool.RetireOldest(pool.Shutdown); ok; conn, ok = b.pool.RetireOldest(pool.Shutdown) {
			b.worker.retire(conn)
		}
		if stats := b.pool.Stats(); stats.Used() == 0 {
			return
		}
		select {
		case <-b.worker.changed:
		case <-ctx.Done():
			return
		}
	}
}

// establish dials a connection and brings it to an event loop. It returns when the server has said what its profile has it say
// first.
func (b *Backend) establish(ctx context.Context, slot *pool.Slot[*Conn]) error {
	o := b.config.Load()
	wanted := ctx
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	target, err := o.target(slot.Variant())
	if err != nil {
		return err
	}
	established, err := target.Dial(ctx)
	if err != nil {
		return o.judge(slot.Variant(), err)
	}
	if o.Variants != nil && isPrivate(slot.Variant()) {
		o.Variants.choose(slot.Variant(), established.Protocol)
	}
	socket, err := loop.Detach(established.Conn)
	if err != nil {
		_ = established.Conn.Close()
		return err
	}
	l := o.Loops.Pick()
	ready := make(chan error, 1)
	var conn *Conn
	ok := l.Post(func() { conn = adopt(o, slot, l, socket, established, func(err error) { ready <- err }) })
	if !ok {
		socket.Close()
		return loop.ErrStopped
	}
	select {
	case err = <-ready:
	case <-wanted.Done(): // its boundary bounds the wait, but nobody waits for that any more
		l.Call(func() { conn.stream.Post(conn.giveUp) })
		err = <-ready
	}
	return err
}

// saysFull tells whether an HTTP status in answer to an upgrade says that the server takes no more connections for now. What
// it says when it has none at all is taken for a failure by the worker.
func saysFull(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
