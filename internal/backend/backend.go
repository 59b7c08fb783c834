// Package backend runs the connections to one inference server: it dials them, keeps them while they are idle, leases them
// to sessions, makes them clean again or closes them in order.
//
// A [Backend] may be used from any goroutine. Its connections belong to the event loops that they live on; see [Conn].
package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Options are the settings of a backend. All fields are required unless a default is named.
type Options struct {
	Target  *handshake.Target
	Profile *profile.Profile
	// Group is the pools of the backends that serve the same clients, which the backend's own becomes one of.
	Group *pool.Group[*Conn]
	// Variants are the meanings of the variants of connections; nil when there are none. Shared by the backends of a service.
	Variants *Variants
	// Settings are the size of the pool and the backend's part of the clients.
	Settings pool.Settings
	// Mode is what the operator wants of the backend at first.
	Mode pool.Mode
	// DialTimeout bounds connecting and the opening handshake; default 5 s.
	DialTimeout time.Duration
	// DialParallel is how many connections are dialed at once; default 32.
	DialParallel int
	// ResetTimeout bounds the reset of a connection, if the profile allows it longer; 0 for as long as that says.
	ResetTimeout time.Duration
	// CloseTimeout bounds the wait for a server's part in closing a connection; default 2 s.
	CloseTimeout time.Duration
	// MaxAge retires connections that have been open for so long, or up to a quarter less, once they are idle; 0 for never.
	MaxAge time.Duration
	// MaxIdle retires idle connections beyond the warm ones that nobody has used for so long; 0 for at once.
	MaxIdle time.Duration
	// VariantMaxIdle is for how long connections of a variant are kept warm that no client comes for; 0 for ever. It means
	// something with Settings.Variants only.
	VariantMaxIdle time.Duration
	// MaxSessions retires connections that have served so many sessions; 0 for never.
	MaxSessions uint64
	// PingInterval is the time between two pings on a connection, or up to a quarter less; 0 for no pings.
	PingInterval time.Duration
	// PingTimeout bounds the wait for a pong; default 5 s.
	PingTimeout time.Duration
	// CircuitFailures is how many failures in a row take the backend out of service: of dialing, or of sessions that it
	// broke; default 5.
	CircuitFailures int
	// SlowStart is the time in which a backend that was out of service gets its full share of the clients back; 0 for at
	// once.
	SlowStart time.Duration
	// Probe is how the backend is asked whether it is well; nil for not at all.
	Probe *Probe
	// Loops are the event loops that the connections live on.
	Loops *loop.Group
	// Log gets a line for each change of state.
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	def(&o.DialTimeout, 5*time.Second)
	def(&o.CloseTimeout, 2*time.Second)
	def(&o.PingTimeout, 5*time.Second)
	if o.CircuitFailures <= 0 {
		o.CircuitFailures = 5
	}
	if o.Probe != nil {
		probe := *o.Probe
		probe.setDefaults()
		o.Probe = &probe
	}
	if o.DialParallel <= 0 {
		o.DialParallel = 32
	}
}

// expected returns the variant that is kept warm before the first client has come: that of a client who says nothing.
func (o *Options) expected() (name string, ok bool) {
	if !o.Profile.Variants() {
		return "", true
	}
	v, err := o.Profile.Variant("", func(string) []string { return nil })
	if err != nil || v.Private || o.Variants == nil {
		return "", false
	}
	return o.Variants.Name(v), true
}

// target returns the server as it is to be dialed for connections of a variant.
func (b *Backend) target(variant string) (*handshake.Target, error) {
	o := &b.options
	if variant == "" || o.Variants == nil {
		return o.Target, nil
	}
	v, ok := o.Variants.lookup(variant)
	if !ok {
		return nil, unwantedError{variant}
	}
	header := make([]handshake.Field, len(v.Header))
	for i, field := range v.Header {
		header[i] = handshake.Field(field)
	}
	return o.Target.With(v.Query, header...), nil
}

// keepTo makes the limits at most those of the profile, which are below the server's own.
func (o *Options) keepTo(p *profile.Profile) {
	if l := p.Limits.Sessions; l > 0 && (o.MaxSessions == 0 || o.MaxSessions > uint64(l)) {
		o.MaxSessions = uint64(l)
	}
	if l := p.Limits.Age; l > 0 && (o.MaxAge == 0 || o.MaxAge > l) {
		o.MaxAge = l
	}
	if p.Ping > 0 && o.PingInterval > p.Ping {
		o.PingInterval = p.Ping
	}
	o.Settings = keepSettingsTo(o.Settings, p)
}

// keepSettingsTo makes the size of the pool fit the profile.
func keepSettingsTo(s pool.Settings, p *profile.Profile) pool.Settings {
	if p.Predial == profile.PredialNever {
		s.Warm = 0
	}
	if p.Variants() || p.Sticks() {
		s.Variants = p.MaxVariants()
	}
	return s
}

// Backend is one inference server and its pool.
type Backend struct {
	options Options
	pool    *pool.Pool[*Conn]
	report  report
	worker  worker[*Conn]
	probing sync.WaitGroup
}

// New returns a backend whose worker has begun to fill the pool. Close ends it.
func New(o Options) *Backend {
	o.setDefaults()
	o.keepTo(o.Profile)
	b := &Backend{options: o}
	b.report.init(o.Target.URL, o.Log, o.Probe != nil)
	b.worker = worker[*Conn]{
		report: &b.report, parallel: o.DialParallel, maxIdle: o.MaxIdle, rampTime: o.SlowStart, forgetAfter: o.VariantMaxIdle,
		circuit: circuit{after: o.CircuitFailures}, now: o.Group.Now,
		establish: b.establish,
		retire:    func(c *Conn) { c.stream.Post(c.closeWithdrawn) },
	}
	b.worker.init()
	b.pool = o.Group.Add(o.Target.URL, o.Settings, b.worker.signal)
	b.pool.SetMode(o.Mode)
	b.worker.pool = b.pool
	if name, ok := o.expected(); ok {
		b.pool.Expect(name)
	}
	go b.worker.run()
	if o.Probe != nil {
		b.probing.Go(func() { prober(b.worker.ctx, *o.Probe, b.probe, b.worker.probed) })
	}
	return b
}

// URL returns the server's address.
func (b *Backend) URL() string { return b.options.Target.URL }

// Profile returns the profile of the server's protocol.
func (b *Backend) Profile() *profile.Profile { return b.options.Profile }

// Stats returns the state of the pool.
func (b *Backend) Stats() pool.Stats { return b.pool.Stats() }

// Variants returns what there is of each variant of connections.
func (b *Backend) Variants() []pool.VariantStats { return b.pool.Variants() }

// Health returns what is known of how the server does.
func (b *Backend) Health() Health { return b.report.get() }

// Set changes the size of the pool and the backend's part of the clients. Sessions go on.
func (b *Backend) Set(s pool.Settings) { b.pool.Set(keepSettingsTo(s, b.options.Profile)) }

// SetMode notes what the operator wants of the backend. Sessions go on.
func (b *Backend) SetMode(m pool.Mode) {
	if before := b.pool.Stats().State; before != m.String() {
		b.pool.SetMode(m)
		b.options.Log.Info("backend "+m.String(), "backend", b.URL(), "before", before)
	}
}

// Expect has connections of a variant kept warm, as if a client had come for it.
func (b *Backend) Expect(variant string) { b.pool.Expect(variant) }

// Close stops dialing, closes the idle connections in order and waits until all connections are gone, or ctx ends. The
// sessions must have ended before, or else their connections stay.
func (b *Backend) Close(ctx context.Context) {
	b.worker.stop()
	b.probing.Wait()
	b.options.Group.Remove(b.pool)
	for {
		// Again and again: one that was dialed is on its way to its loop, another is being reset.
		for conn, ok := b.pool.RetireOldest(pool.Shutdown); ok; conn, ok = b.pool.RetireOldest(pool.Shutdown) {
			b.worker.retire(conn)
		}
		if stats := b.pool.Stats(); stats.Used() == 0 {
			return
		}
		select {
		case <-b.worker.gone:
		case <-ctx.Done():
			return
		}
	}
}

// establish dials a connection and brings it to an event loop. It returns when the server has said what its profile has it say
// first.
func (b *Backend) establish(ctx context.Context, slot *pool.Slot[*Conn]) error {
	o := &b.options
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	target, err := b.target(slot.Variant())
	if err != nil {
		return err
	}
	established, err := target.Dial(ctx)
	if err != nil {
		if status := (*handshake.StatusError)(nil); errors.As(err, &status) && (saysFull(status.Status) || o.Profile.BusyStatus(status.Status)) {
			err = fmt.Errorf("%w: %w", errFull, err)
		}
		return err
	}
	socket, err := loop.Detach(established.Conn)
	if err != nil {
		return err
	}
	l := o.Loops.Pick()
	ready := make(chan error, 1)
	var conn *Conn
	ok := l.Post(func() { conn = adopt(b, slot, l, socket, established, func(err error) { ready <- err }) })
	if !ok {
		socket.Close()
		return loop.ErrStopped
	}
	select {
	case err = <-ready:
	case <-b.worker.ctx.Done(): // its boundary bounds the wait, but the proxy does not wait for that
		l.Call(func() { conn.stream.Post(conn.forgo) })
		err = <-ready
	}
	return err
}

// saysFull tells whether an HTTP status in answer to an upgrade says that the server takes no more connections for now. What
// it says when it has none at all is taken for a failure by the worker.
func saysFull(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
