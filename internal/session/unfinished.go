package session

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// errDropped means that a client's handshake was dropped to make room for another.
var errDropped = errors.New("the handshake was dropped: too many were unfinished")

const (
	// crowdShare is the part of all unfinished handshakes, 1/crowdShare, above which those of one address are dropped first.
	crowdShare = 4
	// descriptorShare is the part of the process's file descriptors, 1/descriptorShare, that unfinished handshakes may take.
	descriptorShare = 4
	// asideShare is the part of the clients that wait for authentication, 1/asideShare, that may be those of one service. All services
	// together have as many as there may be unfinished handshakes.
	asideShare = 2
	// A handshake is dropped no sooner than it has waited for its client slowFactor times as long as others do of late, or, while most
	// handshakes come to their end, for calmPatience, within these bounds: a crowd of honest clients, which on a busy machine are slower than
	// usual, loses nobody. A flood of handshakes that never end makes the proxy impatient within a moment. The upper bound is half of the
	// usual time for a handshake (handshake-timeout).
	slowFactor   = 4
	minPatience  = 250 * time.Millisecond
	calmPatience = 2 * time.Second
	maxPatience  = 5 * time.Second
	// outcomes is how many handshakes the moving average of those that come to their end is over.
	outcomes = 64
	// usualAtStart is how long handshakes are taken to last before any has finished.
	usualAtStart = 100 * time.Millisecond
)

// unfinished are the handshakes of clients that have no session yet and do not wait in a queue: their TLS handshake, their PROXY header
// or their request is on its way, or they have just been refused. There is room for a limited number. When a client comes and there is no
// room, the oldest handshake that waits for its client is dropped, because an honest client is quick. If some address has more than a
// quarter of all, it loses its own oldest.
//
// A client about whom another server is asked steps aside meanwhile, so that a slow server keeps out no clients of other services.
//
// The zero value is not ready: call init. Any goroutine may call its methods.
type unfinished struct {
	storms *storms // static: logs what is dropped
	// freed gets an element when there may be room: one of size one is enough, because whoever takes it passes it on.
	freed chan struct{}

	mu      sync.Mutex
	all     list.List             // guarded by mu: of *opening, oldest first
	crowds  map[netip.Addr]*crowd // guarded by mu
	large   map[*crowd]struct{}   // guarded by mu: crowds that had more than their share when they last grew
	aside   map[string]int        // guarded by mu: handshakes that have stepped aside, by service
	crowded map[asideKey]int      // guarded by mu: the same, by service and network
	asides  int                   // guarded by mu: the same of all services
	usual   time.Duration         // guarded by mu: moving average of how long handshakes wait for their clients
	ending  float64               // guarded by mu: moving average of the part that comes to its end, 0 to 1; the others are dropped
	dropped [dropReasons]uint64   // guarded by mu
}

// asideKey is the clients of a service from one network.
type asideKey struct {
	service string
	network netip.Addr
}

// crowd is the unfinished handshakes from one address.
type crowd struct {
	address  netip.Addr
	openings list.List // of *opening, oldest first
}

// opening is an unfinished handshake. The server's goroutine for it uses it; any goroutine may drop it.
type opening struct {
	// Static.
	set   *unfinished
	nc    net.Conn
	begun time.Time

	// Guarded by set.mu.
	aside   bool          // it has stepped aside
	asideOf asideKey      // whose authentication it then waits for
	inAll   *list.Element // nil once it is not in the set any more
	inCrowd *list.Element // nil without a crowd
	crowd   *crowd
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
	u.storms, u.freed, u.usual = s, make(chan struct{}, 1), usualAtStart
	u.ending = 1
	u.aside, u.crowded = make(map[string]int), make(map[asideKey]int)
	u.crowds, u.large = make(map[netip.Addr]*crowd), make(map[*crowd]struct{})
}

// enter adds the handshake of a client that was accepted at begun. If there are limit of them already, it drops one, or waits until there
// is room. It returns nil if ctx ends before. An address that is not valid belongs to no crowd.
func (u *unfinished) enter(ctx context.Context, nc net.Conn, begun time.Time, from netip.Addr, limit int) *opening {
	o := &opening{set: u, nc: nc, begun: begun}
	for {
		u.mu.Lock()
		if u.all.Len() < limit {
			o.inAll = u.all.PushBack(o)
			u.joinCrowd(o, from, limit)
			room := u.all.Len() < limit
			u.mu.Unlock()
			if room {
				u.signal()
			}
			return o
		}
		victim, why, wait := u.victim(time.Now())
		if victim != nil {
			u.drop(victim, why)
		}
		u.mu.Unlock()
		if victim != nil {
			u.end(victim, why, limit)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-u.freed:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// signal tells one of those who wait in enter that there may be room.
func (u *unfinished) signal() {
	select {
	case u.freed <- struct{}{}:
	default:
	}
}

// victim returns the handshake to drop at a time, and why. If none may be dropped yet, it returns how long to wait until one may.
func (u *unfinished) victim(now time.Time) (o *opening, why dropReason, wait time.Duration) {
	from, why := &u.all, droppedOldest
	most := u.all.Len() / crowdShare
	for c := range u.large {
		if n := c.openings.Len(); n > most {
			from, why, most = &c.openings, droppedCrowd, n
		}
	}
	o = oldestWaiting(from)
	if o == nil && why == droppedCrowd {
		o, why = oldestWaiting(&u.all), droppedOldest
	}
	if o == nil {
		return nil, why, maxPatience
	}
	if wait := u.patience() - o.waited(now); wait > 0 {
		return nil, why, wait
	}
	return o, why, 0
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

// patience returns how old a handshake must be to be dropped.
func (u *unfinished) patience() time.Duration {
	calm := time.Duration(u.ending * float64(calmPatience))
	return min(max(slowFactor*u.usual, calm, minPatience), maxPatience)
}

// dropOldest drops the oldest handshake that waits for its client, to have its file descriptor. It returns false if none waits for long.
func (u *unfinished) dropOldest() bool {
	u.mu.Lock()
	o := oldestWaiting(&u.all)
	if o != nil && o.waited(time.Now()) < minPatience {
		o = nil
	}
	if o != nil {
		u.drop(o, droppedToServe)
	}
	n := u.all.Len()
	u.mu.Unlock()
	if o == nil {
		return false
	}
	u.end(o, droppedToServe, n)
	return true
}

// drop takes a handshake out of the set. The caller, who holds mu, calls end after that without it.
func (u *unfinished) drop(o *opening, why dropReason) {
	u.remove(o)
	o.dropped = true
	u.dropped[why]++
	u.ending -= u.ending / outcomes
}

// end closes the connection of a dropped handshake.
func (u *unfinished) end(o *opening, why dropReason, limit int) {
	_ = o.nc.Close()
	u.storms.note(why, o.crowdAddress(), limit)
}

// crowdAddress returns the address of the crowd that the handshake belonged to when it was dropped.
func (o *opening) crowdAddress() netip.Addr {
	if o.crowd == nil {
		return netip.Addr{}
	}
	return o.crowd.address
}

// remove takes a handshake out of the lists, if it is in them. It keeps the crowd for crowdAddress.
func (u *unfinished) remove(o *opening) {
	if o.inAll == nil {
		return
	}
	u.all.Remove(o.inAll)
	o.inAll = nil
	u.leaveCrowd(o)
}

func (u *unfinished) leaveCrowd(o *opening) {
	if o.inCrowd == nil {
		return
	}
	c := o.crowd
	c.openings.Remove(o.inCrowd)
	o.inCrowd = nil
	if c.openings.Len() == 0 {
		delete(u.crowds, c.address)
		delete(u.large, c)
	}
}

// joinCrowd adds a handshake to those of its address. One network of IPv6, which a provider gives to one customer, is one address
// (RFC 6177).
func (u *unfinished) joinCrowd(o *opening, from netip.Addr, limit int) {
	if !from.IsValid() {
		return
	}
	if from = from.Unmap(); from.Is6() {
		if p, err := from.WithZone("").Prefix(64); err == nil {
			from = p.Addr()
		}
	}
	c := u.crowds[from]
	if c == nil {
		c = &crowd{address: from}
		u.crowds[from] = c
	}
	o.crowd, o.inCrowd = c, c.openings.PushBack(o)
	if c.openings.Len() > limit/crowdShare {
		u.large[c] = struct{}{}
	} else {
		delete(u.large, c)
	}
}

// comeFrom says which address the handshake comes from, now that a PROXY header has said it.
func (o *opening) comeFrom(from netip.Addr, limit int) {
	u := o.set
	u.mu.Lock()
	defer u.mu.Unlock()
	if o.inAll != nil {
		u.leaveCrowd(o)
		u.joinCrowd(o, from, limit)
	}
}

// work says that the proxy works on the handshake, which is not dropped meanwhile, or that it waits for its client. It returns false
// if the handshake was dropped.
func (o *opening) work(working bool) bool {
	u := o.set
	u.mu.Lock()
	switch now := time.Now(); {
	case working && !o.working:
		o.since = now
	case !working && o.working:
		o.worked += now.Sub(o.since)
	}
	o.working = working
	dropped := o.dropped
	u.mu.Unlock()
	if !working {
		u.signal() // it may be dropped now
	}
	return !dropped
}

// stepAside gives up the handshake's place among limit ones, while another server is asked whether its client may use the service. It
// returns false if too many clients wait for that already. Otherwise the handshake is not dropped until comeBack or leave is called.
func (o *opening) stepAside(service string, limit int) bool {
	u := o.set
	u.mu.Lock()
	may := o.aside // another method of the service waits, too
	key := asideKey{service, o.crowdAddress()}
	if o.inAll != nil && u.asides < limit && u.aside[service] < u.mostAside(key, max(limit/asideShare, 1)) {
		u.remove(o)
		u.asides++
		u.aside[service]++
		u.crowded[key]++
		o.asideOf, o.aside, may = key, true, true
	}
	u.mu.Unlock()
	if may {
		u.signal()
	}
	return may
}

// mostAside returns how many of most places a network finds used before it gets none: one that has half of them leaves the last quarter to
// others.
func (u *unfinished) mostAside(key asideKey, most int) int {
	if 2*u.crowded[key] >= most {
		return most - most/4
	}
	return most
}

// comeBack gives the handshake a place again, if it has stepped aside. It waits for none: there are then more handshakes than limit, but
// clients that come have to wait until there are fewer.
func (o *opening) comeBack(limit int) {
	u := o.set
	u.mu.Lock()
	defer u.mu.Unlock()
	if !o.aside {
		return
	}
	u.endAside(o)
	o.inAll = u.all.PushBack(o)
	u.joinCrowd(o, o.crowdAddress(), limit)
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

// waited returns how long the handshake has waited for its client until now. What the proxy has taken itself, a TLS handshake's turn
// among it, is not counted, so that a crowd of honest clients is not blamed for it.
func (o *opening) waited(now time.Time) time.Duration {
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
	u.mu.Lock()
	u.endAside(o)
	there := o.inAll != nil
	if there {
		u.remove(o)
		if finished {
			u.usual += (o.waited(time.Now()) - u.usual) / 16
			u.ending += (1 - u.ending) / outcomes
		}
	}
	u.mu.Unlock()
	if there {
		u.signal()
	}
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
