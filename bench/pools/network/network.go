// Package network simulates a server and the way to it, for pools to be compared over: each dial and each ping takes one
// round trip, and connections can be made to die. It uses the timers of package time and no sockets, so that it follows
// the fake clock of testing/synctest.
package network

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of connections and of dialing them.
var (
	ErrRefused = errors.New("connection refused")
	ErrClosed  = errors.New("connection is closed")
	ErrNoPong  = errors.New("no pong in time")
)

// Network is a server and the way to it. Its methods may be called from any goroutine.
type Network struct {
	roundTrip time.Duration // static
	refusing  atomic.Bool

	mu   sync.Mutex
	open []*Conn // guarded by mu; those the server has open
	most int     // guarded by mu
}

// New returns a network with this time between a request and its answer.
func New(roundTrip time.Duration) *Network { return &Network{roundTrip: roundTrip} }

// Dial establishes a connection, which takes one round trip.
func (n *Network) Dial(ctx context.Context) (*Conn, error) {
	answer := time.NewTimer(n.roundTrip)
	defer answer.Stop()
	select {
	case <-answer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.refusing.Load() {
		return nil, ErrRefused
	}
	c := &Conn{network: n, ended: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.place = len(n.open)
	n.open = append(n.open, c)
	n.most = max(n.most, len(n.open))
	return c, nil
}

// Refuse has the server refuse new connections, or accept them again.
func (n *Network) Refuse(refuse bool) { n.refusing.Store(refuse) }

// Open returns how many connections the server has open.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open)
}

// Most returns how many it has had open at most.
func (n *Network) Most() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most
}

// BreakOne has the server end one of its connections, at random.
func (n *Network) BreakOne() {
	n.mu.Lock()
	var c *Conn
	if len(n.open) > 0 {
		c = n.open[rand.IntN(len(n.open))]
	}
	n.mu.Unlock()
	if c != nil {
		c.Break()
	}
}

// Break has the server end all its connections.
func (n *Network) Break() {
	n.mu.Lock()
	all := append([]*Conn(nil), n.open...)
	n.mu.Unlock()
	for _, c := range all {
		c.Break()
	}
}

// forget takes a connection out of those that are open, and returns false when it is not one of them any more.
func (n *Network) forget(c *Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.place < 0 {
		return false
	}
	last := len(n.open) - 1
	n.open[c.place] = n.open[last]
	n.open[c.place].place = c.place
	n.open[last] = nil
	n.open = n.open[:last]
	c.place = -1
	return true
}
