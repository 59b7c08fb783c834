package network

import (
	"sync/atomic"
	"time"
)

// Conn is one connection to the server, as its client sees it. Its methods may be called from any goroutine.
type Conn struct {
	// Tag is for the pool that dialed the connection, to find its own entry.
	Tag any
	// Asked is called by Alive, if it is set, for tests in which something happens while a pool asks. It is set while
	// nothing else uses the connection.
	Asked func()

	network *Network
	place   int           // guarded by the network's mutex: in its open connections; -1 when not there any more
	ended   chan struct{} // closed when either side has closed
	silent  atomic.Bool
	reader  atomic.Pointer[func()]
}

// Alive tells whether neither side has closed, which says nothing about whether the server still answers.
func (c *Conn) Alive() bool {
	if c.Asked != nil {
		c.Asked()
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// SendPing writes a ping and does not wait. pong, if it is not nil, is called one round trip later, if the server answers.
// The error tells that the connection is closed, and nothing else.
func (c *Conn) SendPing(pong func()) error {
	select {
	case <-c.ended:
		return ErrClosed
	default:
	}
	if pong == nil || c.silent.Load() {
		return nil
	}
	time.AfterFunc(c.network.roundTrip, func() {
		select {
		case <-c.ended:
		default:
			pong()
		}
	})
	return nil
}

// Ping sends a ping and waits for the pong.
func (c *Conn) Ping(timeout time.Duration) error {
	answered := make(chan struct{})
	if err := c.SendPing(func() { close(answered) }); err != nil {
		return err
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-answered:
		return nil
	case <-c.ended:
		return ErrClosed
	case <-late.C:
		return ErrNoPong
	}
}

// OnEnd sets what a reader of the connection does when the server ends it: f is called then, or at once if the connection
// has ended already. It is not called when the client closes later.
func (c *Conn) OnEnd(f func()) {
	c.reader.Store(&f)
	select {
	case <-c.ended:
		c.tell()
	default:
	}
}

// tell calls the reader, once.
func (c *Conn) tell() {
	if f := c.reader.Swap(nil); f != nil {
		(*f)()
	}
}

// Close closes the connection on the client's side. It can be called again.
func (c *Conn) Close() {
	c.reader.Store(nil)
	if c.network.forget(c) {
		close(c.ended)
	}
}

// Break has the server end the connection.
func (c *Conn) Break() {
	if c.network.forget(c) {
		close(c.ended)
		c.tell()
	}
}

// Silence has the server answer no pings on this connection, though it stays open, or answer them again.
func (c *Conn) Silence(silent bool) { c.silent.Store(silent) }
