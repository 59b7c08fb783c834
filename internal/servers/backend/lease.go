package backend

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Use calls f on the connection's loop, where the session of the lease starts. It may be called from any goroutine. If the connection was
// lost since it was leased, alive is false: the lease has ended, and the caller leases another.
func (c *Conn) Use(f func(alive bool)) {
	ok := c.stream.Post(func() {
		c.lease = uint32(c.slot.Sessions())
		switch {
		case c.state == gone:
			f(false)
			return
		case c.state == lost && c.EarlyEnd() == nil:
			c.discard(*c.cause())
			f(false)
			return
		}
		c.sendPong()
		c.to(serving)
		c.stream.Resume() // see Received
		if c.EarlyEnd() == nil {
			c.config.backend.worker.serves()
		}
		f(true)
	})
	if !ok { // the process ends
		f(false)
	}
}

// ReturnUnused ends a lease that no session will use. It is called instead of Use, from any goroutine.
func (c *Conn) ReturnUnused() {
	c.Use(func(alive bool) {
		if alive {
			c.EndUnused()
		}
	})
}

// EndUnused ends a lease after Use, if nothing was sent and Begin was not called.
func (c *Conn) EndUnused() {
	if f := c.EarlyEnd(); f != nil {
		c.discard(cause{pool.Closed, frame.GoingAway, f.Reason})
		return
	}
	_ = c.giveBack()
}

// MessagesReceived returns how many whole messages the server has sent in this session, and whether another is under way.
func (c *Conn) MessagesReceived() (whole uint64, another bool) {
	return c.Scanner.Messages - c.begun, !c.Scanner.AtMessageBoundary()
}

// Client is whose session a connection serves, for the server's health.
type Client = health.Client

// LagReading and SessionLag are how late a server's results come.
type (
	LagReading = health.LagReading
	SessionLag = health.SessionLag
)

// Ending is how a session ends its lease.
type Ending struct {
	// Traffic counts what the session has passed on.
	Traffic profile.Traffic
	// MidFrame tells that a frame to the server was cut off, so that not even a close frame can be sent.
	MidFrame bool
	// Code and Text are for the close frame to the server, if the connection is to be closed, none was sent, and the server did not
	// break RFC 6455 ([Conn.RecordProtocolError]).
	Code frame.CloseCode
	Text string
	// Fault is how the server broke the session; empty if it did not.
	Fault string
	// Slow tells that the server took too long for the client's last result. It may be busy, which is no failure.
	Slow bool
	// Full tells that the server refused the session because it accepts no more at present.
	Full bool
	// ClosedWith is the server's close code if the server ended the session; 0 if it did not.
	ClosedWith frame.CloseCode
	// Hurried tells that the process is about to end, so that the server gets no more than CloseTimeout for its last word.
	Hurried bool
	// Client is whose session it was.
	Client Client
	// Spared tells that the end does not count yet, since it may be the client's doing. [Backend.SessionFailed] counts it later.
	Spared bool
	// Alike tells that another server has ended the session in the same way.
	Alike bool
}

// Outcome is what happens to a connection when its lease ends.
type Outcome uint8

const (
	// Discarded: the connection is closed.
	Discarded Outcome = iota
	// Resetting: the connection is being reset, and will be closed if that fails.
	Resetting
	// Returned: the connection is idle again.
	Returned
	// Ended: the server was told that the session is over, and the connection will be closed when it has answered.
	Ended
)

// String returns the word for logs.
func (o Outcome) String() string {
	return [...]string{"discarded", "resetting", "returned", "ended"}[o]
}

// End ends the lease. The boundary says whether the connection goes back to the pool, at once or after its reset; otherwise
// it is closed, with the code and text unless a close frame was sent before. If the profile says how to end a session that its client has
// left in the middle, the server is told so first, see leaving.go.
func (c *Conn) End(e Ending) Outcome {
	c.takeBack()
	if c.closeSent || c.closeReceived && c.cause() == nil { // the session was over, so nothing can have broken it
		e.Fault = ""
	}
	w := &c.config.backend.worker
	if e.Full && !c.Private() { // otherwise it may be full for this client only
		w.sessionRefused(e.Client)
	}
	now := w.now()
	w.sessionEnded(c.sessionEnd(&e, now), now)
	c.sessionBegan = 0
	c.midFrame = e.MidFrame
	if c.stream.Ended() || c.closeBegan() || e.MidFrame || e.Fault != "" || c.cause() != nil {
		why := cause{c.reason(e, profile.NoReason), e.Code, e.Text}
		if broken := c.cause(); broken != nil {
			why.code, why.text = broken.code, broken.text
			return c.discard(why)
		}
		return c.discardFor(why, e.Fault)
	}
	step := c.boundary.End(e.Traffic)
	if step.Then == profile.Leaving && !c.config.backend.mayLeave() {
		c.config.backend.options().Meter.EndedInOrder(meter.EndSkipped)
		step = c.boundary.End(e.Traffic)
	}
	c.FromServer.inspectRest(&c.boundary, &c.Scanner)
	if o := c.observer(); o != nil && step.Then == profile.Resetting {
		o.Fate(Resetting, c.boundary.Awaited())
	}
	c.ApplyToServer(step)
	switch {
	case step.Then == profile.Ready && c.stream.Held() == 0: // otherwise a frame has begun that no client asked for
		return c.giveBack()
	case step.Then == profile.Resetting:
		return c.reset()
	}
	why := cause{c.reason(e, step.Reason), e.Code, e.Text}
	if step.Then == profile.Leaving {
		return c.leave(why, e.Hurried)
	}
	if why.reason != poolReason(step.Reason) { // there is a better one than the boundary's
		return c.discardFor(why, "")
	}
	return c.discardFor(why, step.Reason.String())
}

// sessionEnd returns what the end of a session says about the server.
func (c *Conn) sessionEnd(e *Ending, now pool.Instant) health.SessionEnd {
	end := health.SessionEnd{Client: e.Client, Began: c.sessionBegan, Fault: e.Fault, Alike: e.Alike, Private: c.Private(), Outdated: c.outdated()}
	atOnce := c.closeReceived && e.ClosedWith != 0 && end.AtOnce(now)
	if end.Fault == "" && atOnce && failureCode(e.ClosedWith) {
		end.Fault = endedAtOnce(e.ClosedWith)
	}
	if e.Spared {
		end.Fault = ""
	}
	end.Neutral = e.Full || e.Slow || e.Spared || end.Fault == "" && (e.Alike || atOnce && !wellCode(e.ClosedWith) || c.EarlyEnd() != nil)
	return end
}

// RefusesOnly reports whether the server, which has refused the lease's session because it is full, may be full for its client only: it was dialed
// for it, or has refused no other lately.
func (c *Conn) RefusesOnly(client Client) (only bool) {
	w := &c.config.backend.worker
	w.locked(func(t *health.Tracker) { only = c.Private() || t.RefusesOnly(client, w.now()) })
	return only
}

// endedAtOnce is how a server has failed that ended a session at once.
func endedAtOnce(code frame.CloseCode) string {
	return fmt.Sprintf("the server ended it at once with code %d", code)
}

// SessionFailed counts that the server ended a client's session at once with this code, after it was spared; alike tells that another server
// has done the same.
func (b *Backend) SessionFailed(client Client, code frame.CloseCode, alike bool) {
	b.worker.sessionEnded(health.SessionEnd{Client: client, Fault: endedAtOnce(code), Alike: alike}, b.worker.now())
}

// FailsAtOnce reports whether the lease's session counts as failed if the server ends it now with this code.
func (c *Conn) FailsAtOnce(code frame.CloseCode) bool {
	e := health.SessionEnd{Began: c.sessionBegan}
	return failureCode(code) && !c.Private() && !c.outdated() && e.AtOnce(c.config.backend.worker.now())
}

// failureCode reports whether a server that ends a session at once with this code has failed.
func failureCode(code frame.CloseCode) bool {
	switch code {
	case frame.ProtocolError, frame.UnsupportedData, frame.InvalidPayload, frame.InternalError:
		return true
	}
	return false
}

// wellCode reports whether a server that ends a session with this code works.
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
	case c.stream.Ended() && !c.closeBegan():
		return pool.Lost
	case e.Fault != "":
		return pool.Broken
	case c.closeReceived && !c.closeSent:
		return pool.Closed
	case e.MidFrame || e.Traffic.SendingMessage:
		return pool.Cut
	case c.config.Profile.Reuse == profile.OneShot:
		return pool.Served
	}
	return poolReason(found)
}

// takeBack makes the connection the handler of its stream again.
func (c *Conn) takeBack() {
	if o := c.observer(); o != nil {
		o.TakenBack(c)
		c.stream.SetHandler(o)
	} else {
		c.stream.SetHandler(c)
	}
	c.stream.Resume()
}

// closeBegan reports whether one side has sent its close frame.
func (c *Conn) closeBegan() bool { return c.closeSent || c.closeReceived }

// SendClose relays a close frame's payload to the server; the session continues until the server's own close arrives. The
// stream must be at a frame boundary.
func (c *Conn) SendClose(payload []byte) {
	c.closeSent = true
	c.sendControl(frame.Close, payload)
}

// CloseReceived notes that the session has received the server's close frame.
func (c *Conn) CloseReceived() { c.closeReceived = true }

// RecordProtocolError notes that the server broke RFC 6455 in a session. However the session ends, the server's close frame says so.
func (c *Conn) RecordProtocolError(err error) { c.addDeferred().cause = protocolError(err) }

// EarlyEnd is how a server ended a connection that was dialed for one client before that client's session began.
//
// If a server accepts an upgrade with a client's own key or parameters and ends the connection right behind it, what it said and its close
// frame are its answer to that client. The client gets them as it would directly, and no other connection is dialed for it. With a
// one-shot profile, the session simply hears all of it (see [Conn.forSession]). Otherwise the boundary could not handle it, so it is kept here.
type EarlyEnd struct {
	Close  []byte // the payload of the server's close frame; nil if there was none
	Full   bool   // the server said that it is full
	Reason string // for logs
}

// EarlyEnd returns how the server ended the connection before the session that leased it began; nil if it did not. The session sends its
// client what [Conn.TakeGreeting] returns, and then this end, and ends the lease with [Conn.End].
func (c *Conn) EarlyEnd() *EarlyEnd {
	if c.deferred == nil {
		return nil
	}
	return c.deferred.earlyEnd
}

// Private reports whether the connection was dialed with what one client said in its handshake.
func (c *Conn) Private() bool { return isPrivate(c.slot.Variant()) }

// TakeGreeting returns the frames that the server sent before the session, for the client; the last one may be incomplete. They have
// passed the Scanner.
func (c *Conn) TakeGreeting() []byte {
	var frames []byte
	for op, payload := range c.boundary.Greeting() {
		frames = frame.AppendMessage(frames, op, true, payload, false)
	}
	if c.deferred != nil {
		frames = append(frames, c.deferred.greeting...)
		c.deferred.greeting = nil
	}
	return frames
}

// Observer is a [loop.Filter] in front of the handler of a connection's stream while an operator watches a session. A session puts it there at
// the beginning of a lease or later, and the connection takes it away when its fate is known. All calls come on the connection's loop.
type Observer interface {
	loop.Handler
	// TakenBack tells that the lease ends. From now on the observer stands in front of c.
	TakenBack(c *Conn)
	// Sent tells that the proxy itself sends the server a frame. The payload is valid during the call.
	Sent(op frame.Opcode, payload []byte)
	// Fate tells what becomes of the connection, and why or, if it is being reset, what must come. Returned and Discarded are the last.
	Fate(o Outcome, why string)
}

// observer returns the observer in front of the stream's handler; nil for none.
func (c *Conn) observer() Observer {
	o, _ := loop.As[Observer](c.stream.Handler())
	return o
}

// tellFate tells an observer, if there is one, what becomes of the connection.
func (c *Conn) tellFate(outcome Outcome, why string) {
	o := c.observer()
	if o == nil {
		return
	}
	o.Fate(outcome, why)
	if outcome == Returned || outcome == Discarded {
		c.stream.SetHandler(c)
	}
}

// explain says why a connection is discarded: the reason that is counted and, if it says more, an explanation.
func explain(reason pool.Reason, explanation string) string {
	if explanation == "" || explanation == reason.String() {
		return reason.String()
	}
	return reason.String() + ": " + explanation
}

// tellSent tells an observer, if there is one, that the proxy itself sends a frame.
func (c *Conn) tellSent(op frame.Opcode, payload []byte) {
	if o := c.observer(); o != nil {
		o.Sent(op, payload)
	}
}

// Stalled notes that the client's session of the connection's lease has had no result for so long, which is too long; how says so. again
// tells that the session has stalled on another server before. It is called on the connection's loop, before the lease ends.
func (c *Conn) Stalled(client Client, again bool, quiet time.Duration, how string) {
	b := c.config.backend
	b.options().Meter.Stall()
	othersHeard := pool.Instant(b.signed.Load()) > b.worker.now()-pool.Instant(quiet-signedEvery) // later than its own last result
	b.worker.sessionStalled(health.Stall{Client: client, OthersHeard: othersHeard, Began: c.sessionBegan, Again: again, How: how})
}

// signedEvery is how exactly it is known when a session was last seen to get results.
const signedEvery = 100 * time.Millisecond

// Signed notes that the session of the connection's lease, whose server is watched, has got results lately. It is called on the connection's loop.
func (c *Conn) Signed() {
	b := c.config.backend
	if now := b.worker.now(); now-pool.Instant(b.signed.Load()) > pool.Instant(signedEvery) {
		b.signed.Store(int64(now))
	}
}

// Answered notes that the session of the connection's lease has a result. It is called on the connection's loop, once for each session or more.
func (c *Conn) Answered() { c.config.backend.worker.sessionAnswered(c.sessionBegan) }
