package resume

import (
	"container/list"
	"log/slog"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/protocol/replay"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
)

// Lines are all lines of a process. Any goroutine may use it.
type Lines struct {
	// Static.
	process record.Process
	arena   *replay.Arena
	log     *slog.Logger

	// Unfinished bounds what waits of messages from clients, also of those who cannot come back.
	Unfinished Unfinished

	mu      sync.Mutex
	byToken map[string]*Line     // guarded by mu
	parked  list.List            // guarded by mu: of *Line, the one that has waited longest first
	crowds  map[crowd]*list.List // guarded by mu: the same by crowd; none is empty
	closed  bool                 // guarded by mu
	ending  bool                 // guarded by mu: a line was told to give up, to make room
	lines   int                  // guarded by mu
	over    int                  // guarded by mu: of the parked ones, those whose sessions are over
	overOf  map[crowd]int        // guarded by mu: the same by crowd, and by tenant alone
	stats   Stats                // guarded by mu
}

// crowd is the clients of one network of a tenant. What all lines share is shared among crowds.
type crowd struct{ tenant, network string }

// whole stands for all crowds of a tenant.
func (c crowd) whole() crowd { return crowd{c.tenant, "all"} }

// shares returns what a crowd's lines count for.
func (c crowd) shares() [2]crowd { return [...]crowd{c, c.whole()} }

// mayHave reports whether all may have so much of a limit. A tenant has at most as much as it leaves free, and a network as much as it leaves of what
// its tenant may still have.
func mayHave[N int | int64](limit, all, tenant, network N) bool {
	free := limit - all - tenant
	return free > 0 && (network == 0 || network < free)
}

// Stats are the counts of all lines since the start.
type Stats struct {
	Lines   int    // that a client could come back to, and has perhaps not left
	Parked  int    // sessions that wait for their client now
	Lost    uint64 // connections that broke, so that a session waited
	Resumed uint64 // clients that came back
	Expired uint64 // sessions whose client did not, or that had to make room
	Refused uint64 // clients that came with a token that was good for nothing
}

// NewLines returns an empty set. What is kept for clients lies in the arena; nil if no client comes back.
func NewLines(shared record.Shared, a *replay.Arena) *Lines {
	return &Lines{
		process: shared.Process, arena: a, log: shared.Log,
		byToken: make(map[string]*Line), crowds: make(map[crowd]*list.List), overOf: make(map[crowd]int),
	}
}

// Stats returns the counts.
func (s *Lines) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Lines, stats.Parked = s.lines, s.parked.Len()
	return stats
}

// Close ends the waits for clients, and lets none begin. It does not wait for that.
func (s *Lines) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for e := s.parked.Front(); e != nil; e = e.Next() {
		l := e.Value.(*Line)
		l.Post(l.giveUp)
	}
}

// Knows returns an error unless a token is one of a client of the service, whatever its credential is.
func (s *Lines) Knows(token, service string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := s.byToken[token]; line != nil && line.service == service {
		return nil
	}
	s.stats.Refused++
	return errGone
}

// Find returns the line that a token is good for, if it is that of a client of the service with the same credential, or another one of the same
// subject. The error is the same whatever is wrong.
func (s *Lines) Find(token, service string, c *record.Client) (*Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := s.byToken[token]; line != nil && line.service == service && same(&line.who, c.Identity) && line.hash == c.CredentialHash {
		return line, nil
	}
	s.stats.Refused++
	return nil, errGone
}

// same reports whether a client is known by the same names as another one: zero or nil for none.
func same(a, b *identity.Identity) bool {
	if b == nil {
		b = new(identity.Identity)
	}
	return a.Method == b.Method && a.Tenant == b.Tenant && a.Subject == b.Subject && a.Key == b.Key && a.Serial == b.Serial
}

func (s *Lines) add(token string, l *Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byToken[token] = l
	s.lines++
}

func (s *Lines) forget(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byToken, token)
}

// maxOver is how many lines wait at most whose sessions are over: these have no place at a server that bounds them.
const maxOver = 4096

// park counts a line among those that wait. It has a place at a server, or its session is over. It returns false if none may wait any more.
func (s *Lines) park(l *Line, places bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(l)
	if s.closed || !places && !s.mayBeOver(l.crowd) {
		return false
	}
	if places {
		s.stats.Lost++
	} else {
		s.countOver(l, 1)
	}
	all := s.crowds[l.crowd]
	if all == nil {
		all = new(list.List)
		s.crowds[l.crowd] = all
	}
	l.place, l.among, l.places = s.parked.PushBack(l), all.PushBack(l), places
	return true
}

func (s *Lines) mayBeOver(c crowd) bool {
	return mayHave(maxOver, s.over, s.overOf[c.whole()], s.overOf[c])
}

func (s *Lines) countOver(l *Line, n int) {
	s.over += n
	for _, c := range l.crowd.shares() {
		if s.overOf[c] += n; s.overOf[c] == 0 {
			delete(s.overOf, c)
		}
	}
}

func (s *Lines) leave(l *Line) {
	if l.place != nil {
		if !l.places {
			s.countOver(l, -1)
		}
		s.parked.Remove(l.place)
		all := s.crowds[l.crowd]
		if all.Remove(l.among); all.Len() == 0 {
			delete(s.crowds, l.crowd)
		}
		l.place, l.among = nil, nil
	}
}

// resumed gives a line, whose client is back with a token, the next one. The former stays good until the client has shown that it has that.
func (s *Lines) resumed(l *Line, with string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(l)
	s.stats.Resumed++
	for _, token := range [...]string{l.token, l.former} {
		if token != with {
			delete(s.byToken, token)
		}
	}
	l.former, l.token = with, NewToken(s.process)
	s.byToken[l.token] = l
}

// gaveUp is called when a line was to give up, with whether its client was not back.
func (s *Lines) gaveUp(l *Line, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = false
	if lost {
		s.stats.Expired++
		s.leave(l)
		s.drop(l)
	}
}

// remove forgets a line.
func (s *Lines) remove(l *Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(l)
	s.drop(l)
}

func (s *Lines) drop(l *Line) {
	if s.byToken[l.token] == l {
		s.lines--
	}
	delete(s.byToken, l.token)
	delete(s.byToken, l.former)
}

// EndOldest ends the session of a service that has waited longest for its client, among those of the tenant that has most such sessions, so that
// another client can have its place. It returns false if none waits.
func (s *Lines) EndOldest(service string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := make(map[string]int)
	most := 0
	for e := s.parked.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*Line); l.service == service && l.places {
			waiting[l.crowd.tenant]++
			most = max(most, waiting[l.crowd.tenant])
		}
	}
	for e := s.parked.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*Line); l.service == service && l.places && waiting[l.crowd.tenant] == most {
			s.leave(l)
			return l.Post(l.giveUp)
		}
	}
	return false
}

// scarce is the part of the arena, in eighths, from which on lines that wait make room for each other.
const scarce = 7

// makeRoom ends the line that has waited longest of the crowd that has most, if memory is scarce and a line needs some. A crowd without one gives
// back something else once memory is used up.
func (s *Lines) makeRoom(needs *Line) {
	if s.arena.Used() < s.arena.Limit()/8*scarce {
		return
	}
	tenant, network := s.arena.Payer(&needs.kept.window)
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.crowds[crowd{tenant, network}]; all != nil && !s.ending {
		l := all.Front().Value.(*Line)
		s.ending = l.Post(l.giveUp)
	}
}
