// Package backend runs the connections to one inference server: it dials them, keeps them while they are idle, leases them
// to sessions, makes them clean again or closes them in order.
//
// A [Backend] may be used from any goroutine. Its connections belong to the event loops that they live on; see [Conn].
package backend

import (
	"context"
	"log/slog"
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
	// Cap is the largest number of connections that the server ever sees.
	Cap int
	// Warm is how many connections are kept ready beside those in use, within the cap.
	Warm int
	// DialTimeout bounds connecting and the opening handshake; default 5 s.
	DialTimeout time.Duration
	// DialParallel is how many connections are dialed at once; default 32.
	DialParallel int
	// ResetTimeout bounds the wait for what a server still owes after a session; default 5 s.
	ResetTimeout time.Duration
	// CloseTimeout bounds the wait for a server's part in closing a connection; default 2 s.
	CloseTimeout time.Duration
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
	def(&o.ResetTimeout, 5*time.Second)
	def(&o.CloseTimeout, 2*time.Second)
	if o.DialParallel <= 0 {
		o.DialParallel = 32
	}
}

// Backend is one inference server and its pool.
type Backend struct {
	options Options
	pool    *pool.Pool[*Conn]
	worker  worker
}

// New returns a backend whose worker has begun to fill the pool. Close ends it.
func New(o Options) *Backend {
	o.setDefaults()
	b := &Backend{options: o}
	b.worker.init(b)
	b.pool = pool.New[*Conn](o.Cap, b.worker.signal)
	go b.worker.run()
	return b
}

// URL returns the server's address.
func (b *Backend) URL() string { return b.options.Target.URL }

// Profile returns the profile of the server's protocol.
func (b *Backend) Profile() *profile.Profile { return b.options.Profile }

// Lease takes an idle connection for a session, if there is one. It never waits. The lease ends by the
// connection's End, or by Use when the connection turns out to be broken.
func (b *Backend) Lease() (*Conn, bool) { return b.pool.Lease() }

// Load returns the share of the cap that is in use by sessions, and whether a connection is idle.
func (b *Backend) Load() (share float64, idle bool) { return b.pool.Load() }

// Stats returns the state of the pool.
func (b *Backend) Stats() pool.Stats { return b.pool.Stats() }

// Health says whether the last attempt to dial succeeded, and if not, since when and why.
func (b *Backend) Health() Health { return b.worker.health() }

// Close stops dialing, closes the idle connections in order and waits until all connections are gone, or ctx ends. The
// sessions must have ended before, or else their connections stay.
func (b *Backend) Close(ctx context.Context) {
	b.worker.stop()
	for {
		// Again and again: one that was dialed is on its way to its loop, another is being reset.
		for conn, ok := b.pool.RetireIdle(); ok; conn, ok = b.pool.RetireIdle() {
			conn.stream.Post(conn.closeWithdrawn)
		}
		if b.pool.Stats().Used() == 0 {
			return
		}
		select {
		case <-b.worker.gone:
		case <-ctx.Done():
			return
		}
	}
}
