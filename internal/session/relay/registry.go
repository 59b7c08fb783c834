package relay

import (
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// registry knows all sessions and all clients that wait for their first connection, by the numbers of their ids. It is locked when one
// of them begins or ends, and never while a frame passes. It may be used from any goroutine.
type registry struct{ parts [registryParts]registryPart }

// registryParts is a power of two. With 9,000 sessions, a part is locked for some microseconds while they are listed.
const registryParts = 64

type registryPart struct {
	mu       sync.Mutex
	sessions map[uint64]*Session        // guarded by mu
	waiting  map[uint64]*record.Waiting // guarded by mu
}

func (r *registry) init() {
	for i := range r.parts {
		r.parts[i].sessions, r.parts[i].waiting = make(map[uint64]*Session), make(map[uint64]*record.Waiting)
	}
}

func (r *registry) part(number uint64) *registryPart { return &r.parts[number%registryParts] }

// add adds a session. If its client has waited, the session takes that place, and add returns what was there: no one sees both, or none.
func (r *registry) add(s *Session) (waited *record.Waiting) {
	p := r.part(s.record.ID.Number)
	p.mu.Lock()
	defer p.mu.Unlock()
	waited = p.waiting[s.record.ID.Number]
	delete(p.waiting, s.record.ID.Number)
	p.sessions[s.record.ID.Number] = s
	return waited
}

func (r *registry) remove(s *Session) {
	p := r.part(s.record.ID.Number)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s.record.ID.Number)
}

func (r *registry) addWaiting(w *record.Waiting) {
	p := r.part(w.Client.ID.Number)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[w.Client.ID.Number] = w
}

// removeWaiting removes the client of that number, if it waits.
func (r *registry) removeWaiting(number uint64) {
	p := r.part(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, number)
}

// endWait ends the wait of the client of that number, and reports whether it waits; told is false if that was done before. While
// it runs, the client's session cannot begin.
func (r *registry) endWait(number uint64, reason string) (waits, told bool) {
	p := r.part(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[number]
	if w == nil {
		return false, false
	}
	return true, w.Kill(reason)
}

// find returns the session or the waiting client of that number; nil for none.
func (r *registry) find(number uint64) (*Session, *record.Waiting) {
	p := r.part(number)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[number], p.waiting[number]
}

// all returns all sessions and waiting clients, in no order.
func (r *registry) all() (sessions []*Session, clients []*record.Waiting) {
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		if sessions == nil {
			sessions = make([]*Session, 0, len(p.sessions)*registryParts*5/4)
		}
		for _, s := range p.sessions {
			sessions = append(sessions, s)
		}
		for _, w := range p.waiting {
			clients = append(clients, w)
		}
		p.mu.Unlock()
	}
	return sessions, clients
}

// numbers returns the numbers of all sessions and waiting clients, in no order.
func (r *registry) numbers() (numbers []uint64) {
	for i := range r.parts {
		p := &r.parts[i]
		p.mu.Lock()
		for number := range p.sessions {
			numbers = append(numbers, number)
		}
		for number := range p.waiting {
			numbers = append(numbers, number)
		}
		p.mu.Unlock()
	}
	return numbers
}

const (
	// perTurn is how many sessions a loop looks after before it goes back to its sockets. Reading a session's data takes up to
	// 700 ns, most of which is spent waiting for memory.
	perTurn = 32
	// maxPasses is how often sessions that have moved to another loop meanwhile are looked for there. They move a few times a second
	// at most, so that one or two are enough.
	maxPasses = 64
)

// Each calls f for each of the sessions that has not ended, on its loop, one after the other. It waits until that is done, and must not
// be called on a loop. No loop is kept from its sockets for longer than it takes to do it for perTurn sessions.
func (s *Sessions) Each(sessions []*Session, f func(*Session)) {
	for range maxPasses {
		var moved []*Session
		byLoop := make([][]*Session, len(s.shards))
		for _, session := range sessions {
			home := session.client.Home().ID()
			if byLoop[home] == nil {
				byLoop[home] = make([]*Session, 0, len(sessions))
			}
			byLoop[home] = append(byLoop[home], session)
		}
		for i, l := range s.options.Loops.Loops() {
			onLoop(l, byLoop[i], func(turn []*Session) {
				for _, session := range turn {
					if !session.client.IsOn(l) {
						moved = append(moved, session)
					} else if session.life.state != gone {
						l.Handling(session.client)
						f(session)
					}
				}
			})
		}
		if sessions = moved; len(moved) == 0 {
			return
		}
	}
}

// atOnce is how many sessions eachOver looks after before it pauses. With thousands, reading them all takes both processors of a small machine for
// ten milliseconds, and whatever passes then is as late.
const atOnce = 512

// eachOver is Each for what is done again and again. It takes its time if there are many sessions, up to over, and calls between before each pause
// and at the end.
func (s *Sessions) eachOver(over time.Duration, sessions []*Session, f func(*Session), between func()) {
	pause := over / time.Duration(len(sessions)/atOnce+1)
	for ; len(sessions) > atOnce; sessions = sessions[atOnce:] {
		s.Each(sessions[:atOnce], f)
		between()
		time.Sleep(pause)
	}
	s.Each(sessions, f)
	between()
}

// onLoop calls f on a loop with perTurn sessions at a time, and waits until it has done so with all. Between two turns, the loop looks
// after its sockets. The loop itself begins the next turn: to wake another goroutine for that and to be woken by it would take longer
// than the turn.
func onLoop(l *loop.Loop, sessions []*Session, f func(turn []*Session)) {
	if len(sessions) == 0 {
		return
	}
	done := make(chan struct{})
	var begin func()
	begin = func() {
		turn := sessions[:min(perTurn, len(sessions))]
		sessions = sessions[len(turn):]
		more := false
		defer func() {
			if !more { // also after a panic
				close(done)
			}
		}()
		f(turn)
		more = len(sessions) > 0 && l.Post(begin)
	}
	if l.Post(begin) {
		<-done
	}
}
