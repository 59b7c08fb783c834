// Package admission takes clients from the accepted socket to the lease of a connection, or turns them away: unfinished handshakes, TLS, the
// request, authentication, limits, the queue, and refusals. It hands over an admitted client and knows nothing of what sessions do. Package
// session joins it with the sessions.
//
// gate.go accepts; arrival.go is the way of one client, from top to bottom; each of the other files is one of its steps. The queue itself, its
// limit included, is in internal/servers/pool/queue.go.
package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Options are the settings of a gate. Fields without a default are required.
type Options struct {
	Limits Limits
	// Origin says who is believed about where clients come from; nil to believe no one.
	Origin *origin.Policy
	// Health answers health checks; the zero value has none.
	Health Health
	// AuthGuard refuses clients of addresses from which authentication fails too often; nil for no limit.
	AuthGuard *auth.Guard
	// Descriptors hears when the gate cannot accept a client because this machine is short of something; may be nil.
	Descriptors *machine.Descriptors
	// Trace returns a session's place in a trace, from what its client said of one: nil if it said nothing valid. It may return nil for
	// none. Any goroutine calls it. nil leaves it at what the clients say.
	Trace func(client *record.Trace) *record.Trace
	// Elsewhere asks the proxy whose process a token names for the client's session. It returns the URL at which clients reach that proxy, if they
	// are to go there, or a connection to it, which continues as [Gate.TakeForwarded] there. An error says why it cannot be asked. ctx bounds
	// it, and it must take no more than two seconds. Nil for a proxy without others.
	Elsewhere func(ctx context.Context, p record.Process, client *Forwarded) (url string, conn net.Conn, err error)
	// Refused hears of each client that gets no session, from any goroutine: it must not block, nor keep what it gets. May be nil.
	Refused func(*record.Refused)
}

// Sessions are what the gate hands admitted clients over to. Any goroutine may call its methods, except Begin.
type Sessions interface {
	// AddWaiting, RemoveWaiting and AllWaiting know the clients that wait in a queue, for operators.
	AddWaiting(*record.Waiting)
	RemoveWaiting(number uint64)
	AllWaiting() []*record.Waiting
	// Begin begins the session of an admitted client on the connection that was leased for it. It is called on the connection's loop, and owns
	// the client's socket from then on.
	Begin(service *route.Service, conn *backend.Conn, socket loop.Socket, req *handshake.Request, client *record.Client)
	// MayResume returns an error, a [handshake.Refusal], unless the service has the session that a client asks for. The client is not authenticated
	// yet.
	MayResume(service *route.Service, asked resume.Asked) error
	// Resume brings a client back to its session, and owns nc if it returns no error, which may be a [handshake.Refusal].
	Resume(service *route.Service, nc net.Conn, req *handshake.Request, client *record.Client, asked resume.Asked) error
	// EndParked ends the session of the service that has waited longest for its own client.
	EndParked(service *route.Service)
	// Left hears of each client that goes without a session after its request was read.
	Left(record.ID)
	// TellStates is called about once a second while a service tells clients something, see [route.Service.TellClients].
	TellStates()
}

// Gate admits clients: from the accepted socket over the TLS handshake, the request, authentication and limits to the lease of a connection, or
// to a refusal. It knows nothing of what sessions do. Any goroutine may use it.
type Gate struct {
	// Static after New.
	shared   record.Shared
	options  Options
	sessions Sessions
	drained  context.Context // ends when the gate stops admitting clients
	drain    context.CancelFunc
	closing  context.Context // ends when Close is called
	close    context.CancelFunc

	// For any goroutine.
	limits   atomic.Pointer[Limits]
	origin   atomic.Pointer[origin.Policy] // nil to believe no one
	routes   atomic.Pointer[route.Routes]
	lastID   atomic.Uint64      // of a client whose request is routed
	refused  [600]atomic.Uint64 // by HTTP status, which is below 600: see [handshake.StatusError.Refusal]
	auth     auth.Counters
	refusals refusals
	tls      tlsHandshakes
	openings unfinished
	board    board
	tlsTurns tlsTurns
	pending  tasks.Group // goroutines that accept and answer handshakes

	accepting  atomic.Int64  // goroutines that accept
	forwarded  atomic.Uint64 // clients that were forwarded to another proxy
	redirected atomic.Uint64 // clients that were sent to another proxy

	mu         sync.Mutex
	listeners  []net.Listener        // guarded by mu
	handshakes map[net.Conn]struct{} // guarded by mu: and those of clients that are forwarded
	forwarding int                   // guarded by mu: how many those are
	closed     bool                  // guarded by mu
}

// Limits bound what clients may do, above all before they have a session.
type Limits struct {
	// MaxHead is the largest upgrade request in bytes.
	MaxHead int
	// HandshakeTimeout bounds the arrival of the upgrade request.
	HandshakeTimeout time.Duration
	// MaxHandshakes is how many handshakes may be unfinished at a time; 0 for any number.
	MaxHandshakes int
	// ClientTimeout is how long a client may neither accept nor acknowledge anything, before it is taken to be gone; 0 for as long as TCP tries.
	ClientTimeout time.Duration
}

// New returns a gate for the listeners given to Serve, which hands clients over to sessions. StopAccepting and Close end it.
func New(shared record.Shared, o Options, sessions Sessions) *Gate {
	g := &Gate{shared: shared, options: o, sessions: sessions, handshakes: make(map[net.Conn]struct{}), tlsTurns: newTLSTurns()}
	g.refusals.init(shared.Log)
	g.tls.init(shared.Log)
	g.openings.init(&storms{log: shared.Log})
	g.drained, g.drain = context.WithCancel(context.Background())
	g.closing, g.close = context.WithCancel(context.Background())
	g.SetLimits(o.Limits)
	g.SetOrigin(o.Origin)
	return g
}

// SetServices replaces all services in one step, for clients that arrive from now on. No two services may have the same host and path.
func (g *Gate) SetServices(services []*route.Service, r *route.Routes) {
	g.routes.Store(r)
	g.startBoard(services)
}

// SetLimits changes the limits for clients that arrive from now on.
func (g *Gate) SetLimits(l Limits) { g.limits.Store(&l) }

// SetOrigin changes who is believed about where clients come from, nil to believe no one, for clients that arrive from now on.
func (g *Gate) SetOrigin(p *origin.Policy) { g.origin.Store(p) }

// Serve accepts clients from the listener in a goroutine of its own until StopAccepting is called.
func (g *Gate) Serve(listener net.Listener) { g.serve(listener, nil) }

// ServeTLS is Serve for clients that speak TLS. config returns the configuration for a new connection; any goroutine calls it.
func (g *Gate) ServeTLS(listener net.Listener, config func() *tls.Config) {
	g.serve(listener, config)
}

func (g *Gate) serve(listener net.Listener, config func() *tls.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = listener.Close()
		return
	}
	g.listeners = append(g.listeners, listener)
	g.accepting.Add(1)
	if !g.pending.Go(func() {
		defer g.accepting.Add(-1)
		g.accept(listener, config)
	}) {
		g.accepting.Add(-1)
	}
}

// accept is the accepting goroutine. config is nil for a listener without TLS.
func (g *Gate) accept(listener net.Listener, config func() *tls.Config) {
	pause := time.Duration(0)
	for {
		nc, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // this machine is probably short of something: sessions continue, and idle connections make room
			if machine.OutOfDescriptors(err) && g.openings.dropOldest() {
				continue // a client that is slow costs no idle connection to a server
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			if !g.options.Descriptors.Failed(machine.Accepting, err) {
				g.shared.Log.Warn("cannot accept a client", "error", err, "retry_in", pause)
			}
			select {
			case <-time.After(pause):
			case <-g.drained.Done():
			}
			continue
		}
		pause = 0
		if !g.enterHandshake(nc, g.crowdOf(nc), config, nil) {
			return
		}
	}
}

// enterHandshake begins the handshake with a client from an address once there is a place for it. It owns nc. It returns false once the gate is
// closed.
func (g *Gate) enterHandshake(nc net.Conn, from netip.Addr, config func() *tls.Config, via *Forwarded) bool {
	begun := time.Now()
	limits := g.limits.Load()
	keepAlive(nc, limits.ClientTimeout)
	_ = nc.SetDeadline(begun.Add(limits.HandshakeTimeout)) // before track: Close sets a nearer one
	if !g.track(nc) {
		_ = nc.Close()
		return false
	}
	g.openings.enter(nc, begun, from, g.room(), func(o *opening, placed bool) {
		if !placed || !g.pending.Go(func() { g.begin(nc, config, begun, o, via) }) {
			_ = nc.Close()
			o.leave(false)
			g.untrack(nc)
		}
	})
	return true
}

// begin answers a client that has a place among the unfinished handshakes.
func (g *Gate) begin(nc net.Conn, config func() *tls.Config, begun time.Time, o *opening, via *Forwarded) {
	defer func() {
		g.untrack(nc)
		o.leave(false)
	}()
	defer g.shared.Guard.Recover("handshake", func() { _ = nc.Close() })
	g.admit(nc, config, begun, o, via)
}

// maxHandshakes returns how many handshakes may be unfinished at present. They take no more than a part of the file descriptors.
func (g *Gate) maxHandshakes() int {
	limit := g.limits.Load().MaxHandshakes
	if limit <= 0 {
		return math.MaxInt
	}
	return max(min(limit, g.options.Descriptors.Limit()/descriptorShare), 1)
}

// room returns how many clients may have a place or wait for one at present.
func (g *Gate) room() room {
	places := g.maxHandshakes()
	line := lineFactor * min(places, math.MaxInt/lineFactor)
	return room{places, min(line, max(g.options.Descriptors.Limit()/descriptorShare, 1))}
}

// crowdOf returns the address whose unfinished handshakes a connection counts among. Those of load balancers' clients are not known yet.
func (g *Gate) crowdOf(nc net.Conn) netip.Addr {
	peer := origin.AddressOf(nc.RemoteAddr())
	if g.origin.Load().Trusts(peer) {
		return netip.Addr{}
	}
	return peer.Addr()
}

// track notes a handshake, so that Close can cut it short. It returns false once the server is closed.
func (g *Gate) track(nc net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.handshakes[nc] = struct{}{}
	return true
}

func (g *Gate) untrack(nc net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.handshakes, nc)
}

// StopAccepting closes the listeners. Sessions continue; the server refuses requests that have arrived.
func (g *Gate) StopAccepting() {
	g.drain()
	g.StopListening()
}

// StopListening closes the listeners. Clients that have been accepted get their sessions; Arriving says how many have none yet.
func (g *Gate) StopListening() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, listener := range g.listeners {
		_ = listener.Close()
	}
	g.listeners = nil
}

// Arriving returns how many clients have been accepted that have neither a session nor an answer yet. After StopListening, it is 0 only when no
// more clients come.
func (g *Gate) Arriving() int {
	accepting := int(g.accepting.Load()) // before the handshakes, to which it may add one
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.listeners) > 0 {
		accepting = 0
	}
	return accepting + len(g.handshakes) - g.forwarding
}

// Close cuts handshakes short and waits for their goroutines. Call StopAccepting before.
func (g *Gate) Close() {
	g.close()
	g.mu.Lock()
	g.closed = true
	for nc := range g.handshakes {
		_ = nc.SetDeadline(time.Unix(1, 0))
	}
	g.mu.Unlock()
	g.openings.close()
	g.pending.End()
	g.refusals.lines.close()
	g.tls.lines.close()
}

// Stats are the counts of a gate at one instant.
type Stats struct {
	Refused map[int]uint64  // upgrade requests answered otherwise, by HTTP status
	TLS     []TLSHandshakes // TLS handshakes of clients, by result and version
	// Handshakes is how many handshakes are unfinished, MaxHandshakes how many may be (0 for any number), and Dropped how many were dropped
	// since the start, by reason.
	Handshakes    int
	MaxHandshakes int
	Dropped       map[string]uint64
	Auth          []auth.Count    // clients that were authenticated or turned away
	Guard         auth.GuardStats // clients that were refused because authentication fails too often from their address
	// Forwarding is how many clients are connected to their session at another proxy through this one; Forwarded counts them since the start, and
	// Redirected those that were told to go there.
	Forwarding            int
	Forwarded, Redirected uint64
}

// Stats returns the exact counts.
func (g *Gate) Stats() Stats {
	stats := Stats{Refused: make(map[int]uint64), TLS: g.tls.counts(), Auth: g.auth.Counts(), Guard: g.options.AuthGuard.Stats()}
	for status := range g.refused {
		if n := g.refused[status].Load(); n > 0 {
			stats.Refused[status] = n
		}
	}
	stats.Handshakes, stats.Dropped = g.openings.counts()
	stats.Forwarded, stats.Redirected = g.forwarded.Load(), g.redirected.Load()
	g.mu.Lock()
	stats.Forwarding = g.forwarding
	g.mu.Unlock()
	if limit := g.maxHandshakes(); limit < math.MaxInt {
		stats.MaxHandshakes = limit
	}
	return stats
}

// keepAlive makes TCP find out within a time, or little more, that a client is gone without a word, or that it reads nothing of what waits
// for it: the connection is then lost with ETIMEDOUT. Without it TCP would take a quarter of an hour, and meanwhile the client would keep
// its server. With a time of 0 it does nothing. Where the system has no TCP_USER_TIMEOUT, only clients are found for which nothing waits.
func keepAlive(nc net.Conn, within time.Duration) {
	tc, ok := secure.Under(nc).(*net.TCPConn)
	if !ok || within <= 0 {
		return
	}
	_ = tc.SetKeepAliveConfig(handshake.KeepAlive(within))
	raw, err := tc.SyscallConn()
	if err == nil {
		err = handshake.SetUserTimeout(raw, within)
	}
	_ = err // the client has left already, which reading tells
}
