package session

import (
	"runtime"
	"unsafe"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// A process whose sessions end in no order keeps the memory of nearly all of them until the last ones end: each page of the runtime holds
// ten sessions, a page goes back to the system when all of them have ended, and the runtime never moves an object. So this file does.

const (
	// pageSize is the size of the smallest pages of the runtime.
	pageSize = 8 << 10
	// packed is how many sessions fit into a page. An array of that size has a page of its own. The runtime adds a header of a word.
	packed = (pageSize - unsafe.Sizeof(uintptr(0))) / unsafe.Sizeof(Session{})
	// compactBatches is how many times at most Compact frees what it has moved sessions out of, so that it needs little more memory meanwhile.
	compactBatches  = 8
	minCompactBatch = 1000
)

// compactor moves sessions to fresh pages. Only one goroutine uses it at a time.
type compactor struct {
	room []Session // what is left of the last page
	legs profile.Compactor
}

// Compact moves the sessions to fresh memory, close together, so that what those leave behind that have ended can go back to the system, with the
// next garbage collections. Sessions that are moving, ending or tapped stay where they are. What belongs to their connections stays,
// too. It is worth while when many sessions have ended and few will begin. It must not be called on a loop, and holds none for long.
func (s *Server) Compact() {
	clients := s.registry.oldestFirst() // the order in which they were allocated, so that the first ones leave whole pages
	batch := max(minCompactBatch, (len(clients)+compactBatches-1)/compactBatches)
	var c compactor
	for len(clients) > 0 {
		turn := clients[:min(batch, len(clients))]
		clients = clients[len(turn):]
		s.each(turn, c.move)
		if len(clients) > 0 {
			runtime.GC()
		}
	}
}

// move moves a session. It is called on the session's loop, while no event of the session is being handled.
func (c *compactor) move(s *Session) {
	if !s.canBeMoved() {
		return
	}
	if len(c.room) == 0 {
		c.room = make([]Session, packed)
	}
	to := &c.room[0]
	c.room = c.room[1:]
	s.moveInto(to)
	c.legs.Move(to.leg.conn.Boundary())
}

// canBeMoved reports whether all pointers to the session are known. One that searches for another connection is known to the search, and a
// tapped one to its observers.
func (s *Session) canBeMoved() bool {
	return s.life.state == relaying && s.leg.conn != nil && s.search == nil && s.tap == nil
}

// moveInto makes to the session. Nothing is left of s but zeros, so that whoever goes on to use it panics instead of doing something
// unnoticed.
func (s *Session) moveInto(to *Session) {
	s.timer.Take()
	s.deadline.Take()
	*to = *s
	if s.leg.up.scanner == &s.scanner { // otherwise failover's
		to.leg.up.scanner = &to.scanner
	}
	if to.limited != nil {
		to.limited.clientSide = (*clientSide)(to)
	}
	if to.failover != nil {
		to.failover.session = to
	}
	to.client.SetHandler(to.handler())
	to.leg.conn.Stream().SetHandler((*backendSide)(to))
	to.timer.Put()
	to.deadline.Put()
	to.client.Loop().Handling(to.client)
	*s = Session{}
}
