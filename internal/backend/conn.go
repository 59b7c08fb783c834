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
// with Scanner; at all other times Conn is the handler itself.
type Conn struct {
	backend  *Backend
	slot     *pool.Slot[*Conn]
	stream   *loop.Conn
	protocol string

	established loop.Instant

	// Scanner follows what the server sends, over all sessions.
	Scanner frame.Scanner

	mode     mode
	broken   *retirement  // why the connection must not serve the session that has leased it; nil if it may
	retireAt loop.Instant // it serves no session that would begin later; 0 for never

	// For pings, see ping.go.
	pinged    loop.Instant  // when the ping was sent that is not answered yet; 0 for none
	token     uint64        // its payload
	received  uint64        // what the server had sent by then
	roundTrip time.Duration // of the last answered ping
	silent    bool          // a ping was not answered in time

	kept     *kept  // what waits; nil for nothing, as nearly always
	begun    uint64 // Scanner.Messages when the present session began
	expected uint64 // Scanner.Messages when the server will owe nothing more (resetting)

	closeSent, closeReceived bool
	cut                      bool       // a frame to the server was cut off: no other can follow
	timer                    loop.Timer // bounds resetting and retiring; when waiting and serving, the next look
}

// TakeTimer and PutTimer take the connection's timer to another loop together with its session, which moves the stream.
func (c *Conn) TakeTimer() bool { return c.timer.Take() }

// PutTimer sets the timer that was taken on loop l.
func (c *Conn) PutTimer(l *loop.Loop) { c.timer.Put(l) }

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
	waiting   mode = iota // idle, or leased by a session that has not started yet
	serving               // a session is the handler
	resetting             // what a session left unread is awaited and dropped
	retiring              // all is dropped until the server closes
)

// adopt makes an established connection part of the pool. It runs on loop l.
func adopt(b *Backend, slot *pool.Slot[*Conn], l *loop.Loop, socket loop.Socket, e handshake.Established) {
	c := &Conn{backend: b, slot: slot, protocol: e.Protocol, established: loop.Now(), Scanner: frame.NewServerScanner()}
	c.stream = l.Add(socket, c, e.Early)
	if age := b.options.MaxAge; age > 0 {
		c.retireAt = c.established.After(jittered(age))
	}
	c.watch()
	slot.Filled(c)
}

// Use calls f on the connection's loop, where its session is to start, from any other goroutine. A connection that was
// lost since it was leased is not alive: its lease has ended then, and the caller leases another.
func (c *Conn) Use(f func(alive bool)) {
	ok := c.stream.Post(func() {
		if c.broken != nil {
			c.retire(*c.broken)
			f(false)
			return
		}
		c.sendPong()
		c.mode = serving
		c.backend.worker.served()
		c.begun = c.Scanner.Messages
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
}

// End ends the lease. The profile says whether the connection goes back to the pool, now or once the server has answered
// all it was asked; otherwise it is closed, with the code and text unless close frames have been exchanged before. End
// returns what becomes of the connection.
func (c *Conn) End(e Ending) profile.Verdict {
	c.takeBack()
	if c.closing() { // the session was over, so that nothing can have broken it any more
		e.Fault = ""
	}
	c.backend.worker.ended(e.Fault)
	verdict := c.backend.options.Profile.Judge(e.Traffic)
	if c.stream.Ended() || c.closing() || e.MidFrame || e.Fault != "" {
		verdict = profile.Discard
	}
	if verdict == profile.Clean && c.stream.Held() > 0 { // the beginning of something that nobody asked for
		verdict = profile.Discard
	}
	switch verdict {
	case profile.Clean:
		c.idle()
	case profile.Await:
		c.mode = resetting
		c.expected = c.begun + e.Traffic.Sent
		c.slot.Reset()
		c.timer.Set(c.stream.Loop(), c.backend.options.ResetTimeout, func() {
			c.retire(retirement{pool.ResetFailed, frame.GoingAway, "no answer in time"})
		})
	default:
		c.cut = e.MidFrame
		c.retire(retirement{c.reason(e), e.Code, e.Text})
	}
	return verdict
}

// reason tells why a connection is discarded after a session.
func (c *Conn) reason(e Ending) pool.Reason {
	switch {
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
	return pool.Unclean
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
	default:
		c.mode = waiting
		c.watch()
		c.slot.Return()
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

// retire ends the lease with the connection being closed.
func (c *Conn) retire(why retirement) {
	c.slot.Discard(why.reason)
	c.close(why.code, why.text)
}

// closeWithdrawn closes an idle connection whose slot is retiring already.
func (c *Conn) closeWithdrawn() { c.close(frame.GoingAway, "") }

// close closes the connection in order: a close frame, unless one was sent, and a bounded wait for the server's part.
func (c *Conn) close(code frame.CloseCode, reason string) {
	c.mode = retiring
	c.kept = nil
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
	c.stream.Close()
	c.slot.Gone()
}

// sendControl sends a control frame, which must be at a frame boundary.
func (c *Conn) sendControl(op frame.Opcode, payload []byte) {
	var buf [frame.MaxControlSize]byte
	c.stream.Write(frame.AppendControl(buf[:0], op, payload, true))
}
