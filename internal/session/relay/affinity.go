package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// maxUnnamed is how many of a session's first messages from servers are searched for an id.
const maxUnnamed = 64

// affinity brings a client back to the server that has given it an id, and learns the id that its server gives it. It is owned by the session's loop.
// A session has none if its profile knows no ids.
type affinity struct {
	session *Session
	profile *profile.Affinity // static
	memory  *route.Affinity   // static
	named   *route.Named      // the session's id; nil for none
	wanted  *backend.Backend  // the server that has given it, until it is known whether the session gets there; nil after that
	said    bool              // the client's request had an id, or its first message has been asked for

	gatherer assembly // of what the client gets
	left     int      // how many messages are still searched for an id
}

func newAffinity(s *Session, c *record.Client) *affinity {
	service := s.record.Service
	if service.Affinity == nil {
		return nil
	}
	a := &affinity{session: s, profile: service.Profile.Affinity(), memory: service.Affinity, named: c.Named, said: c.SaysID, left: maxUnnamed}
	a.gatherer.most, s.learns = a.profile.Longest(), true
	switch {
	case c.Named != nil:
		a.wanted = c.Named.Backend
	case c.SaysID:
		a.came(route.Miss)
	}
	return a
}

// came notes what has become of a client that has said an id.
func (a *affinity) came(r route.Return) {
	a.wanted = nil
	a.session.record.Return = r
	a.memory.Count(r)
}

// beginLeg begins the lease of a connection, right after the boundary's Begin. greeting is what the client has got before its session.
func (a *affinity) beginLeg(conn *backend.Conn, greeting []byte) {
	if a == nil {
		return
	}
	switch {
	case a.wanted != nil && a.wanted == conn.Backend():
		a.came(route.Hit)
	case a.wanted != nil:
		a.came(route.Gone)
	case !a.said:
		conn.Boundary().SetGuide(a.leadsElsewhere)
	}
	a.said = true
	if a.session.failover == nil {
		a.pass(greeting)
	}
}

// endLeg ends the lease of a connection. The next one's boundary asks about the client's first message if this one's has not got it.
func (a *affinity) endLeg(conn *backend.Conn) {
	if a != nil && conn.Boundary().AwaitsGuide() {
		a.said = false
	}
}

// leadsElsewhere is a [profile.Guide].
func (a *affinity) leadsElsewhere(id string) bool {
	s := a.session
	a.named = a.memory.Find(s.record.Identity, id)
	switch {
	case a.named == nil:
		a.came(route.Miss)
	case a.named.Backend == s.leg.conn.Backend():
		a.came(route.Hit)
	case !a.named.Backend.Pool().Offers(s.variant):
		a.came(route.Gone)
	default:
		a.wanted = a.named.Backend
	}
	return a.wanted != nil
}

// lead has a search prefer the server that the session moves to, or has come to, but whose connection other sessions have left settings on.
func (a *affinity) lead(w *pool.Waiter[*backend.Conn], why profile.Reason) {
	switch {
	case a == nil:
	case a.wanted != nil:
		w.Ahead, w.Prefer = true, a.wanted.Pool()
	case why == profile.OtherSettings && a.session.record.Return == route.Hit:
		w.Prefer = a.session.record.Backend.Pool()
	}
}

// pass looks for the id in data frames that the client gets.
func (a *affinity) pass(b []byte) {
	for len(b) > 0 && a.session.learns {
		m, n, is := a.gatherer.next(b)
		switch is {
		case gatheredPart:
			return
		case gatheredWhole:
			payload := m.payload
			if !m.single {
				payload = m.appendPayload(nil)
			}
			a.got(m.op, payload)
		case gatheredTooLong:
			a.gatherer.skip()
		case gatheredRest:
			a.got(m.op, nil)
		}
		b = b[n:]
	}
}

// got looks for the id in a message that the client gets.
func (a *affinity) got(op frame.Opcode, payload []byte) {
	a.left--
	if id := a.profile.Given(op, payload); id != "" {
		a.left = 0
		a.memory.End(a.named)
		a.named = a.memory.Learn(a.session.record.Identity, id, a.session.leg.conn.Backend(), a.profile.For())
	}
	if a.left == 0 {
		a.session.learns = false
		a.gatherer.reset()
	}
}

// end ends the session of a client.
func (a *affinity) end() {
	if a == nil {
		return
	}
	if a.wanted != nil { // it never began there, nor elsewhere
		a.came(route.Gone)
	}
	a.gatherer.reset()
	a.memory.End(a.named)
	a.named = nil
}
