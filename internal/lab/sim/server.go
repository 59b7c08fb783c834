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
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
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

	stalled atomic.Bool
	slow    atomic.Uint64 // the bits of the factor

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
	s.places.limit = o.Nasty.Full
	s.cores.busy = make([]time.Time, o.Fail.Cores)
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
