package backend

import (
	"errors"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// This file is the life of a connection: its states, the transitions between them, and what ends it.
//
//	                                                      Filled
//	greeting --Ready--> greeted --nothing more was sent--> idle <-----------------------------+
//	                                                       |  |                               |
//	                                  +------ lost <-------+  | Use                           |
//	                                  |                       v        End, EndUnused         |
//	                                  +---- for its -----> serving -------------------------->+
//	                                         client           |                               |
//	                                                          | End              nothing more |
//	                                                          v                    was sent   |
//	                                                      resetting --Ready--> clean -------->+
//
//	serving --End, and the server must be told--> leaving --its last word, its close, time-out--> closing
//
//	all of these --failure, age, shutdown, end of the lease--> closing --end of the stream, time-out--> gone
//
// A lost connection is already leased or withdrawn. Use or closeWithdrawn closes it; if it was dialed for one client, its session tells
// that client how it ended ([EarlyEnd]). For that, such a connection that fails while greeting becomes idle first, so that its client gets
// it. A panic takes a connection from any state to gone.

// state is what a connection is doing.
type state uint8

const (
	// greeting: it was dialed, and the server's greeting is awaited.
	greeting state = iota
	// greeted: the server has greeted, and what it has sent behind that is checked.
	greeted
	// idle: it is in the pool, idle or leased by a session that has not begun.
	idle
	// lost: it is in the pool and cannot serve another session.
	lost
	// serving: a session is the handler of its stream.
	serving
	// resetting: the session has ended. The answer to the profile's reset is awaited.
	resetting
	// clean: the reset has succeeded, and what the server has sent behind that is checked.
	clean
	// leaving: the session has ended, the connection serves no other, and the server was told that the session is over. Its last word is
	// awaited.
	leaving
	// closing: all is dropped until the server closes.
	closing
	// gone: it is closed, and its place is free.
	gone

	states = iota
)

func (s state) String() string {
	return [states]string{"greeting", "greeted", "idle", "lost", "serving", "resetting", "clean", "leaving", "closing", "gone"}[s]
}

// stateSet is a set of states.
type stateSet uint16

func in(all ...state) (s stateSet) {
	for _, state := range all {
		s |= 1 << state
	}
	return s
}

func (s stateSet) has(state state) bool { return s>>state&1 != 0 }

var (
	notInPool = in(greeting, greeted)
	inPool    = in(idle, lost)
	ended     = in(closing, gone)
	unusable  = in(lost, closing, gone)
)

// transitions are the allowed ones.
var transitions = [states]stateSet{
	greeting:  in(greeted, idle, closing, gone),
	greeted:   in(idle, closing, gone),
	idle:      in(lost, serving, closing, gone),
	lost:      in(serving, closing, gone),
	serving:   in(idle, resetting, leaving, closing, gone),
	resetting: in(clean, closing, gone),
	clean:     in(idle, closing, gone),
	leaving:   in(closing, gone),
	closing:   in(gone),
}

// to is the one place where the state changes. It panics on a transition that is not allowed.
func (c *Conn) to(next state) {
	if !transitions[c.state].has(next) {
		panic(fmt.Sprintf("backend: a connection cannot go from %v to %v", c.state, next))
	}
	c.state = next
}

// cause is why and how a connection ends.
type cause struct {
	reason pool.Reason
	code   frame.CloseCode // for the close frame to the server
	text   string
}

// protocolError is the cause when the server broke RFC 6455; err is an error of package frame.
func protocolError(err error) *cause {
	why := &cause{pool.Broken, frame.ProtocolError, err.Error()}
	if broken, ok := err.(*frame.Error); ok {
		why.code = broken.Code
	}
	return why
}

// idleIfDone makes a connection idle that is greeted or clean, unless more was received. behind is the incomplete frame at the end of what was
// received.
func (c *Conn) idleIfDone(behind []byte) {
	switch {
	case c.state == greeted:
		c.fill()
	case c.state == clean && len(behind) == 0:
		_ = c.giveBack()
	case c.state == clean && !frame.Opcode(behind[0]&0xf).IsControl(): // a message has begun that no client asked for
		c.discard(unsolicited)
	}
}

// fill puts the connection into the pool.
func (c *Conn) fill() {
	ready := c.dialing.ready
	c.dialing = nil
	defer ready(nil) // whatever happens
	c.makeIdle()
	c.slot.Filled(c)
}

// makeIdle makes the connection idle.
func (c *Conn) makeIdle() {
	c.to(idle)
	c.stateTime = 0
	if limit := c.config.Profile.Limits.Idle; limit > 0 {
		c.stateTime = loop.Now().After(jittered(limit))
	}
	c.scheduleCheck()
}

// giveBack ends the lease. The connection is idle again if it may serve another session.
func (c *Conn) giveBack() Outcome {
	o := c.config.backend.options()
	switch {
	case c.outdated():
		return c.discard(cause{pool.Outdated, frame.GoingAway, "replaced by a new connection"})
	case o.MaxSessions > 0 && c.slot.Sessions() >= o.MaxSessions:
		return c.discard(cause{pool.WornOut, frame.GoingAway, "served its sessions"})
	case c.aged():
		return c.discard(aged)
	case c.Private():
		return c.discard(cause{pool.Served, frame.GoingAway, "served its client"})
	}
	c.makeIdle()
	c.slot.Return(uint64(c.lease))
	c.tellFate(Returned, "")
	return Returned
}

// discard ends the lease and closes the connection.
func (c *Conn) discard(why cause) Outcome { return c.discardFor(why, why.text) }

// discardFor is discard with a better explanation for an observer than the text for the server.
func (c *Conn) discardFor(why cause, explanation string) Outcome {
	c.slot.Discard(uint64(c.lease), why.reason)
	c.close(why)
	c.tellFate(Discarded, explain(why.reason, explanation))
	return Discarded
}

// Causes that several events have.
var (
	unsolicited = cause{pool.Unsolicited, frame.PolicyViolation, profile.Unsolicited.String()}
	aged        = cause{pool.Aged, frame.GoingAway, "maximum age reached"}
	unwanted    = cause{pool.Shutdown, frame.GoingAway, "no longer wanted"}
)

// fail takes the connection out of service while no session is the handler of its stream. It is ignored if the connection is out of
// service already. closeFrame is the payload of the server's close frame; nil if it has sent none.
func (c *Conn) fail(why cause, closeFrame []byte) {
	switch {
	case c.endsForClient(&why):
		c.leaveToClient(why, closeFrame)
	case notInPool.has(c.state):
		if c.dialing.refusal == nil {
			c.dialing.refusal = errors.New(why.text)
		}
		c.close(why)
	case c.state == idle:
		c.lose(why)
	case c.state == resetting, c.state == clean:
		c.discard(why)
	case c.state == leaving:
		c.leftFor(why)
	case c.state == closing:
		c.finish()
	}
}

// lose takes an idle connection out of service. If it was lost soon after it was established and before it served a session, that counts
// against the server.
func (c *Conn) lose(why cause) {
	if c.unused() && c.young() && !c.Private() && !c.outdated() {
		c.config.backend.worker.lostOnProbation(why.text)
	}
	c.withdraw(why)
}

// withdraw takes an idle connection out of service. That does not count against the server.
func (c *Conn) withdraw(why cause) {
	if !c.slot.Withdraw(why.reason) { // it was leased or withdrawn this moment
		c.addDeferred().cause = &why
		c.to(lost)
		return
	}
	c.config.backend.options().Log.Debug("idle connection retired", "backend", c.config.backend.Name(), "reason", why.text)
	c.close(why)
}

// unused reports whether no session has begun on the idle connection. The first may have leased it.
func (c *Conn) unused() bool {
	sessions := c.slot.Sessions()
	return sessions == 0 || sessions == 1 && c.slot.State() == pool.Leased
}

// young reports whether the connection was established so recently that its loss counts against the server.
func (c *Conn) young() bool { return -c.established.Until() < health.Probation }

// endsForClient reports whether the end of the connection is for the client that it was dialed for.
func (c *Conn) endsForClient(why *cause) bool {
	return c.Private() && why.reason != pool.Shutdown &&
		(notInPool.has(c.state) || c.state == idle && c.lease == 0 && c.slot.State() == pool.Leased)
}

// leaveToClient keeps the end of the connection for the client that it was dialed for, see [EarlyEnd].
func (c *Conn) leaveToClient(why cause, closeFrame []byte) {
	c.stopBoundaryTimer()
	if notInPool.has(c.state) {
		if c.fill(); c.slot.State() != pool.Leased { // the client has left meanwhile
			c.lose(why)
			return
		}
	}
	d := c.addDeferred()
	d.earlyEnd = &EarlyEnd{Close: closeFrame, Full: why.reason == pool.Full, Reason: why.text}
	if why.reason == pool.Broken { // the server is told, whatever its client is
		d.cause = &why
	}
	c.to(lost)
}

// giveUp closes a connection that is not in the pool yet, because it is no longer wanted.
func (c *Conn) giveUp() {
	if notInPool.has(c.state) {
		c.fail(unwanted, nil)
	}
}

// closeWithdrawn closes a connection whose slot the worker has retired.
func (c *Conn) closeWithdrawn() {
	switch why := c.cause(); {
	case ended.has(c.state):
	case why != nil: // it was lost since it was withdrawn
		c.close(*why)
	default:
		c.close(cause{code: frame.GoingAway})
	}
}

// close sends a close frame, unless one was sent, and waits for the server's, at most for CloseTimeout. From a server that broke the
// protocol it awaits the end of the stream only, since what that server sends cannot be understood.
func (c *Conn) close(why cause) {
	c.to(closing)
	c.deferred = nil
	c.stopBoundaryTimer()
	if c.stream.Ended() {
		c.finish()
		return
	}
	if !c.closeSent && !c.midFrame {
		c.SendClose(frame.AppendClosePayload(nil, why.code, why.text))
	}
	if c.closeReceived || c.midFrame || why.reason == pool.Broken {
		c.stream.CloseWrite()
	}
	c.timer.Set(c.stream, c.config.backend.options().CloseTimeout, timerClose)
}

// finish closes the stream and gives the slot up.
func (c *Conn) finish() {
	c.end()
	if d := c.dialing; d != nil { // the slot was never filled
		c.dialing = nil
		d.ready(d.refusal)
		return
	}
	c.slot.Gone()
}

// end closes the stream. The caller gives the slot up.
func (c *Conn) end() {
	c.to(gone)
	c.deferred = nil
	c.timer.Stop()
	c.stopBoundaryTimer()
	c.stream.Close()
}

// Retire implements [loop.Retirer]: after a panic, it closes the connection and gives its slot up in any state.
func (c *Conn) Retire(*loop.Conn) {
	if w := &c.config.backend.worker; c.sessionBegan != 0 {
		w.sessionEnded(health.SessionEnd{Began: c.sessionBegan, Neutral: true}, w.now())
		c.sessionBegan = 0
	}
	if c.state == leaving {
		c.config.backend.leaving.Add(-1)
	}
	if c.state != gone {
		c.end()
	}
	if d := c.dialing; d != nil {
		c.dialing = nil
		d.ready(panics.Err) // and the slot, which was never filled, is given up
		return
	}
	c.slot.GiveUp()
	c.tellFate(Discarded, panics.Err.Error())
}

// RetireLease is Retire for a session whose lease did not end in order. It does nothing, and returns false, if another session has begun on
// the connection. One that has gone back to the pool, or that another session is about to use, is retired too: what the panic
// has left behind is not known, and [Conn.Use] says that it is not alive.
func (c *Conn) RetireLease(l LeaseHolder) bool {
	if holder := c.holder(); holder != nil && holder != l { // without a holder, the handler is c
		return false
	}
	c.Retire(c.stream)
	return true
}
