package backend

import (
	"fmt"
	"net/netip"

	"github.com/wsbouncer/wsbouncer/internal/backend/health"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Use calls f on the connection's loop, where its session is to start, from any other goroutine. A connection that was
// lost since it was leased is not alive: its lease has ended then, and the caller leases another.
func (c *Conn) Use(f func(alive bool)) {
	ok := c.stream.Post(func() {
		c.lease = c.slot.Sessions()
		if why := c.broken(); why != nil && c.EarlyEnd() == nil {
			if !c.stream.Closed() {
				c.retire(*why)
			}
			f(false)
			return
		}
		c.sendPong()
		c.mode = serving
		c.stream.Resume() // see Received
		if c.EarlyEnd() == nil {
			c.made.backend.worker.serves()
		}
		f(true)
	})
	if !ok { // the process ends
		f(false)
	}
}

// ReturnUnused ends the lease of a connection that its session will not use after all, instead of Use. It may be called from
// any goroutine.
func (c *Conn) ReturnUnused() {
	c.Use(func(alive bool) {
		if alive {
			c.EndUnused()
		}
	})
}

// EndUnused ends the lease of a connection that was to be used, but that nothing was sent over.
func (c *Conn) EndUnused() {
	if f := c.EarlyEnd(); f != nil {
		c.retire(retirement{pool.Closed, frame.GoingAway, f.Reason})
		return
	}
	_ = c.idle()
}

// MessagesReceived returns how many whole messages the server has sent in this session, and whether another is under way.
func (c *Conn) MessagesReceived() (whole uint64, another bool) {
	return c.Scanner.Messages - c.begun, !c.Scanner.AtMessageBoundary()
}

// Ending is how a session ends its lease.
type Ending struct {
	// Traffic is what the session saw.
	Traffic profile.Traffic
	// MidFrame tells that a frame to the server was cut off, so that not even a close frame can be sent.
	MidFrame bool
	// Code and Text are for the close frame to the server, if the connection is closed, none has been sent, and the server has
	// not to be told that it broke RFC 6455 ([Conn.RecordProtocolError]).
	Code frame.CloseCode
	Text string
	// Fault is how the server broke the session; empty if it did not.
	Fault string
	// Full tells that the server refused the session because it takes no more for now.
	Full bool
	// ClosedWith is the code that the session ended with, if it was the server who ended it; 0 if it was not.
	ClosedWith frame.CloseCode
	// Client is the address of the session's client; the zero value if it is not known.
	Client netip.Addr
}

// End ends the lease. The boundary says whether the connection goes back to the pool, now or once its reset has succeeded;
// otherwise it is closed, with the code and text unless close frames have been exchanged before. End returns what becomes of
// the connection.
func (c *Conn) End(e Ending) Outcome {
	c.takeBack()
	if c.closeSent || c.closeReceived && c.broken() == nil { // the session was over, so that nothing can have broken it any more
		e.Fault = ""
	}
	w := &c.made.backend.worker
	if e.Full && !c.private() { // otherwise it may be full for this client
		w.sessionRefused()
	}
	now := w.now()
	w.sessionEnded(c.sessionEnd(&e, now), now)
	c.sessionBegan = 0
	c.cut = e.MidFrame
	if c.stream.Ended() || c.closing() || e.MidFrame || e.Fault != "" || c.broken() != nil {
		why := retirement{c.reason(e, profile.NoReason), e.Code, e.Text}
		if broken := c.broken(); broken != nil {
			why.code, why.text = broken.code, broken.text
		}
		c.retire(why)
		return Discarded
	}
	step := c.boundary.End(e.Traffic)
	c.FromServer.inspectRest(&c.boundary, &c.Scanner)
	c.perform(step)
	switch {
	case step.Then == profile.Ready && c.stream.Held() == 0: // otherwise it is the beginning of something that nobody asked for
		return c.idle()
	case step.Then == profile.Resetting:
		c.mode = resetting
		c.timer.Stop()
		if limit := c.made.backend.options().ResetTimeout; limit > 0 {
			c.timer.Set(c.stream, limit, timerReset)
		}
		c.slot.Reset(c.lease)
		return Resetting
	}
	c.retire(retirement{c.reason(e, step.Reason), e.Code, e.Text})
	return Discarded
}

// sessionEnd returns what the end of a session says about the server.
func (c *Conn) sessionEnd(e *Ending, now pool.Instant) health.SessionEnd {
	end := health.SessionEnd{Client: e.Client, Began: c.sessionBegan, Fault: e.Fault, Private: c.private(), Outdated: c.outdated()}
	atOnce := c.closeReceived && e.ClosedWith != 0 && end.AtOnce(now)
	if end.Fault == "" && atOnce && failureCode(e.ClosedWith) {
		end.Fault = fmt.Sprintf("the server ended it at once with code %d", e.ClosedWith)
	}
	end.Neutral = e.Full || end.Fault == "" && (atOnce && !wellCode(e.ClosedWith) || c.EarlyEnd() != nil)
	return end
}

// failureCode tells whether a server that ends a session at once with this code says that something is wrong.
func failureCode(code frame.CloseCode) bool {
	switch code {
	case frame.ProtocolError, frame.UnsupportedData, frame.InvalidPayload, frame.InternalError:
		return true
	}
	return false
}

// wellCode tells whether a server that closes with this code says that all is well.
func wellCode(code frame.CloseCode) bool {
	return code == frame.NormalClosure || code == frame.GoingAway || code == frame.NoStatus
}

// reason tells why a connection is discarded after a session, for which the boundary may have a reason.
func (c *Conn) reason(e Ending, found profile.Reason) pool.Reason {
	switch {
	case e.Full:
		return pool.Full
	case c.silent:
		return pool.Silent
	case c.stream.Ended() && !c.closing():
		return pool.Lost
	case e.Fault != "":
		return pool.Broken
	case c.closeReceived && !c.closeSent:
		return pool.Closed
	case e.MidFrame || e.Traffic.SendingMessage:
		return pool.Cut
	case c.made.Profile.Reuse == profile.OneShot:
		return pool.Served
	}
	return poolReason(found)
}

// takeBack makes the connection the handler of its stream again.
func (c *Conn) takeBack() {
	c.stream.SetHandler(c)
	c.stream.Resume()
}

// idle gives the connection back to the pool, if it may serve another session.
func (c *Conn) idle() Outcome {
	o := c.made.backend.options()
	switch {
	case c.outdated():
		c.retire(retirement{pool.Outdated, frame.GoingAway, "settings changed"})
	case o.MaxSessions > 0 && c.slot.Sessions() >= o.MaxSessions:
		c.retire(retirement{pool.WornOut, frame.GoingAway, "served its sessions"})
	case c.aged():
		c.retire(retirement{pool.Aged, frame.GoingAway, tooOld})
	case isPrivate(c.slot.Variant()):
		c.retire(retirement{pool.Served, frame.GoingAway, "served its client"})
	default:
		c.waits()
		c.slot.Return(c.lease)
		return Returned
	}
	return Discarded
}

// rest ends the greeting or the reset, if the boundary says that the connection may serve a session. behind is the incomplete
// frame that has been received behind what was presented.
func (c *Conn) rest(behind []byte) {
	if !c.clean {
		return
	}
	switch {
	case c.mode == greeting:
		c.clean = false
		c.fill()
	case c.mode == resetting && len(behind) == 0:
		c.clean = false
		_ = c.idle()
	case c.mode == resetting && !frame.Opcode(behind[0]&0xf).IsControl(): // the beginning of what nobody asked for
		c.retire(retirement{pool.Unsolicited, frame.PolicyViolation, profile.Unsolicited.String()})
	}
}
