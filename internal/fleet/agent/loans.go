package agent

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// neighbour is the process that this one has succeeded, or that has succeeded it, and with which it lends places while the ledger grants none
// (package fleet has the rules). All numbers are of places by server. The agent's goroutine owns it.
type neighbour struct {
	conn    net.Conn // static
	id      fleet.ID // empty until it has introduced itself
	release func()   // lets others prove its end; nil if nothing is to be borrowed from it
	gone    bool     // it has ended, or its connection has

	asked     map[string]int // what it was last asked for
	got       map[string]int // all that it has lent
	uncharged map[string]int // of these, those that the ledger does not charge this proxy with yet

	wants   map[string]int // how many it wants to have got, of all times
	sent    map[string]int // all that it was lent
	charged map[string]int // of these, those that the ledger charges it with, or that it has returned
}

// loanMessage is what neighbours send each other, each as a JSON object. Older versions read it.
type loanMessage struct {
	ID fleet.ID `json:"id,omitempty"` // the first message has nothing else
	// Wants are how many places the sender would like to have got from the other since the beginning, so that a message that crosses a loan asks for
	// nothing twice. It is null if that has not changed.
	Wants    map[string]int `json:"wants"`
	Lends    map[string]int `json:"lends,omitempty"`
	Charged  map[string]int `json:"booked,omitempty"`   // of those that were lent, how many the ledger charges the sender with by now
	Returned map[string]int `json:"returned,omitempty"` // it no longer needs these, and has no connections for them
}

// receivedMessage is a message, or that there are no more.
type receivedMessage struct {
	from *neighbour
	loanMessage
	closed bool
}

const (
	// sendTimeout is how long a neighbour may take to accept a message.
	sendTimeout = 200 * time.Millisecond
	// offerInterval is the time between two looks at whether the connections of places that are offered are closed.
	offerInterval = 10 * time.Millisecond
)

// Lend has the agent lend places to, and borrow places from, the process at the other end of a connection, which has the same state directory. It
// owns the connection from then on.
func (a *Agent) Lend(conn net.Conn) {
	n := &neighbour{
		conn: conn, asked: make(map[string]int), got: make(map[string]int), uncharged: make(map[string]int), sent: make(map[string]int), charged: make(map[string]int),
	}
	select {
	case a.newNeighbours <- n:
	case <-a.done:
		_ = conn.Close()
	}
}

// addNeighbour begins to listen to a neighbour.
func (a *Agent) addNeighbour(ctx context.Context, n *neighbour) {
	a.neighbours = append(a.neighbours, n)
	a.listeners.Go(func() {
		for in := json.NewDecoder(n.conn); ; {
			h := receivedMessage{from: n}
			h.closed = in.Decode(&h.loanMessage) != nil
			select {
			case a.received <- h:
			case <-ctx.Done():
				return
			}
			if h.closed {
				return
			}
		}
	})
	a.send(n, &loanMessage{ID: a.o.Holder.ID})
}

// send sends a neighbour a message. What it may have received counts as received.
func (a *Agent) send(n *neighbour, r *loanMessage) {
	if n.gone {
		return
	}
	text, err := json.Marshal(r)
	if err == nil {
		_ = n.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
		_, err = n.conn.Write(text)
	}
	if err != nil { // then nothing more goes either way
		_ = n.conn.Close()
	}
}

// receive takes in a neighbour's message.
func (a *Agent) receive(h *receivedMessage) {
	n := h.from
	if h.closed {
		n.gone = true
		_ = n.conn.Close()
		a.lend()
		return
	}
	if h.ID != "" && n.id == "" && a.o.Presence != nil {
		n.id = h.ID
		var err error
		if n.release, err = a.o.Presence.Hold(n.id); err != nil {
			a.o.Log.Warn("places cannot be borrowed from the other process of this upgrade", "reason", err)
		}
	}
	if h.Wants != nil {
		n.wants = h.Wants
	}
	for server, places := range h.Lends {
		if _, known := a.usage[server]; places > 0 && known && n.release != nil && a.holder.MayBorrow() { // otherwise neither uses them
			a.holder.Borrow(server, places)
			n.got[server] += places
			n.uncharged[server] += places
			a.o.Log.Info("places borrowed from the other process of this upgrade", "id", string(n.id), "server", server, "places", places)
		}
	}
	for server, places := range h.Charged {
		if places = min(places, n.sent[server]-n.charged[server]); places > 0 {
			n.charged[server] += places
			a.holder.Charged(server, places)
			a.hurry() // more places than the cap may be granted until the ledger hears of it
		}
	}
	a.returned(n, h.Returned)
	a.apply()
	a.lend()
}

// returned takes places back that a neighbour does not use.
func (a *Agent) returned(n *neighbour, all map[string]int) {
	for server, places := range all {
		if places = min(places, n.sent[server]-n.charged[server]); places > 0 {
			n.charged[server] += places
			a.holder.Returned(server, places)
		}
	}
}

// lend offers and hands over what neighbours want, and asks them for what this proxy lacks while the ledger grants nothing.
func (a *Agent) lend() {
	if len(a.neighbours) == 0 || !a.answered {
		return
	}
	a.observe()
	a.handOver()
	if a.offer() {
		a.apply()
		a.observe()
		a.handOver()
	}
	if len(a.offers) > 0 {
		a.lookAt = a.o.Now() + fleet.Instant(offerInterval)
	}
	var wants map[string]int
	if a.holder.MayBorrow() && (a.failures > 0 || a.holder.Frozen()) {
		wants = a.holder.Lacks()
	}
	for _, n := range a.neighbours {
		if n.release == nil {
			continue
		}
		asks := make(map[string]int, len(wants))
		for server, lacks := range wants {
			asks[server] = n.got[server] + lacks
		}
		if !maps.Equal(asks, n.asked) {
			n.asked = asks
			a.send(n, &loanMessage{Wants: asks})
		}
	}
}

// offer takes from the limits what neighbours want and this proxy can spare, and reports whether there is anything.
func (a *Agent) offer() (any bool) {
	for _, n := range a.neighbours {
		for server, places := range n.wants {
			places = min(places-n.sent[server], a.holder.Spare(server))
			if n.gone || places <= 0 || a.offers[server] != nil {
				continue
			}
			a.holder.Offer(server, places)
			a.offers[server], any = n, true
		}
	}
	return any
}

// handOver lends what was offered and whose connections are closed, and withdraws what is no longer wanted.
func (a *Agent) handOver() {
	for server, n := range a.offers {
		if n.gone || n.wants[server] <= n.sent[server] {
			a.holder.Withdraw(server)
			delete(a.offers, server)
			a.apply()
			continue
		}
		if places := a.holder.HandOver(server); places > 0 {
			delete(a.offers, server)
			n.sent[server] += places
			a.o.Log.Info("places lent to the other process of this upgrade", "id", string(n.id), "server", server, "places", places)
			a.send(n, &loanMessage{Lends: map[string]int{server: places}})
		}
	}
}

// settleLoans tells neighbours what the ledger charges this proxy with, and settles with those that have ended. frozen: the ledger may not know all
// proxies yet.
func (a *Agent) settleLoans(frozen bool) {
	for server, places := range a.holder.TakeCharged() {
		for _, n := range a.neighbours {
			if own := min(places, n.uncharged[server]); own > 0 {
				places -= own
				n.uncharged[server] -= own
				a.send(n, &loanMessage{Charged: map[string]int{server: own}})
			}
		}
	}
	for _, n := range a.neighbours {
		if n.gone && !frozen && a.view.member(n.id) == nil { // it has ended, and the ledger knows
			a.returned(n, n.sent)
		}
	}
	a.neighbours = slices.DeleteFunc(a.neighbours, func(n *neighbour) bool {
		if !n.gone || sum(n.sent) != sum(n.charged) || sum(n.uncharged) > 0 {
			return false
		}
		n.free()
		return true
	})
	a.apply()
	a.lend()
}

// returnLoans settles with all neighbours when the pools are empty: what was borrowed is returned.
func (a *Agent) returnLoans() {
	for server := range a.offers {
		a.holder.Withdraw(server)
	}
	clear(a.offers)
	for _, n := range a.neighbours {
		n.wants = nil
		if sum(n.uncharged) > 0 {
			a.send(n, &loanMessage{Returned: n.uncharged})
		}
	}
}

// closeNeighbours closes the connections to all neighbours. Those from which something is borrowed are not let go: the process ends, and then they are.
func (a *Agent) closeNeighbours() {
	for _, n := range a.neighbours {
		_ = n.conn.Close()
		if a.holder.Borrowed() == 0 {
			n.free()
		}
	}
	a.listeners.Wait()
}

// free lets others prove the neighbour's end.
func (n *neighbour) free() {
	if n.release != nil {
		n.release()
		n.release = nil
	}
}

func sum(places map[string]int) (n int) {
	for _, p := range places {
		n += p
	}
	return n
}
