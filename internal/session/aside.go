package session

import (
	"net/netip"
	"time"
)

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
