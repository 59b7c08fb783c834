package backend

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/handshake"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// maxGreeting is the most, in bytes, that a server may send before the first session of a connection that will serve
// only that one.
const maxGreeting = 64 << 10

// Conn is one pooled connection. It belongs to the event loop that its stream lives on: all fields and methods are for
// that loop's goroutine, except Use.
//
// While a session holds the lease, the session is the handler of the stream's events and scans what the server sends
// with Scanner; at all other times Conn is the handler itself. What the server's protocol demands is the business of the
// connection's boundary: whoever is the handler presents to it what it watches, and does what its steps say.
type Conn struct {
	backend  *Backend
	slot     *pool.Slot[*Conn]
	lease    uint64 // the number of the present lease, or of the last
	stream   *loop.Conn
	protocol string

	established loop.Instant

	// Scanner follows what the server sends, over all sessions, and FromServer presents what is watched of it.
	Scanner    frame.Scanner
	FromServer Watcher

	boundary profile.Boundary
	alarm    loop.Timer  // the boundary's
	clean    bool        // the boundary says that the connection may serve a session
	ready    func(error) // tells the dialing goroutine what became of the connection; nil once it has been called
	refusal  error       // why the connection cannot be used (greeting)

	mode     mode
	broken   *retirement  // why the connection must not serve the session that has leased it; nil if it may
	retireAt loop.Instant // it serves no session that would begin later; 0 for never
	// idleUntil is when it has waited for a session as long as the server lets it; 0 for no limit.
	idleUntil loop.Instant

	// For pings, see ping.go.
	pinged    loop.Instant  // when the ping was sent that is not answered yet; 0 for none
	token     uint64        // its payload
	received  uint64        // what the server had sent by then
	roundTrip time.Duration // of the last answered ping
	silent    bool          // a ping was not answered in time

	kept  *kept  // what waits; nil for nothing, as nearly always
	begun uint64 // Scanner.Messages when the present session began

	closeSent, closeReceived bool
	cut                      bool       // a frame to the server was cut off: no other can follow
	timer                    loop.Timer // bounds resetting and retiring; when waiting and serving, the next look
}

// TakeTimers takes the connection's timers off its loop, for a move to another one. What it returns sets them on that loop.
func (c *Conn) TakeTimers() (put func(*loop.Loop)) {
	looks, alarms := c.timer.Take(), c.alarm.Take()
	return func(l *loop.Loop) {
		if looks {
			c.timer.Put(l)
		}
		if alarms {
			c.alarm.Put(l)
		}
	}
}

// kept is what the server sent that has to wait for its moment.
type kept struct {
	greeting []byte // frames sent before the session of a one-shot connection
	pong     []byte // the answer to its last ping, when the stream was full; nil for none
}

// keep returns what waits, to add to it.
func (c *Conn) keep() *kept {
	if c.kept == nil {
		c.kept = new(kept)
	}
	return c.kept
}

// mode is what the connection, while it is the handler of its stream, makes of what arrives.
type mode uint8

const (
	greeting  mode = iota // dialed; the server's greeting is awaited
	waiting               // idle, or leased by a session that has not started yet
	serving               // a session is the handler
	resetting             // what a session left unread is awaited and dropped
	retiring              // all is dropped until the server closes
)

// adopt makes an established connection part of the pool, as soon as the server has said what its profile has it say first.
// ready is called once: with the slot filled, or with an error when the connection has been closed instead. It runs on loop l.
func adopt(b *Backend, slot *pool.Slot[*Conn], l *loop.Loop, socket loop.Socket, e handshake.Established, ready func(error)) *Conn {
	c := &Conn{
		backend: b, slot: slot, protocol: e.Protocol, established: loop.Now(), Scanner: frame.NewServerScanner(),
		boundary: profile.New(b.options.Profile), ready: ready,
	}
	c.stream = l.Add(socket, c, e.Early)
	if age := b.options.MaxAge; age > 0 {
		c.retireAt = c.established.After(jittered(age))
	}
	c.act(c.boundary.Dialed())
	c.rest(nil)
	return c
}

// forgo gives a connection up that is not available yet.
func (c *Conn) forgo() {
	if c.mode == greeting {
		c.failed(retirement{pool.Shutdown, frame.GoingAway, "the proxy ends"})
	}
}

// fill makes the connection available.
func (c *Conn) fill() {
	ready := c.ready
	c.ready = nil
	c.waits()
	c.slot.Filled(c)
	ready(nil)
}

// Use calls f on the connection's loop, where its session is to start, from any other goroutine. A connection that was
// lost since it was leased is not alive: its lease has ended then, and the caller leases another.
func (c *Conn) Use(f func(alive bool)) {
	ok := c.stream.Post(func() {
		c.lease = c.slot.Sessions()
		if c.broken != nil {
			c.retire(*c.broken)
			f(false)
			return
		}
		c.sendPong()
		c.mode = serving
		c.backend.worker.served()
		f(true)
	})
	if !ok { // the process ends
		f(false)
	}
}

// GiveBack ends the lease of a connection that its session will not use after all, instead of Use. It may be called from
// any goroutine.
func (c *Conn) GiveBack() {
	c.Use(func(alive bool) {
		if alive {
			c.Abandon()
		}
	})
}

// Abandon ends the lease of a connection that was to be used, but that nothing was sent over.
func (c *Conn) Abandon() { c.idle() }

// Backend returns the backend that the connection leads to.
func (c *Conn) Backend() *Backend { return c.backend }

// Stream returns the connection on its event loop. The session makes itself the handler of its events.
func (c *Conn) Stream() *loop.Conn { return c.stream }

// Protocol returns the subprotocol that the server chose; empty for none.
func (c *Conn) Protocol() string { return c.protocol }

// TakeGreeting returns the frames, or the beginning of them, that the server sent before the session, to be presented
// to the client. They have passed the Scanner.
func (c *Conn) TakeGreeting() []byte {
	if c.kept == nil {
		return nil
	}
	greeting := c.kept.greeting
	c.kept.greeting = nil
	return greeting
}

// Answered returns how many whole messages the server has sent in this session, and whether another is under way.
func (c *Conn) Answered() (whole uint64, another bool) {
	return c.Scanner.Messages - c.begun, !c.Scanner.AtMessageBoundary()
}

// Ending is how a session ends its lease.
type Ending struct {
	// Traffic is what the session saw.
	Traffic profile.Traffic
	// MidFrame tells that a frame to the server was cut off, so that not even a close frame can be sent.
	MidFrame bool
	// Code and Text are for the close frame to the server, if the connection is closed and none has been sent.
	Code frame.CloseCode
	Text string
	// Fault is how the server broke the session; empty if it did not.
	Fault string
	// Full tells that the server refused the session because it takes no more for now.
	Full bool
}

// End ends the lease. The boundary says whether the connection goes back to the pool, now or once its reset has succeeded;
// otherwise it is closed, with the code and text unless close frames have been exchanged before. End returns what becomes of
// the connection.
func (c *Conn) End(e Ending) Outcome {
	c.takeBack()
	if c.closing() { // the session was over, so that nothing can have broken it any more
		e.Fault = ""
	}
	if e.Full {
		c.backend.worker.full()
	} else {
		c.backend.worker.ended(e.Fault)
	}
	c.cut = e.MidFrame
	if c.stream.Ended() || c.closing() || e.MidFrame || e.Fault != "" {
		c.retire(retirement{c.reason(e, profile.NoReason), e.Code, e.Text})
		return Discarded
	}
	step := c.boundary.End(e.Traffic)
	c.FromServer.watchRest(&c.boundary, &c.Scanner)
	c.perform(step)
	switch {
	case step.Then == profile.Ready && c.stream.Held() == 0: // otherwise it is the beginning of something that nobody asked for
		c.idle()
		return Returned
	case step.Then == profile.Resetting:
		c.mode = resetting
		c.timer.Stop()
		if limit := c.backend.options.ResetTimeout; limit > 0 {
			c.timer.Set(c.stream.Loop(), limit, func() {
				c.retire(retirement{pool.ResetFailed, frame.GoingAway, "no answer in time"})
			})
		}
		c.slot.Reset(c.lease)
		return Resetting
	}
	c.retire(retirement{c.reason(e, step.Reason), e.Code, e.Text})
	return Discarded
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
	case c.backend.options.Profile.Reuse == profile.OneShot:
		return pool.Served
	}
	return poolReason(found)
}

// SendClose relays a close frame's payload to the server; the session goes on until the server's own close arrives. The
// stream must be at a frame boundary.
func (c *Conn) SendClose(payload []byte) {
	c.closeSent = true
	c.sendControl(frame.Close, payload)
}

// CloseReceived notes that the server sent its close frame to the session.
func (c *Conn) CloseReceived() { c.closeReceived = true }

// closing tells whether one side has sent its close frame.
func (c *Conn) closing() bool { return c.closeSent || c.closeReceived }

// takeBack makes the connection the handler of its stream again.
func (c *Conn) takeBack() {
	c.stream.SetHandler(c)
	c.stream.Resume()
}

// idle gives the connection back to the pool, if it may serve another session.
func (c *Conn) idle() {
	o := &c.backend.options
	switch {
	case o.MaxSessions > 0 && c.slot.Sessions() >= o.MaxSessions:
		c.retire(retirement{pool.WornOut, frame.GoingAway, "served its sessions"})
	case c.aged():
		c.retire(retirement{pool.Aged, frame.GoingAway, tooOld})
	case isPrivate(c.slot.Variant()):
		c.retire(retirement{pool.Served, frame.GoingAway, "served its client"})
	default:
		c.waits()
		c.slot.Return(c.lease)
	}
}

// retirement is why and how a connection ends.
type retirement struct {
	reason pool.Reason
	code   frame.CloseCode // for the close frame to the server
	text   string
}

// lost notes, while no session is being served, that the connection cannot serve one any more.
func (c *Conn) lost(why retirement) {
	if c.broken != nil {
		return
	}
	c.broken = &why
	if c.slot.Sessions() == 0 && -c.established.Until() < probation {
		c.backend.worker.lostOnProbation(why.text)
	}
	if c.slot.Withdraw(why.reason) {
		c.backend.options.Log.Debug("idle connection retired", "backend", c.backend.URL(), "reason", why.text)
		c.close(why.code, why.text)
	}
	// Otherwise it has been leased this moment, or withdrawn by the worker or Close, and they will see it.
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
		c.idle()
	case c.mode == resetting && !frame.Opcode(behind[0]&0xf).IsControl(): // the beginning of what nobody asked for
		c.retire(retirement{pool.Unsolicited, frame.PolicyViolation, profile.Unsolicited.String()})
	}
}

// retire ends the lease with the connection being closed.
func (c *Conn) retire(why retirement) {
	c.slot.Discard(c.lease, why.reason)
	c.close(why.code, why.text)
}

// closeWithdrawn closes an idle connection whose slot is retiring already.
func (c *Conn) closeWithdrawn() { c.close(frame.GoingAway, "") }

// close closes the connection in order: a close frame, unless one was sent, and a bounded wait for the server's part.
func (c *Conn) close(code frame.CloseCode, reason string) {
	c.mode = retiring
	c.kept = nil
	c.alarm.Stop()
	if c.stream.Ended() {
		c.finish()
		return
	}
	if !c.closeSent && !c.cut {
		c.SendClose(frame.AppendClosePayload(nil, code, reason))
	}
	if c.closeReceived || c.cut {
		c.stream.CloseWrite()
	}
	c.timer.Set(c.stream.Loop(), c.backend.options.CloseTimeout, c.finish)
}

// finish gives the connection and its slot up.
func (c *Conn) finish() {
	if c.stream.Closed() {
		return
	}
	c.timer.Stop()
	c.alarm.Stop()
	c.stream.Close()
	if c.ready != nil { // the slot was never filled
		c.ready(c.refusal)
		return
	}
	c.slot.Gone()
}

// sendControl sends a control frame, which must be at a frame boundary.
func (c *Conn) sendControl(op frame.Opcode, payload []byte) {
	var buf [frame.MaxControlSize]byte
	c.stream.Write(frame.AppendControl(buf[:0], op, payload, true))
}
