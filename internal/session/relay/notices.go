package relay

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// This file tells clients in their sessions how these fare: that another server has taken over, and that the service or the session is
// degraded. The board looks at that once a second, on the sessions' loops.

// endsWithServer is why a session is degraded that was to outlive its server.
const endsWithServer = "the session would end with its server"

// say sends the client a text message of the proxy's own. It returns false, and sends nothing, if the client has not got the last message of
// the backend as a whole.
func (s *Session) say(text string) bool {
	d := &s.leg.down
	switch {
	case s.leg.conn == nil || s.life.state != relaying || d.closed || d.partial:
		return false
	case s.failover == nil && !s.leg.conn.Scanner.AtMessageBoundary(): // otherwise the client gets whole messages
		return false
	}
	tap.Sent(s.client, frame.Text, []byte(text))
	s.client.Write(frame.AppendMessage(make([]byte, 0, frame.MaxHeaderSize+len(text)), frame.Text, true, []byte(text), false))
	return true
}

// sayMoved tells the client that another server continues its session.
func (s *Session) sayMoved() {
	if service := s.record.Service; service.TellClients && service.Profile.Tell().Moves() {
		s.say(service.Profile.Tell().Moved(service.Name))
	}
}

// sayState tells the client that its service or session is degraded, or no longer is, if it does not know that. why says why the service
// is; empty if it is not. A client that does not read hears of it later.
func (s *Session) sayState(why string) {
	if f := s.failover; why == "" && f != nil && !f.machine.Recoverable() && f.machine.State() != failover.Off {
		why = endsWithServer
	}
	if degraded := why != ""; degraded != s.life.degraded && s.client.Pending() == 0 {
		service := s.record.Service
		if s.say(service.Profile.Tell().Degraded(service.Name, why)) {
			s.life.degraded = degraded
		}
	}
}

// TellStates tells the clients of services that want that whether these are degraded. Admission's board calls it once a second.
func (s *Sessions) TellStates() {
	r := s.routes.Load()
	reasons := make(map[*pool.Group[*backend.Conn]]string)
	for _, service := range r.Services {
		if service.TellsState() {
			reasons[service.Group] = degradedBy(service.Group)
		}
	}
	if len(reasons) == 0 {
		return
	}
	s.Each(s.All(), func(session *Session) {
		if service := session.record.Service; service.TellsState() {
			session.sayState(reasons[service.Group])
		}
	})
}

// degradedBy returns why a service is degraded: sessions can begin on less than half of those backends that are to serve them. It returns
// an empty text if it is not.
func degradedBy(g *pool.Group[*backend.Conn]) string {
	loads, _ := g.Loads()
	enabled, usable := 0, 0
	for i := range loads {
		if loads[i].Enabled {
			enabled++
			if loads[i].Serves {
				usable++
			}
		}
	}
	if 2*usable >= enabled {
		return ""
	}
	return fmt.Sprintf("%d of %d servers take sessions", usable, enabled)
}
