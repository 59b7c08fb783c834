package session

import (
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// Options are the settings of a server. Fields without a default are required.
type Options struct {
	// Services are the first services, see [Server.SetServices].
	Services []*route.Service
	// Loops are the event loops that own the backends' connections.
	Loops  *loop.Group
	Limits admission.Limits
	// Origin says who is believed about where clients come from; nil for nobody.
	Origin *origin.Policy
	// Health answers health checks; the zero value has none.
	Health admission.Health
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
	Guard *panics.Guard
	// Log gets a line for each session that ended and, up to a rate, for each client that got none (level info), and for each session
	// that began (level debug).
	Log *slog.Logger
	// Trace returns a session's place in a trace, from what its client said of one: nil if it said nothing valid. It may return nil for
	// none. Any goroutine calls it. nil leaves it at what the clients say.
	Trace func(client *record.Trace) *record.Trace
	// Refused hears of each client that gets no session, from any goroutine: it must not block, and not keep what it gets. nil for
	// nobody.
	Refused func(*record.Refused)
	// Ended gets the record of each session that has ended, on the session's loop: it must not block, and not keep the record. nil for
	// nobody.
	Ended func(*record.Record)
}

// Server answers clients: its gate admits them, and its sessions serve them.
type Server struct {
	*admission.Gate
	*Sessions
	*Jobs
	limitLog *limits.Log
}

// Stats describes the server at one instant.
type Stats struct {
	admission.Stats
	SessionsStats
	Limits       []limits.Reached // limits that were reached since the start, by kind
	LimitsLately []limits.Reached // limits that are being reached
}

// NewServer returns a server that serves the listeners given to Serve. StopAccepting, EndAll and Close end it.
func NewServer(o Options) *Server {
	s := new(Server)
	s.limitLog = limits.NewLog(o.Log)
	if o.Scopes == nil {
		o.Scopes = limits.NewRegistry()
	}
	if o.Meters == nil {
		o.Meters = meter.NewRegistry(len(o.Loops.Loops()))
	}
	process := record.NewProcess()
	s.Sessions = NewSessions(SessionsOptions{
		Loops: o.Loops, AskAgainAfter: o.AskAgainAfter, Meters: o.Meters, Scopes: o.Scopes, LimitLog: s.limitLog, Replay: o.Replay,
		Guard: o.Guard, Log: o.Log, Ended: o.Ended, Process: process,
	})
	s.Jobs = NewJobs(s.Sessions, o.Guard)
	s.Gate = admission.New(admission.Options{
		Limits: o.Limits, Origin: o.Origin, Health: o.Health, AuthGuard: o.AuthGuard, Descriptors: o.Descriptors, Scopes: o.Scopes, LimitLog: s.limitLog,
		Guard: o.Guard, Log: o.Log, Trace: o.Trace, Refused: o.Refused, Process: process,
		Waiting: s.Sessions, Begin: s.Sessions.Begin, Left: s.Sessions.Left, Tick: s.TellStates,
	})
	s.SetServices(o.Services) // may start the board, which needs all else
	return s
}

// SetServices replaces all services in one step. Sessions go on, whatever becomes of their service. No two services may have the
// same host and path.
func (s *Server) SetServices(services []*route.Service) {
	r := route.NewRoutes(services)
	s.SetRoutes(r)
	s.Jobs.SetServices(services, r)
	s.Gate.SetServices(services, r)
}

// Close cuts handshakes short and waits for all goroutines. Call StopAccepting before, and EndAll to end the sessions.
func (s *Server) Close() {
	s.Gate.Close()
	s.Jobs.Close()
	s.Sessions.Close()
	s.limitLog.Close()
}

// Stats returns the exact counts.
func (s *Server) Stats() Stats {
	return Stats{Stats: s.Gate.Stats(), SessionsStats: s.Sessions.Stats(), Limits: s.limitLog.Total(), LimitsLately: s.limitLog.Lately()}
}
