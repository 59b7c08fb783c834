package backend

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// SendClose relays a close frame's payload to the server; the session goes on until the server's own close arrives. The
// stream must be at a frame boundary.
func (c *Conn) SendClose(payload []byte) {
	c.closeSent = true
	c.sendControl(frame.Close, payload)
}

// CloseReceived notes that the server sent its close frame to the session.
func (c *Conn) CloseReceived() { c.closeReceived = true }

// RecordProtocolError notes that the server broke RFC 6455 while a session was served. Whatever the session ends with, the server is told
// what it did.
func (c *Conn) RecordProtocolError(err error) { c.keep().broken = breach(err) }

// broken returns why the connection must not serve a session, or not another one; nil if it may.
func (c *Conn) broken() *retirement {
	if c.kept == nil {
		return nil
	}
	return c.kept.broken
}

// breach is the end of a connection whose server broke RFC 6455, with an error of package frame.
func breach(err error) *retirement {
	why := &retirement{pool.Broken, frame.ProtocolError, err.Error()}
	if broken, ok := err.(*frame.Error); ok {
		why.code = broken.Code
	}
	return why
}

// closing tells whether one side has sent its close frame.
func (c *Conn) closing() bool { return c.closeSent || c.closeReceived }

// retirement is why and how a connection ends.
type retirement struct {
	reason pool.Reason
	code   frame.CloseCode // for the close frame to the server
	text   string
}

// lost notes, while no session is being served, that the connection cannot serve one any more.
func (c *Conn) lost(why retirement) {
	if c.broken() == nil && c.unused() && c.young() && !c.private() && !c.outdated() {
		c.made.backend.worker.lostOnProbation(why.text)
	}
	c.withdraw(why)
}

// withdraw is lost without blaming the server.
func (c *Conn) withdraw(why retirement) {
	if c.broken() != nil {
		return
	}
	c.keep().broken = &why
	if c.slot.Withdraw(why.reason) {
		c.made.backend.options().Log.Debug("idle connection retired", "backend", c.made.backend.Name(), "reason", why.text)
		c.close(why)
	}
	// Otherwise it has been leased this moment, or withdrawn by the worker or Close, and they will see it.
}

// unused tells whether no session has begun on the connection, which waits for one. The first may have leased it.
func (c *Conn) unused() bool {
	sessions := c.slot.Sessions()
	return sessions == 0 || sessions == 1 && c.slot.State() == pool.Leased
}

// retire ends the lease with the connection being closed.
func (c *Conn) retire(why retirement) {
	c.slot.Discard(c.lease, why.reason)
	c.close(why)
}

// closeWithdrawn closes an idle connection whose slot is retiring already.
func (c *Conn) closeWithdrawn() {
	if why := c.broken(); why != nil { // since it was withdrawn
		c.close(*why)
		return
	}
	c.close(retirement{code: frame.GoingAway})
}

// close closes the connection in order: a close frame, unless one was sent, and a bounded wait for the server's part. A server
// that broke the protocol has no part in it but to end the stream: what else it sends would not be understood.
func (c *Conn) close(why retirement) {
	c.mode = retiring
	c.kept = nil
	c.stopAlarm()
	if c.stream.Ended() {
		c.finish()
		return
	}
	if !c.closeSent && !c.cut {
		c.SendClose(frame.AppendClosePayload(nil, why.code, why.text))
	}
	if c.closeReceived || c.cut || why.reason == pool.Broken {
		c.stream.CloseWrite()
	}
	c.timer.Set(c.stream, c.made.backend.options().CloseTimeout, timerClose)
}

// finish gives the connection and its slot up.
func (c *Conn) finish() {
	if c.stream.Closed() {
		return
	}
	c.timer.Stop()
	c.stopAlarm()
	c.stream.Close()
	if c.dialing != nil { // the slot was never filled
		c.dialing.ready(c.dialing.refusal)
		return
	}
	c.slot.Gone()
}
