// Package sim simulates inference servers, for tests, demonstrations and benchmarks.
//
// A [Server] listens on a TCP port and speaks WebSocket on event loops, so that one holds thousands of connections for
// little memory and CPU. It echoes messages, or speaks the protocol of a speech server ([Protocols]): its start, results,
// end, limits and what it keeps from one session to the next. The Vosk server's transcript depends on nothing but the audio:
// streams that were mixed up show. On request a server is slow, full, or fails in the ways that servers do ([FailOptions]),
// or does what makes connections unsafe to use again ([NastyOptions]), and dies, hangs and comes back when it is told to ([Server.Kill],
// [Server.Stall]). Its methods may be called from any goroutine.
//
// Audio can carry its identity: a [Mark] says which session's it is. Each result names whatever the recogniser decoded since
// its state was last cleared, in words such as "s17:3-5" (session 17, chunks 3 to 5), and so do settings that are in force
// (hot words of session 17: "s17:0"): whatever is left of another session shows.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Server is one simulated inference server. Its methods may be called from any goroutine.
type Server struct {
	// Static after Start.
	options  Options
	protocol *Protocol
	addr     *net.TCPAddr
	group    *loop.Group
	lanes    []*lane // by the loops' numbers

	tasks    sync.WaitGroup // the accept loop, the current handshakes, and what revives the server
	accepted atomic.Uint64  // connections
	ending   context.Context
	end      context.CancelFunc
	closed   sync.Once

	mu       sync.Mutex
	listener net.Listener       // guarded by mu; nil while the server is dead
	die      context.CancelFunc // guarded by mu; ends the present life
	over     bool               // guarded by mu; Close was called

	sessions sync.Map // see voice.sessions
	stalled  atomic.Bool
	slow     atomic.Uint64 // the bits of the factor

	total    atomic.Int64 // see Publish
	slots    slots
	places   slots // of sessions, for NastyOptions.Full
	cores    cores // of a slow server
	counters counters
}

// lane is what the connections of one loop share. It is owned by the loop's goroutine.
type lane struct {
	// out collects what a connection writes during one event, for one call of Write.
	out   []byte
	conns map[*conn]struct{}
}

// maxScratch is the largest buffer that a lane keeps from one event to the next, in bytes.
const maxScratch = 512 << 10

// Start listens and serves until Close.
func Start(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	group, err := loop.NewGroup(loop.Options{Min: o.Loops, Max: o.Loops})
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("starting event loops: %w", err)
	}
	s := &Server{options: o, addr: listener.Addr().(*net.TCPAddr), group: group, slots: slots{limit: o.Sessions}}
	s.protocol, _ = protocolNamed(o.Protocol) // checked by Validate
	s.places.limit, s.places.rate, s.places.tokens = o.Nasty.Full, float64(o.Nasty.Admissions), float64(o.Nasty.Admissions)
	if k := o.Fail.Streams; k > 0 {
		o.Fail.Slow, o.Fail.Cores = 1/float64(k), 1
	}
	s.cores.busy = make([]time.Time, o.Fail.Cores)
	s.cores.law = o.Fail.Law
	for range group.Loops() {
		s.lanes = append(s.lanes, &lane{conns: make(map[*conn]struct{})})
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.Slow(o.Fail.Slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live(listener)
	return s, nil
}

// leavePlace frees the place of a session that has ended, when its worker is back.
func (s *Server) leavePlace() {
	if s.protocol.away == 0 {
		s.places.release()
		return
	}
	time.AfterFunc(s.protocol.away, s.places.release)
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() *net.TCPAddr { return s.addr }

// URL returns the address for clients on this machine, such as ws://127.0.0.1:9001, or wss:// with TLS.
func (s *Server) URL() string {
	addr := *s.Addr()
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	scheme := "ws://"
	if s.options.TLS != nil {
		scheme = "wss://"
	}
	return scheme + addr.String()
}

// Close stops listening and closes all connections, as the end of a process does. It returns when all goroutines have ended.
func (s *Server) Close() {
	s.closed.Do(func() {
		s.mu.Lock()
		s.over = true
		if s.listener != nil {
			_ = s.listener.Close()
		}
		s.mu.Unlock()
		s.end()
		s.tasks.Wait()
		s.group.Close()
		s.slots.clear()
		s.places.clear()
	})
}

// CloseSessions starts the closing handshake on all connections. The server continues to accept connections.
func (s *Server) CloseSessions(code frame.CloseCode, reason string) {
	for i, l := range s.group.Loops() {
		lane := s.lanes[i]
		l.Post(func() {
			for k := range lane.conns {
				k.closeWith(code, reason)
				k.flush()
			}
		})
	}
}

// Stats are the counts of a server since Start.
type Stats struct {
	Connections    int    // open now
	Peak           int    // the highest value of Connections
	Accepted       uint64 // upgrades that were accepted
	Refused        uint64 // upgrades refused with an HTTP status: by a full server, for a bad key, or by Options.Admit
	BadRequests    uint64 // requests that were not a valid upgrade, or for another path
	Messages       uint64 // messages received
	ProtocolErrors uint64 // connections ended because the client broke RFC 6455
	AbruptEnds     uint64 // connections that the client ended in the middle of a session
}

type counters struct {
	badRequests, messages, protocolErrors, abruptEnds atomic.Uint64
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	stats := s.slots.stats()
	stats.BadRequests = s.counters.badRequests.Load()
	stats.Messages = s.counters.messages.Load()
	stats.ProtocolErrors = s.counters.protocolErrors.Load()
	stats.AbruptEnds = s.counters.abruptEnds.Load()
	return stats
}

// handshakeTimeout is how long a client may take to send its upgrade request.
const handshakeTimeout = 10 * time.Second

// accept accepts connections until the listener is closed, which is before life ends. Each handshake has its own goroutine.
func (s *Server) accept(life context.Context, listener net.Listener) {
	log := s.options.Logger
	for {
		nc, err := listener.Accept()
		if err == nil {
			number := s.accepted.Add(1)
			s.tasks.Go(func() { s.upgrade(life, nc, number) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Most likely no file descriptor is free at the moment.
		log.Warn("cannot accept connections", "error", err)
		select {
		case <-life.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// upgrade performs the handshake of TLS, if the server uses it, and the opening handshake, and hands the connection to a loop.
func (s *Server) upgrade(life context.Context, accepted net.Conn, number uint64) {
	stop := context.AfterFunc(life, func() { _ = accepted.Close() })
	defer stop()
	_ = accepted.SetDeadline(time.Now().Add(handshakeTimeout))
	nc := accepted
	if s.options.TLS != nil {
		nc = secure.Server(accepted, s.options.TLS, nil)
	}
	dice := rand.New(rand.NewPCG(s.options.Seed, number))
	request, placed, refuse := s.admit(nc, dice)
	if refuse != nil {
		refuse(nc)
		return
	}
	if request == nil {
		_ = accepted.Close()
		return
	}
	if tcp, ok := accepted.(*net.TCPConn); ok && s.options.Fail.Reset > 0 {
		// From now on, closing the socket resets the connection, unless the stream was ended before.
		_ = tcp.SetLinger(0) // fails only if the connection is broken, which the next write shows
	}
	if err := s.hand(life, nc, stop, request, placed, dice); err != nil {
		s.giveBack(placed)
		_ = accepted.Close()
		s.options.Logger.Debug("a client left during its handshake", "error", err)
	}
}

// giveBack frees the slot, and the place, of a connection that did not begin.
func (s *Server) giveBack(placed bool) {
	s.slots.release()
	if placed {
		s.places.release()
	}
}

// admit reads a request and takes a slot for it, and a place for a session if the protocol takes it at connect. Otherwise it returns
// a function that refuses the client. It returns neither if the client has left.
func (s *Server) admit(nc net.Conn, dice *rand.Rand) (_ *handshake.Request, placed bool, refuse func(net.Conn)) {
	request, err := handshake.ReadRequest(nc, handshake.DefaultMaxHead)
	var refusal *handshake.Refusal
	if err == nil && s.publish(nc, request.Request) {
		return nil, false, nil
	}
	switch {
	case errors.As(err, &refusal):
	case err != nil:
		return nil, false, nil
	default:
		if refusal = request.Check(); refusal == nil && s.options.Path != "" && request.URL.Path != s.options.Path {
			refusal = &handshake.Refusal{Status: http.StatusNotFound, Reason: fmt.Sprintf("the path is %s, not %.100q", s.options.Path, request.URL.Path)}
		}
	}
	if refusal != nil {
		s.counters.badRequests.Add(1)
		return nil, false, refuseWith(refusal)
	}
	if wrong, _ := s.wrongKey(request.Request); wrong && s.refusesByStatus() {
		s.slots.refuse()
		id := uuid(dice)
		return nil, false, func(nc net.Conn) { s.protocol.auth.refuse(nc, id) }
	}
	if s.options.Admit != nil {
		if status := s.options.Admit(request.Request); status != 0 {
			s.slots.refuse()
			return nil, false, refuseWith(&handshake.Refusal{Status: status, Reason: "refused on request"})
		}
	}
	if p := s.options.Fail.Refuse; p > 0 && dice.Float64() < p {
		s.slots.refuse()
		return nil, false, refuseWith(full("refused on request"))
	}
	if !s.slots.take() {
		return nil, false, refuseWith(full(fmt.Sprintf("all %d sessions are in use", s.options.Sessions)))
	}
	if status := s.protocol.fullStatus; status != 0 {
		if placed = s.places.take(); !placed {
			s.slots.giveBack()
			refusal := full("no place for another session")
			refusal.Status = status
			return nil, false, refuseWith(refusal)
		}
	}
	return request, placed, nil
}

// refuseWith returns a function that sends a refusal.
func refuseWith(refusal *handshake.Refusal) func(net.Conn) {
	return func(nc net.Conn) { handshake.Refuse(nc, refusal) }
}

func full(reason string) *handshake.Refusal {
	return &handshake.Refusal{Status: http.StatusServiceUnavailable, Reason: reason, Header: handshake.RetryAfter(1)}
}

// hand accepts the upgrade and hands the connection to a loop.
func (s *Server) hand(life context.Context, nc net.Conn, stop func() bool, request *handshake.Request, placed bool, dice *rand.Rand) error {
	if _, err := nc.Write(request.AppendAccept(nil, s.subprotocolOf(request.Request))); err != nil {
		return err
	}
	if err := nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if !stop() {
		return net.ErrClosed
	}
	socket, err := loop.Detach(nc)
	if err != nil {
		_ = nc.Close()
		return err
	}
	l := s.group.Pick()
	if !l.Post(func() { s.serve(l, socket, request, life, placed, dice) }) {
		socket.Close()
		return loop.ErrStopped
	}
	return nil
}

// slots counts connections exactly. A connection counts from before its upgrade is accepted until the server starts to end it,
// which is before the client can see the end. Its methods may be called from any goroutine.
type slots struct {
	limit int     // static; 0 for no limit
	rate  float64 // static; how many are taken in a second at most; 0 for no limit

	mu                sync.Mutex
	tokens            float64   // of the rate
	filled            time.Time // when the tokens were counted
	open, peak        int
	accepted, refused uint64
}

// take takes a slot for a connection. It returns false if all are taken.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && s.open >= s.limit || !s.admits() {
		s.refused++
		return false
	}
	s.open++
	s.peak = max(s.peak, s.open)
	s.accepted++
	return true
}

// admits reports whether the rate lets another one in. The caller holds mu.
func (s *slots) admits() bool {
	if s.rate == 0 {
		return true
	}
	now := time.Now()
	if !s.filled.IsZero() {
		s.tokens = min(s.rate, s.tokens+now.Sub(s.filled).Seconds()*s.rate)
	}
	if s.filled = now; s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

// refuse counts an upgrade that was refused for a reason other than the limit.
func (s *slots) refuse() {
	s.mu.Lock()
	s.refused++
	s.mu.Unlock()
}

// giveBack counts an accepted upgrade as refused instead.
func (s *slots) giveBack() {
	s.mu.Lock()
	s.open--
	s.accepted--
	s.refused++
	s.mu.Unlock()
}

// release frees a slot.
func (s *slots) release() {
	s.mu.Lock()
	s.open = max(0, s.open-1) // all may have been freed meanwhile
	s.mu.Unlock()
}

// clear frees the slots of connections that ended with their loops.
func (s *slots) clear() {
	s.mu.Lock()
	s.open = 0
	s.mu.Unlock()
}

func (s *slots) stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Connections: s.open, Peak: s.peak, Accepted: s.accepted, Refused: s.refused}
}

// How a server dies, hangs and falls behind, and how it comes back: at random, as FailOptions say, or when it is told to.

// errClosed is returned by Revive after Close.
var errClosed = errors.New("the simulated server was closed")

// How long Revive tries to get the server's port back.
const (
	reviveWithin = 5 * time.Second
	reviveEvery  = 20 * time.Millisecond
)

// live begins to accept connections. The caller holds mu.
func (s *Server) live(listener net.Listener) {
	life, die := context.WithCancel(s.ending)
	s.listener, s.die = listener, die
	s.tasks.Go(func() {
		defer die()
		s.accept(life, listener)
	})
}

// Kill ends the server as the end of its process does: it refuses connections from now on, and those that it has end, each in the middle
// of a frame. It does nothing if the server is dead already. It returns when all have ended. No loop may call it.
func (s *Server) Kill() {
	s.mu.Lock()
	if s.listener == nil || s.over {
		s.mu.Unlock()
		return
	}
	_ = s.listener.Close()
	s.die()
	s.listener = nil
	s.mu.Unlock()
	s.each(func(k *conn) { k.die() })
	s.stalled.Store(false) // its successor does not hang
}

// Revive accepts connections again at the same address, as a process does that was started again. It does nothing if the server is
// alive. An error says that another process has taken the port meanwhile.
func (s *Server) Revive() error {
	deadline := time.Now().Add(reviveWithin)
	for {
		err := s.revive()
		if err == nil || errors.Is(err, errClosed) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-s.ending.Done():
			return errClosed
		case <-time.After(reviveEvery):
		}
	}
}

func (s *Server) revive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errClosed
	case s.listener != nil:
		return nil
	}
	listener, err := net.Listen("tcp", s.addr.String())
	if err != nil {
		return fmt.Errorf("listening again: %w", err)
	}
	s.live(listener)
	return nil
}

// runOutOfMemory lets the server die for as long as FailOptions.OOMFor says. Loops may call it.
func (s *Server) runOutOfMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.listener == nil {
		return
	}
	s.tasks.Go(func() {
		s.Kill()
		select {
		case <-s.ending.Done():
			return
		case <-time.After(cmp.Or(s.options.Fail.OOMFor, defaultOOM)):
		}
		if err := s.Revive(); err != nil && !errors.Is(err, errClosed) {
			s.options.Logger.Error("the server stays dead", "error", err)
		}
	})
}

// Stall lets the server hang as one does whose GPU hangs: it accepts connections, greets clients, and answers pings and closes, but nothing
// else. (An echo server without latency and failures reads nothing, not even pings.) It returns when that holds for all connections. No
// loop may call it.
func (s *Server) Stall() {
	s.stalled.Store(true)
	s.each((*conn).throttle)
}

// Resume ends Stall. The server answers what it has got meanwhile.
func (s *Server) Resume() {
	s.stalled.Store(false)
	s.each(func(k *conn) {
		if k.replies != nil {
			k.replies.resume()
		}
		k.flush()
	})
}

// Slow sets how many seconds the server needs for a second of audio, as FailOptions.Slow does. 0 is no time.
func (s *Server) Slow(factor float64) { s.slow.Store(math.Float64bits(factor)) }

func (s *Server) slowness() float64 { return math.Float64frombits(s.slow.Load()) }

// each calls do with each open connection, on its loop, and returns when that is done.
func (s *Server) each(do func(k *conn)) {
	for i, l := range s.group.Loops() {
		lane := s.lanes[i]
		l.Call(func() { // or the server was closed
			for k := range lane.conns {
				do(k)
			}
		})
	}
}
