package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/backend/health"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/mistake"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// Retire implements [loop.Retirer]: it closes the connection and gives its slot up, whatever state a panic has left both in.
func (c *Conn) Retire(*loop.Conn) {
	c.timer.Stop()
	c.stopAlarm()
	if w := &c.made.backend.worker; c.sessionBegan != 0 {
		w.sessionEnded(health.SessionEnd{Began: c.sessionBegan, Neutral: true}, w.now())
		c.sessionBegan = 0
	}
	c.mode, c.kept = retiring, nil
	c.keep().broken = &retirement{pool.InternalError, frame.InternalError, mistake.Err.Error()} // for a session that is about to use it
	c.stream.Close()
	if d := c.dialing; d != nil {
		c.dialing = nil
		d.ready(mistake.Err) // and the slot, which was never filled, is given up
		return
	}
	c.slot.GiveUp()
}

// RetireLease is Retire for a session that may hold the lease: it does nothing if the connection is the pool's or another session's
// by now. It returns whether the session held it.
func (c *Conn) RetireLease(l LeaseHolder) bool {
	switch c.stream.Handler() {
	case loop.Handler(l):
	case loop.Handler(c): // the lease has not begun at the connection, or it was about to end
		state := c.slot.State()
		if c.mode != serving && (c.lease != c.slot.Sessions() || state != pool.Leased && state != pool.Resetting) {
			return false
		}
	default:
		return false
	}
	c.Retire(c.stream)
	return true
}
