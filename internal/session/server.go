package session

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/mistake"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Options are the settings of a server. Fields without a default are required.
type Options struct {
	// Services are the first services, see [Server.SetServices].
	Services []*Service
	// Loops are the event loops that own the backends' connections.
	Loops  *loop.Group
	Limits Limits
	// Origin says who is believed about where clients come from; nil for nobody.
	Origin *origin.Policy
	// Health answers health checks; the zero value has none.
	Health Health
	// AskAgainAfter is how long after an answer an [auth.Asker] is asked once more about a client; 0 for a minute.
	AskAgainAfter time.Duration
	// AuthGuard refuses clients of addresses from which authentication fails too often; nil for no limit.
	AuthGuard *auth.Guard
	// Descriptors hears when the server cannot accept a client because this machine is short of something; nil for nobody.
	Descriptors *machine.Descriptors
	// Meters has the counters of the backends, which services.Options.Meters has too; default one without backends.
	Meters *meter.Registry
	// Scopes has the limits of the process, tenants and keys; default one without limits.
	Scopes *limits.Registry
	// Replay is the memory for what clients have sent and no server has answered for good; nil if no service has Failover.
	Replay *replay.Arena
	// Guard recovers from panics in the server's goroutines; nil to let them end the process.
	Guard *mistake.Guard
	// Log gets a line for each session that ended and, up to a rate, for each client that got none (level info), and for each session
	// that began (level debug).
	Log *slog.Logger
	// Trace returns a session's place in a trace, from what its client said of one: nil if it said nothing valid. It may return nil for
	// none. Any goroutine calls it. nil leaves it at what the clients say.
	Trace func(client *Trace) *Trace
	// Refused hears of each client that gets no session, from any goroutine: it must not block, and not keep what it gets. nil for
	// nobody.
	Refused func(*Refused)
	// Ended gets the record of each session that has ended, on the session's loop: it must not block, and not keep the record. nil for
	// nobody.
	Ended func(*Record)
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

// Server answers clients.
type Server struct {
	// Static after NewServer.
	options Options
	process Process         // of the ids of sessions
	shards  []shard         // by loop; each is owned by its loop
	drained context.Context // ends when the server stops admitting clients
	drain   context.CancelFunc
	closing context.Context // ends when Close is called
	close   context.CancelFunc
	emptied chan struct{} // of size one, see Emptied

	// For any goroutine.
	limits    atomic.Pointer[Limits]
	origin    atomic.Pointer[origin.Policy] // nil to believe nobody
	routes    atomic.Pointer[routes]
	lastID    atomic.Uint64 // of a client whose request is routed
	begun     atomic.Uint64 // sessions
	active    atomic.Int64
	watching  atomic.Bool        // a session has been watched for stalls since the start
	stopped   atomic.Int64       // sessions that ended because the process does
	throttled atomic.Int64       // sessions whose client is held back by a limit
	refused   [600]atomic.Uint64 // by HTTP status
	auth      auth.Counters
	registry  registry
	history   history
	refusals  refusals
	limitLog  limitLog
	tls       tlsHandshakes
	taps      taps
	openings  unfinished
	board     board
	tlsTurns  tlsTurns
	pending   tasks // goroutines that accept, answer handshakes and search for connections

	accepting atomic.Int64 // goroutines that accept

	mu         sync.Mutex
	listeners  []net.Listener        // guarded by mu
	handshakes map[net.Conn]struct{} // guarded by mu
	orders     map[string]*order     // guarded by mu: by backend, see carryOut
	moveJobs   moveJobs              // has a mutex of its own
	closed     bool                  // guarded by mu
	rebalances bool                  // guarded by mu: rebalance runs
}

// shard is the part of the server's state that one event loop owns. Only that loop's goroutine touches it.
type shard struct {
	ended map[frame.CloseCode]uint64
}

// Stats describes the server at one instant.
type Stats struct {
	Active  int64                      // sessions whose client is still connected
	Total   uint64                     // sessions begun
	Refused map[int]uint64             // upgrade requests answered otherwise, by HTTP status
	Ended   map[frame.CloseCode]uint64 // sessions ended, by the client's close code
	TLS     []TLSHandshakes            // TLS handshakes of clients, by result and version
	// Handshakes is how many handshakes are unfinished, MaxHandshakes how many may be (0 for any number), and Dropped how many were dropped
	// since the start, by reason.
	Handshakes    int
	MaxHandshakes int
	Dropped       map[string]uint64
	Meters        meter.Snapshot  // what was counted for each backend, and in total
	Auth          []auth.Count    // clients that were authenticated or turned away
	Guard         auth.GuardStats // clients that were refused because authentication fails too often from their address

	HeldBack     int64          // sessions whose clients are held back by a limit
	Limits       []LimitReached // limits that were reached since the start, by kind
	LimitsLately []LimitReached // limits that are being reached
}

// NewServer returns a server that serves the listeners given to Serve. StopAccepting, EndAll and Close end it.
func NewServer(o Options) *Server {
	s := &Server{options: o, handshakes: make(map[net.Conn]struct{}), orders: make(map[string]*order), tlsTurns: newTLSTurns(), emptied: make(chan struct{}, 1), process: NewProcess()}
	s.registry.init()
	s.refusals.init(o.Log)
	s.limitLog.out = o.Log
	if o.Scopes == nil {
		s.options.Scopes = limits.NewRegistry()
	}
	s.tls.init(o.Log)
	s.openings.init(&storms{log: o.Log})
	s.drained, s.drain = context.WithCancel(context.Background())
	s.closing, s.close = context.WithCancel(context.Background())
	s.SetLimits(o.Limits)
	s.SetOrigin(o.Origin)
	s.shards = make([]shard, len(o.Loops.Loops()))
	if o.Meters == nil {
		s.options.Meters = meter.NewRegistry(len(s.shards))
	}
	for i := range s.shards {
		s.shards[i] = shard{ended: make(map[frame.CloseCode]uint64)}
	}
	s.SetServices(o.Services) // may start the board, which needs all else
	return s
}

// SetLimits changes the limits for clients that arrive from now on.
func (s *Server) SetLimits(l Limits) { s.limits.Store(&l) }

// SetOrigin changes who is believed about where clients come from, nil for nobody, for clients that arrive from now on.
func (s *Server) SetOrigin(p *origin.Policy) { s.origin.Store(p) }

// Serve accepts clients from the listener in a goroutine of its own until StopAccepting is called.
func (s *Server) Serve(listener net.Listener) { s.serve(listener, nil) }

// ServeTLS is Serve for clients that speak TLS. config returns the configuration for a new connection; any goroutine calls it.
func (s *Server) ServeTLS(listener net.Listener, config func() *tls.Config) {
	s.serve(listener, config)
}

func (s *Server) serve(listener net.Listener, config func() *tls.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = listener.Close()
		return
	}
	s.listeners = append(s.listeners, listener)
	s.accepting.Add(1)
	if !s.pending.Go(func() {
		defer s.accepting.Add(-1)
		s.accept(listener, config)
	}) {
		s.accepting.Add(-1)
	}
}

// accept is the accepting goroutine. config is nil for a listener without TLS.
func (s *Server) accept(listener net.Listener, config func() *tls.Config) {
	pause := time.Duration(0)
	for {
		nc, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // this machine is probably short of something: sessions go on, and idle connections make room
			if machine.OutOfDescriptors(err) && s.openings.dropOldest() {
				continue // a client that is slow costs no idle connection to a server
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			if !s.options.Descriptors.Failed(machine.Accepting, err) {
				s.options.Log.Warn("cannot accept a client", "error", err, "retry_in", pause)
			}
			select {
			case <-time.After(pause):
			case <-s.drained.Done():
			}
			continue
		}
		pause = 0
		begun := time.Now()
		limits := s.limits.Load()
		keepAlive(nc, limits.ClientTimeout)
		_ = nc.SetDeadline(begun.Add(limits.HandshakeTimeout)) // before track: Close sets a nearer one
		if !s.track(nc) {
			_ = nc.Close()
			return
		}
		s.openings.enter(nc, begun, s.crowdOf(nc), s.room(), func(o *opening, placed bool) {
			if !placed || !s.pending.Go(func() { s.begin(nc, config, begun, o) }) {
				_ = nc.Close()
				o.leave(false)
				s.untrack(nc)
			}
		})
	}
}

// begin answers a client that has a place among the unfinished handshakes.
func (s *Server) begin(nc net.Conn, config func() *tls.Config, begun time.Time, o *opening) {
	defer func() {
		s.untrack(nc)
		o.leave(false)
	}()
	defer s.options.Guard.Recover("handshake", func() { _ = nc.Close() })
	s.admit(nc, config, begun, o)
}

// maxHandshakes returns how many handshakes may be unfinished at present. They take no more than a part of the file descriptors.
func (s *Server) maxHandshakes() int {
	limit := s.limits.Load().MaxHandshakes
	if limit <= 0 {
		return math.MaxInt
	}
	return max(min(limit, s.options.Descriptors.Limit()/descriptorShare), 1)
}

// room returns how many clients may have a place or wait for one at present.
func (s *Server) room() room {
	places := s.maxHandshakes()
	line := lineFactor * min(places, math.MaxInt/lineFactor)
	return room{places, min(line, max(s.options.Descriptors.Limit()/descriptorShare, 1))}
}

// crowdOf returns the address whose unfinished handshakes a connection counts among. Those of load balancers' clients are not known yet.
func (s *Server) crowdOf(nc net.Conn) netip.Addr {
	peer := origin.AddressOf(nc.RemoteAddr())
	if s.origin.Load().Trusts(peer) {
		return netip.Addr{}
	}
	return peer.Addr()
}

// track notes a handshake, so that Close can cut it short. It returns false once the server is closed.
func (s *Server) track(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.handshakes[nc] = struct{}{}
	return true
}

func (s *Server) untrack(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handshakes, nc)
}

// StopAccepting closes the listeners. Sessions go on; the server refuses requests that have arrived.
func (s *Server) StopAccepting() {
	s.drain()
	s.StopListening()
}

// StopListening closes the listeners. Clients that have been accepted get their sessions; Arriving says how many have none yet.
func (s *Server) StopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, listener := range s.listeners {
		_ = listener.Close()
	}
	s.listeners = nil
}

// Arriving returns how many clients have been accepted that have neither a session nor an answer yet. After StopListening, it is 0 only when
// nobody comes any more.
func (s *Server) Arriving() int {
	accepting := int(s.accepting.Load()) // before the handshakes, to which it may add one
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) > 0 {
		accepting = 0
	}
	return accepting + len(s.handshakes)
}

// Active returns how many sessions have a client that is still connected.
func (s *Server) Active() int64 { return s.active.Load() }

// Emptied gets an element when there is no session any more. There may be one again by the time it is received: ask Active.
func (s *Server) Emptied() <-chan struct{} { return s.emptied }

// Stopped returns how many sessions EndAll and EndAllWithin have ended since the start.
func (s *Server) Stopped() int64 { return s.stopped.Load() }

// Begun returns how many sessions have begun since the start.
func (s *Server) Begun() uint64 { return s.begun.Load() }

// EndAll ends all sessions: their clients get a close frame with the code and reason. It must not be called on a loop.
func (s *Server) EndAll(code frame.CloseCode, reason string) {
	sessions, _ := s.registry.all()
	s.each(sessions, func(session *Session) { session.end(meter.Shutdown, code, reason) })
}

// Close cuts handshakes short and waits for their goroutines. Call StopAccepting before, and EndAll to end the sessions.
func (s *Server) Close() {
	s.close()
	s.mu.Lock()
	s.closed = true
	for nc := range s.handshakes {
		_ = nc.SetDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	s.openings.close()
	s.pending.End()
	s.refusals.close()
	s.limitLog.close()
	s.tls.close()
}

// Stats returns the exact counts, gathered loop by loop.
func (s *Server) Stats() Stats {
	stats := Stats{
		Active: s.active.Load(), Total: s.begun.Load(),
		Refused: make(map[int]uint64), Ended: make(map[frame.CloseCode]uint64),
		TLS: s.tls.counts(), Auth: s.auth.Counts(), Guard: s.options.AuthGuard.Stats(),
	}
	stats.HeldBack, stats.Limits, stats.LimitsLately = s.throttled.Load(), s.limitLog.total(), s.limitLog.lately()
	for status := range s.refused {
		if n := s.refused[status].Load(); n > 0 {
			stats.Refused[status] = n
		}
	}
	stats.Handshakes, stats.Dropped = s.openings.counts()
	if limit := s.maxHandshakes(); limit < math.MaxInt {
		stats.MaxHandshakes = limit
	}
	loops := s.options.Loops.Loops()
	for i, l := range loops {
		l.Call(func() {
			shard := &s.shards[i]
			for code, n := range shard.ended {
				stats.Ended[code] += n
			}
		})
	}
	stats.Meters = s.options.Meters.Snapshot(func(i int, f func()) { loops[i].Call(f) })
	return stats
}
