package relay

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/resume"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Options are the settings that all sessions share. Fields without a default are required.
type Options struct {
	// Loops are the event loops that own the backends' connections.
	Loops *loop.Group
	// AskAgainAfter is how long after an answer an [auth.Asker] is asked once more about a client; 0 for a minute.
	AskAgainAfter time.Duration
	// Meters has the counters of the backends; default one without backends.
	Meters *meter.Registry
	// Replay is the memory for what clients have sent and no server has answered for good, and for what clients that come back have missed; nil if no
	// service has Failover or Reconnect.
	Replay *replay.Arena
	// Book gets what each client that leaves has used since the last call of [Sessions.Usage], on the session's loop: it must not block. May be nil.
	Book func(Usage)
	// Ended gets the record of each session that has ended, on the session's loop: it must not block, nor keep the record. May be nil.
	Ended func(*record.Record)
}

// Sessions are all sessions of a process, and what they share. Any goroutine may use it.
type Sessions struct {
	// Static after NewSessions.
	shared  record.Shared
	options Options
	shards  []shard         // by loop; each is owned by its loop
	closing context.Context // ends when Close is called
	close   context.CancelFunc
	emptied chan struct{} // of size one, see Emptied

	// For any goroutine.
	routes    atomic.Pointer[route.Routes]
	begun     atomic.Uint64 // sessions
	active    atomic.Int64
	stopped   atomic.Int64 // sessions that ended because the process does
	throttled atomic.Int64 // sessions whose client is held back by a limit
	registry  registry
	history   record.History
	taps      tap.Registry
	lines     *resume.Lines
	pending   tasks.Group // goroutines that search for connections, ask about clients again, and bring sessions under new limits
}

// shard is the part of the sessions' counts that one event loop owns. Only that loop's goroutine touches it.
type shard struct {
	ended map[frame.CloseCode]uint64
}

// NewSessions returns an empty set of sessions. EndAll ends the sessions, and Close what works on them.
func NewSessions(shared record.Shared, o Options) *Sessions {
	if o.Meters == nil {
		o.Meters = meter.NewRegistry(len(o.Loops.Loops()))
	}
	s := &Sessions{shared: shared, options: o, emptied: make(chan struct{}, 1)}
	s.registry.init()
	s.lines = resume.NewLines(shared, o.Replay)
	s.closing, s.close = context.WithCancel(context.Background())
	s.shards = make([]shard, len(o.Loops.Loops()))
	for i := range s.shards {
		s.shards[i] = shard{ended: make(map[frame.CloseCode]uint64)}
	}
	return s
}

// SetRoutes replaces all services in one step. Sessions continue, whatever becomes of their service.
func (s *Sessions) SetRoutes(r *route.Routes) { s.routes.Store(r) }

// All returns all sessions, in no order. What belongs to a session's loop may be used in Each only.
func (s *Sessions) All() []*Session {
	all, _ := s.registry.all()
	return all
}

// Find returns the session of that id; nil if there is none.
func (s *Sessions) Find(id record.ID) *Session {
	if id.Process != s.shared.Process {
		return nil
	}
	session, _ := s.registry.find(id.Number)
	return session
}

// Left ends the taps of a client that goes without a session after its request was read.
func (s *Sessions) Left(id record.ID) { s.taps.Left(id) }

// Active returns how many sessions have a client that is still connected.
func (s *Sessions) Active() int64 { return s.active.Load() }

// Emptied gets an element when no session is left. There may be one again by the time it is received: ask Active.
func (s *Sessions) Emptied() <-chan struct{} { return s.emptied }

// Stopped returns how many sessions have ended since the start because the process does: by EndAll, or by the jobs' EndAllWithin.
func (s *Sessions) Stopped() int64 { return s.stopped.Load() }

// Begun returns how many sessions have begun since the start.
func (s *Sessions) Begun() uint64 { return s.begun.Load() }

// EndAll ends all sessions: their clients get a close frame with the code and reason. It must not be called on a loop.
func (s *Sessions) EndAll(code frame.CloseCode, reason string) {
	s.Each(s.All(), func(session *Session) { session.End(meter.Shutdown, code, reason) })
}

// Close ends what works on sessions, and waits for its goroutines. Call EndAll to end the sessions.
func (s *Sessions) Close() {
	s.close()
	s.lines.Close()
	s.pending.End()
}

// AddWaiting, RemoveWaiting and AllWaiting implement a part of [admission.Sessions].
func (s *Sessions) AddWaiting(w *record.Waiting) { s.registry.addWaiting(w) }

// RemoveWaiting removes the client of that number, if it waits.
func (s *Sessions) RemoveWaiting(number uint64) { s.registry.removeWaiting(number) }

// AllWaiting returns all clients that wait, in no order.
func (s *Sessions) AllWaiting() []*record.Waiting {
	_, clients := s.registry.all()
	return clients
}

// SessionsStats are the counts of sessions at one instant.
type SessionsStats struct {
	Active   int64                      // sessions whose client is still connected
	Total    uint64                     // sessions begun
	Ended    map[frame.CloseCode]uint64 // sessions ended, by the client's close code
	Meters   meter.Snapshot             // what was counted for each backend, and in total
	HeldBack int64                      // sessions whose clients are held back by a limit
	Resume   resume.Stats               // clients whose connection broke
}

// Stats returns the exact counts, gathered loop by loop.
func (s *Sessions) Stats() SessionsStats {
	stats := SessionsStats{Active: s.active.Load(), Total: s.begun.Load(), Ended: make(map[frame.CloseCode]uint64), HeldBack: s.throttled.Load(), Resume: s.lines.Stats()}
	loops := s.options.Loops.Loops()
	for i, l := range loops {
		l.Call(func() {
			for code, n := range s.shards[i].ended {
				stats.Ended[code] += n
			}
		})
	}
	stats.Meters = s.options.Meters.Snapshot(func(i int, f func()) { loops[i].Call(f) })
	return stats
}
