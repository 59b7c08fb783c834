// Package backend runs the connections to one inference server: it dials them, keeps them while they are idle, leases them
// to sessions, resets them for the next session, and closes them.
//
//   - [Backend] joins the parts. It may be used from any goroutine.
//   - worker is the goroutine that decides to dial and to retire. It asks internal/servers/health what it may, and internal/servers/pool
//     what it should do.
//   - [Conn] is one connection. It belongs to the event loop that it lives on; life.go draws its states.
package backend

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Backend is one inference server and its pool.
type Backend struct {
	// Static.
	group *pool.Group[*Conn]
	log   *slog.Logger
	pool  *pool.Pool[*Conn]

	// Each guards itself.
	config      atomic.Pointer[dialConfig] // replaced by Update
	established atomic.Uint32              // connections; the number of the last
	leaving     atomic.Int32               // connections in the state leaving
	signed      atomic.Int64               // a pool.Instant: when a session that is watched was last seen to get results
	report      report
	worker      worker[*Conn]

	updating sync.Mutex // held while the configuration changes, but never across I/O, nor by a session
	probed   *Probe     // guarded by updating: how it is probed; nil for not at all
	probing  checker    // guarded by updating
	played   *Canary    // guarded by updating: what it is played; nil for nothing
	playing  checker    // guarded by updating
	reads    reads      // guarded by updating: how its capacity is read
	reading  checker    // guarded by updating
}

// New returns a backend and starts its worker, which fills the pool. Close ends it.
func New(o Options) *Backend {
	o.setDefaults()
	o.keepTo(o.Profile)
	b := &Backend{group: o.Group, log: o.Log}
	b.config.Store(&dialConfig{Options: o, backend: b})
	b.report.init(o.Name, o.Log, o.Probe != nil)
	b.worker = worker[*Conn]{
		report: &b.report, limits: o.limits(), now: o.Group.Now, descriptors: o.Descriptors, guard: o.Guard, permission: o.Permission,
		establish: b.establish, heard: b.heard,
		retire: func(c *Conn) { c.stream.Post(c.closeWithdrawn) },
	}
	b.worker.init()
	b.pool = o.Group.Add(o.Target.Server(), o.Settings, b.worker.signal)
	b.pool.SetMode(o.Mode)
	b.worker.pool = b.pool
	b.worker.peer = o.Peers.join(func() bool {
		s := b.pool.Stats()
		return s.Usable && s.State == pool.Enabled.String() && s.Weight > 0 && s.Limit > 0
	})
	b.keepExpectedWarm()
	go b.worker.run()
	b.updating.Lock()
	defer b.updating.Unlock()
	b.probeBy(o.Probe, false)
	b.play(o.Canary, false)
	b.readCapacity(readsOf(&o), false)
	return b
}

// keepExpectedWarm keeps the variant warm that clients without their own parameters need.
func (b *Backend) keepExpectedWarm() {
	if name, ok := b.options().expected(); ok {
		b.pool.KeepWarm(name)
	}
}

// Name returns what logs call the backend.
func (b *Backend) Name() string { return b.options().Name }

// Matches reports whether a backend has the name wanted, or is a server that was discovered for the backend of that name: NAME@ADDRESS:PORT.
func Matches(name, wanted string) bool {
	rest, ok := strings.CutPrefix(name, wanted)
	return ok && (rest == "" || rest[0] == '@')
}

// URL returns the server's address.
func (b *Backend) URL() string { return b.options().Target.URL }

// Profile returns the profile of the server's protocol.
func (b *Backend) Profile() *profile.Profile { return b.options().Profile }

// HoldMeter returns the backend's counters, held (see [meter.Backend.Hold]): the caller releases them. The backend must not have been
// closed.
func (b *Backend) HoldMeter() *meter.Backend {
	for {
		if m := b.options().Meter; m.Hold() { // otherwise they have just been replaced
			return m
		}
	}
}

// Pool returns what tells the backend from the others of its group: see [pool.Waiter.Avoid].
func (b *Backend) Pool() *pool.Pool[*Conn] { return b.pool }

// Stats returns the state of the pool.
func (b *Backend) Stats() pool.Stats { return b.pool.Stats() }

// Variants returns the numbers of each variant of connections.
func (b *Backend) Variants() []pool.VariantStats { return b.pool.Variants() }

// Health returns the server's health.
func (b *Backend) Health() Health { return b.report.get() }

// OnDemand reports whether the server refuses connections that are dialed ahead of clients, so that they are dialed for clients only.
func (b *Backend) OnDemand() bool { return b.report.onDemand.Load() }

// IsFull reports whether the server has refused the last connection because it is full. So it works, also if it holds none of this proxy's.
func (b *Backend) IsFull() bool { return b.report.isFull.Load() }

// Set changes the size of the pool and the backend's share of the clients. Sessions continue.
func (b *Backend) Set(s pool.Settings) { b.pool.Set(keepSettingsTo(s, b.options().Profile)) }

// SetMode sets the desired state of the backend. Sessions continue. One that is enabled again gets sessions, even if some have stalled there before.
func (b *Backend) SetMode(m pool.Mode) {
	if was := b.pool.Stats().State; m == pool.Enabled && was != m.String() {
		b.worker.forgetStall()
	}
	b.pool.SetMode(m)
}

// SessionsLag notes how late the server's results come, about once a second, for [Options.LagLimit]. It fills in how many sessions there are, and
// returns whether one should leave the server, which stays too late though none begins.
func (b *Backend) SessionsLag(r LagReading) (overfull bool) { return b.worker.sessionsLag(r) }

// Shed closes the connection that has been idle longest, because its file descriptor is needed for clients. It returns false when
// none is idle.
func (b *Backend) Shed() bool {
	conn, ok := b.pool.RetireOldest(pool.Shed)
	if ok {
		b.worker.retire(conn)
	}
	return ok
}

// Close stops dialing, closes the idle connections and waits until all connections are gone, or ctx ends. Connections of sessions
// that have not ended stay.
func (b *Backend) Close(ctx context.Context) {
	b.worker.stop(ctx)
	b.worker.peer.leave()
	b.awaitChecks(ctx)
	b.group.Remove(b.pool)
	for {
		// Repeated, since a connection that was dialed may be on its way to its loop, and another may be being reset.
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

// heard returns how many frames the server has sent in all sessions. It waits for the event loops, which count them.
func (b *Backend) heard() (frames uint64) {
	o := b.options()
	for _, l := range o.Loops.Loops() {
		l.Call(func() { frames += o.Meter.Relayed(l.ID()).FramesFromBackends })
	}
	return frames
}

// establish dials a connection and hands it to an event loop. It returns when the connection is in the pool, which is after the greeting
// that the profile asks for, or why it is not.
func (b *Backend) establish(ctx context.Context, slot *pool.Slot[*Conn]) error {
	o := b.config.Load()
	wanted := ctx
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	begun, values := b.worker.now(), o.clientValues(slot.Variant())
	target, err := o.target(slot.Variant())
	if err != nil {
		return err
	}
	established, err := target.Dial(ctx)
	if err != nil {
		return o.classify(values, err)
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
	case <-wanted.Done(): // the profile bounds the wait for the greeting, but the connection is no longer wanted
		l.Call(func() { conn.stream.Post(conn.giveUp) })
		err = <-ready
	}
	if err == nil {
		b.options().Meter.Dial.Observe(time.Duration(b.worker.now() - begun))
	}
	return established.Sent.Error(err) // it may quote how the server ended the connection instead of greeting
}

// saysFull reports whether an HTTP status in answer to an upgrade says that the server accepts no more connections at present. If the
// server holds none, that counts as a failure.
func saysFull(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
