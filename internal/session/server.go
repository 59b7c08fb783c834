package session

import (
	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/session/jobs"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/relay"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
)

// Options are the settings of a server, handed on to its parts as they are.
type Options struct {
	// Shared is what all parts have in common. The server ends its LimitLog.
	Shared record.Shared
	// Services are the first services, see [Server.SetServices].
	Services  []*route.Service
	Admission admission.Options
	Relay     relay.Options
}

// Server answers clients: its gate admits them, its sessions serve them, and its jobs work on many sessions.
type Server struct {
	*admission.Gate
	*relay.Sessions
	*jobs.Jobs
	limitLog *limits.Log
}

// Stats describes the server at one instant.
type Stats struct {
	admission.Stats
	relay.SessionsStats
	Limits       []limits.Reached  // limits that were reached since the start, by kind
	LimitsLately []limits.Reached  // limits that are being reached
	Limited      map[string]uint64 // clients that a limit of their tenant has refused, see limits.Log.Refused
}

// NewServer returns a server that serves the listeners given to Serve. StopAccepting, EndAll and Close end it.
func NewServer(o Options) *Server {
	s := &Server{limitLog: o.Shared.LimitLog}
	s.Sessions = relay.NewSessions(o.Shared, o.Relay)
	s.Jobs = jobs.New(s.Sessions, o.Shared.Guard)
	s.Gate = admission.New(o.Shared, o.Admission, s.Sessions)
	s.SetServices(o.Services) // may start the board, which needs all else
	return s
}

// SetServices replaces all services in one step. Sessions continue, whatever becomes of their service. No two services may have
// the same host and path.
func (s *Server) SetServices(services []*route.Service) {
	r := route.NewRoutes(services)
	s.Sessions.SetRoutes(r)
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
	return Stats{Stats: s.Gate.Stats(), SessionsStats: s.Sessions.Stats(), Limits: s.limitLog.Total(), LimitsLately: s.limitLog.Lately(), Limited: s.limitLog.Refused()}
}
