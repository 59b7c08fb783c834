package admission

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
)

// errDropped means that a client's handshake was dropped to make room for another.
var errDropped = errors.New("the handshake was dropped: too many were unfinished")

const (
	// turns is how many handshakes the server begins at a time. One that takes longer than turnGrace waits for its client, and gives its turn
	// to another. So thousands of clients that come at once wait in line, where they cost little.
	turns     = 64
	turnGrace = 20 * time.Millisecond
	// lineFactor is how many clients may wait in line for each handshake that may be unfinished.
	lineFactor = 8
	// descriptorShare is the part of the process's file descriptors, 1/descriptorShare, that unfinished handshakes may take, and clients in
	// line as many again.
	descriptorShare = 4
)

// room is how many handshakes may be unfinished, and how many clients may wait in line.
type room struct{ places, line int }

// kept returns how many places are kept for networks that have none.
func (r room) kept() int { return r.places / 16 }

// unfinished are the handshakes of clients that have no session yet and do not wait in a queue: their TLS handshake, their PROXY header
// or their request is on its way, or they have just been refused. There are places for a limited number. A network that has as many as are
// still free gets no more, so that there is always one for a client from elsewhere: the others of that network wait in line. When there
// is no place for a client, the oldest handshake that waits for its own client is dropped, because an honest client is quick: of the
// network that has most places, at the least patience; or of all, if none has more than the client's. The line is limited, too.
//
// A client about whom another server is asked steps aside meanwhile, so that a slow server keeps out no clients of other services.
//
// The zero value is not ready: call init. Any goroutine may call its methods, none of which waits but [opening.comeFrom].
type unfinished struct {
	storms *storms // static: logs what is dropped

	mu      sync.Mutex
	room    room                  // guarded by mu
	all     list.List             // guarded by mu: of *opening, those with a place, oldest first
	inLine  int                   // guarded by mu: those that wait for a place
	turns   int                   // guarded by mu: turns that are taken
	crowds  map[netip.Addr]*crowd // guarded by mu
	ranked  [rankings]ranking     // guarded by mu
	timer   *time.Timer           // guarded by mu: when a place may be taken from another; nil before that was needed
	closed  bool                  // guarded by mu
	effects []func()              // guarded by mu: what is to be done without mu
	learned experience            // guarded by mu
	aside   map[string]int        // guarded by mu: handshakes that have stepped aside, by service
	crowded map[asideKey]int      // guarded by mu: the same, by service and network
	asides  int                   // guarded by mu: the same of all services
	dropped [dropReasons]uint64   // guarded by mu
}

// opening is an unfinished handshake. The server's goroutine for it uses it; any goroutine may drop it.
type opening struct {
	// Static.
	set *unfinished
	nc  net.Conn

	// Guarded by set.mu.
	begun   time.Time     // when it got its first place
	ready   func(bool)    // called when it has got the place for which it waits in line, or, with false, when it was dropped there
	lined   time.Time     // when it began to wait in line
	turn    *time.Timer   // gives its turn back; nil without one
	aside   bool          // it has stepped aside
	asideOf asideKey      // whose authentication it then waits for
	inAll   *list.Element // nil without a place
	inCrowd *list.Element // nil without a place, or if its network is not known
	inLine  *list.Element // nil if it is not in line
	crowd   *crowd        // kept when it leaves the set
	working bool          // the proxy works on it, or has to: it is not the client that is slow
	since   time.Time     // when working became true
	worked  time.Duration // how long the proxy has worked on it before that
	dropped bool
}

// dropReason says why an unfinished handshake was dropped.
type dropReason uint8

const (
	droppedOldest  dropReason = iota // it was the oldest of all
	droppedCrowd                     // it was the oldest from an address that had very many
	droppedToServe                   // the process had no file descriptor for another client
	dropReasons    = int(droppedToServe) + 1
)

var dropReasonNames = [dropReasons]string{"oldest", "address", "descriptors"}

func (u *unfinished) init(s *storms) {
	u.storms = s
	u.aside, u.crowded = make(map[string]int), make(map[asideKey]int)
	u.crowds = make(map[netip.Addr]*crowd)
	for i := range u.ranked {
		u.ranked[i].which = i
	}
}

// change calls f with mu, gives places to clients in line, and does without mu what that leads to.
func (u *unfinished) change(f func(now time.Time)) {
	u.mu.Lock()
	now := time.Now()
	f(now)
	u.fill(now)
	effects := u.effects
	u.effects = nil
	u.mu.Unlock()
	for _, effect := range effects {
		effect()
	}
}

// enter adds the handshake of a client that was accepted at begun. It waits in line until it has a place. Then, perhaps within enter, ready is
// called with true; or with false, if the client was dropped in line. An address that is not valid is not known yet.
func (u *unfinished) enter(nc net.Conn, begun time.Time, from netip.Addr, r room, ready func(o *opening, placed bool)) {
	o := &opening{set: u, nc: nc}
	o.ready = func(placed bool) { ready(o, placed) }
	u.change(func(time.Time) {
		u.room = r
		u.lineUp(o, u.crowdOf(from), begun)
	})
}

// crowdOf returns the crowd of an address.
func (u *unfinished) crowdOf(from netip.Addr) *crowd {
	network := auth.Network(from)
	c := u.crowds[network]
	if c == nil {
		c = &crowd{network: network}
		u.crowds[network] = c
	}
	return c
}

// rank notes that the number of a crowd's clients has changed.
func (u *unfinished) rank(c *crowd) {
	places, line := c.openings.Len(), c.line.Len()
	u.ranked[byPlaces].set(c, places > 0)
	u.ranked[byTurn].set(c, line > 0)
	u.ranked[byLine].set(c, line > 0)
	if places+line == 0 {
		delete(u.crowds, c.network)
	}
}

// lineUp adds a client to the line of its crowd. If too many wait, the crowd with the longest line loses at once the handshake for which it
// has waited longest, or else the client that is first in line.
func (u *unfinished) lineUp(o *opening, c *crowd, now time.Time) {
	o.crowd, o.lined, o.inLine = c, now, c.line.PushBack(o)
	u.inLine++
	u.rank(c)
	if u.closed {
		u.dropInLine(o, droppedOldest)
		return
	}
	u.fill(now)
	if longest := u.ranked[byLine].first(); u.inLine > u.room.line && u.turns < turns {
		if slow := oldestWaiting(&longest.openings); slow != nil {
			u.drop(slow, longest.dropped(), now)
			u.fill(now)
		}
	}
	if longest := u.ranked[byLine].first(); u.inLine > u.room.line {
		u.dropInLine(firstOf(&longest.line), longest.dropped())
	}
}

// firstOf returns the first handshake of a list; nil for none.
func firstOf(l *list.List) *opening {
	if l.Len() == 0 {
		return nil
	}
	return l.Front().Value.(*opening)
}

// fill gives places to clients in line, as long as there are any: to the crowd with the fewest first.
func (u *unfinished) fill(now time.Time) {
	for u.inLine > 0 && u.turns < turns {
		c := u.ranked[byTurn].first()
		if free := u.room.places - u.all.Len(); !mayHave(c.openings.Len(), free, u.room.kept()) {
			o, why, wait := u.victim(c, now)
			if o == nil { // the proxy works on all: whichever waits for its client next calls fill
				return
			}
			if wait > 0 {
				u.fillIn(wait)
				return
			}
			u.drop(o, why, now)
			if u.all.Len() >= u.room.places {
				continue
			}
		}
		u.place(firstOf(&c.line), now)
	}
}

// fillIn calls fill after some time.
func (u *unfinished) fillIn(wait time.Duration) {
	if u.timer == nil {
		u.timer = time.AfterFunc(wait, func() { u.change(func(time.Time) {}) })
		return
	}
	u.timer.Reset(wait)
}

// place gives a client in line a place and a turn.
func (u *unfinished) place(o *opening, now time.Time) {
	u.leaveLine(o)
	if o.begun.IsZero() {
		o.begun = now
	} else {
		o.worked += now.Sub(o.lined)
	}
	u.turns++
	o.turn = time.AfterFunc(turnGrace, o.passTurn)
	u.join(o, o.crowd)
	ready := o.ready
	u.effects = append(u.effects, func() { ready(true) })
}

// passTurn gives the handshake's turn to another.
func (o *opening) passTurn() { o.set.change(func(time.Time) { o.endTurn() }) }

// endTurn gives back the handshake's turn, if it has one. The caller holds mu.
func (o *opening) endTurn() {
	if o.turn != nil {
		o.turn.Stop()
		o.turn = nil
		o.set.turns--
	}
}

// join gives a handshake a place among those of a crowd.
func (u *unfinished) join(o *opening, c *crowd) {
	o.inAll = u.all.PushBack(o)
	u.joinCrowd(o, c)
}

func (u *unfinished) joinCrowd(o *opening, c *crowd) {
	o.crowd = c
	if c.network.IsValid() {
		o.inCrowd = c.openings.PushBack(o)
		u.crowds[c.network] = c
	}
	u.rank(c)
}

// remove takes a handshake's place, if it has one.
func (u *unfinished) remove(o *opening) {
	if o.inAll != nil {
		u.all.Remove(o.inAll)
		o.inAll = nil
		u.leaveCrowd(o)
	}
}

func (u *unfinished) leaveCrowd(o *opening) {
	if o.inCrowd != nil {
		o.crowd.openings.Remove(o.inCrowd)
		o.inCrowd = nil
		u.rank(o.crowd)
	}
}

func (u *unfinished) leaveLine(o *opening) {
	o.crowd.line.Remove(o.inLine)
	o.inLine = nil
	u.inLine--
	u.rank(o.crowd)
}

// victim returns the handshake to drop for a client of a crowd, why, and how long to wait until it may be dropped; nil for none, as the proxy
// works on those that could be dropped.
func (u *unfinished) victim(c *crowd, now time.Time) (o *opening, why dropReason, wait time.Duration) {
	if m := u.ranked[byPlaces].first(); m != nil && m.openings.Len() > 1 {
		patience, keepsOut := minPatience, m.openings.Len() > c.openings.Len()+1
		if !keepsOut { // it is in the way of its own clients only
			patience = u.learned.of(m.network).patience()
		}
		if o = oldestWaiting(&m.openings); o != nil || !keepsOut || u.all.Len() < u.room.places {
			return o, droppedCrowd, patience - o.waited(now)
		}
	}
	o = oldestWaiting(&u.all)
	return o, droppedOldest, u.learned.overall().patience() - o.waited(now)
}

// oldestWaiting returns the oldest handshake of the list that waits for its client; nil for none.
func oldestWaiting(l *list.List) *opening {
	for e := l.Front(); e != nil; e = e.Next() {
		if o := e.Value.(*opening); !o.working {
			return o
		}
	}
	return nil
}

// dropOldest drops a client to have its file descriptor: one in the longest line, or else the oldest handshake that waits for its client. It
// returns false if none waits for long.
func (u *unfinished) dropOldest() (found bool) {
	u.change(func(now time.Time) {
		if longest := u.ranked[byLine].first(); longest != nil {
			u.dropInLine(firstOf(&longest.line), droppedToServe)
			found = true
		} else if o := oldestWaiting(&u.all); o != nil && o.waited(now) >= minPatience {
			u.drop(o, droppedToServe, now)
			found = true
		}
	})
	return found
}

// drop takes a handshake out of the set, and closes its connection. One that had no chance to come to its end says nothing about others.
func (u *unfinished) drop(o *opening, why dropReason, now time.Time) {
	u.remove(o)
	if o.waited(now) >= minPatience {
		u.learned.learn(o.network(), false, 0)
	}
	u.end(o, why)
}

// dropInLine drops a client that waits in line.
func (u *unfinished) dropInLine(o *opening, why dropReason) {
	u.leaveLine(o)
	u.end(o, why)
	ready := o.ready
	u.effects = append(u.effects, func() { ready(false) })
}

// end closes the connection of a dropped handshake.
func (u *unfinished) end(o *opening, why dropReason) {
	o.dropped = true
	if u.closed {
		u.effects = append(u.effects, func() { _ = o.nc.Close() })
		return
	}
	u.dropped[why]++
	network, limit := o.network(), u.room.places
	u.effects = append(u.effects, func() {
		_ = o.nc.Close()
		u.storms.note(why, network, limit)
	})
}

// close drops the clients in line, and all that come.
func (u *unfinished) close() {
	u.change(func(time.Time) {
		u.closed = true
		for u.inLine > 0 {
			u.dropInLine(firstOf(&u.ranked[byLine].first().line), droppedOldest)
		}
		if u.timer != nil {
			u.timer.Stop()
		}
	})
	u.storms.close()
}

// network returns the network whose clients the handshake counts, or counted, among.
func (o *opening) network() netip.Addr {
	if o.crowd == nil {
		return netip.Addr{}
	}
	return o.crowd.network
}

// comeFrom says which address the handshake comes from, now that a PROXY header has said it. If its network has no place for it, the
// handshake waits in line. It returns false if it was dropped.
func (o *opening) comeFrom(from netip.Addr) bool {
	u, placed := o.set, make(chan bool, 1)
	u.change(func(now time.Time) {
		c := u.crowdOf(from)
		switch {
		case o.inAll == nil || c.network == o.network():
			placed <- !o.dropped
		case mayHave(c.openings.Len(), u.room.places-u.all.Len()+1, u.room.kept()): // with the place that it has
			u.leaveCrowd(o)
			u.joinCrowd(o, c)
			placed <- true
		default:
			u.remove(o)
			o.endTurn()
			o.ready = func(ok bool) { placed <- ok }
			u.lineUp(o, c, now)
		}
		u.rank(c)
	})
	return <-placed
}

// belongsTo says which address the handshake comes from, now that its request has said it. It keeps its place.
func (o *opening) belongsTo(from netip.Addr) {
	u := o.set
	u.mu.Lock()
	defer u.mu.Unlock()
	if o.inAll != nil && auth.Network(from) != o.network() {
		u.leaveCrowd(o)
		u.joinCrowd(o, u.crowdOf(from))
	}
}

// work says that the proxy works on the handshake, which is not dropped meanwhile, or that it waits for its client. It returns false
// if the handshake was dropped.
func (o *opening) work(working bool) (there bool) {
	o.set.change(func(now time.Time) {
		switch {
		case working && !o.working:
			o.since = now
		case !working && o.working:
			o.worked += now.Sub(o.since)
		}
		o.working, there = working, !o.dropped
	})
	return there
}

// waited returns how long the handshake has waited for its client until now. What the proxy has taken itself, a TLS handshake's turn
// among it, is not counted, so that a crowd of honest clients is not blamed for it.
func (o *opening) waited(now time.Time) time.Duration {
	if o == nil {
		return 0
	}
	d := now.Sub(o.begun) - o.worked
	if o.working {
		d -= now.Sub(o.since)
	}
	return d
}

// leave takes the handshake out of the set, unless it was dropped: its client waits in a queue or has a session, which says how long a
// handshake takes (finished), or its connection is closed. It may be called again.
func (o *opening) leave(finished bool) {
	u := o.set
	u.change(func(now time.Time) {
		u.endAside(o)
		o.endTurn()
		if o.inAll == nil {
			return
		}
		u.remove(o)
		if finished {
			u.learned.learn(o.network(), true, o.waited(now))
		}
	})
}

// counts returns how many handshakes are unfinished, and how many were dropped, by the name of the reason.
func (u *unfinished) counts() (now int, dropped map[string]uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	dropped = make(map[string]uint64, dropReasons)
	for i, n := range u.dropped {
		dropped[dropReasonNames[i]] = n
	}
	return u.all.Len(), dropped
}

const (
	// asideShare is the part of the clients that wait for authentication, 1/asideShare, that may be those of one service. All services
	// together have as many as there may be unfinished handshakes.
	asideShare = 2
	// asideKept is the part of those of a service, 1/asideKept, that is kept for networks that have none: one that finds no place is refused.
	asideKept = 4
)

// asideKey is the clients of a service from one network.
type asideKey struct {
	service string
	network netip.Addr
}

// stepAside gives up the handshake's place among limit ones, while another server is asked whether its client may use the service. It
// returns false if too many clients wait for that already: a network may have as many as others leave free. Otherwise the handshake is not dropped until comeBack or leave is called.
func (o *opening) stepAside(service string, limit int) (may bool) {
	u := o.set
	u.change(func(time.Time) {
		may = o.aside // another method of the service waits, too
		key := asideKey{service, o.network()}
		most := max(limit/asideShare, 1)
		free := min(limit-u.asides, most-u.aside[service])
		if o.inAll != nil && mayHave(u.crowded[key], free, most/asideKept) {
			u.remove(o)
			u.asides++
			u.aside[service]++
			u.crowded[key]++
			o.asideOf, o.aside, may = key, true, true
		}
	})
	return may
}

// comeBack gives the handshake a place again, if it has stepped aside. It waits for none: there are then more handshakes than may be, but
// clients that come have to wait until there are fewer.
func (o *opening) comeBack() {
	u := o.set
	u.mu.Lock()
	defer u.mu.Unlock()
	if o.aside {
		u.endAside(o)
		u.join(o, u.crowdOf(o.network()))
	}
}

// endAside takes a handshake from those that have stepped aside, if it is one.
func (u *unfinished) endAside(o *opening) {
	if !o.aside {
		return
	}
	o.aside = false
	u.asides--
	if u.aside[o.asideOf.service]--; u.aside[o.asideOf.service] == 0 {
		delete(u.aside, o.asideOf.service)
	}
	if u.crowded[o.asideOf]--; u.crowded[o.asideOf] == 0 {
		delete(u.crowded, o.asideOf)
	}
}
