package relay

import (
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/tap"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// direction is one way of a leg: data frames pass as they are, and the proxy inserts its own control frames between them. It is owned
// by the session's loop.
type direction struct {
	scanner *frame.Scanner // has scanned what passes; nil before anything does
	to      *loop.Conn
	masked  bool // frames that the proxy makes itself are masked: the receiver is a server

	inserting bool          // a control frame waits to be inserted
	pinging   bool          // a ping waits
	closed    bool          // nothing more may be sent
	partial   bool          // with failover: what was sent ends within a message
	withheld  bool          // the frame that the scanner is in was withheld from its beginning
	pings     *backend.Conn // makes the payload of a ping; nil if no pings are sent this way
	pong      *[]byte       // payload to answer the receiver's last ping with; nil for none
	close     *[]byte       // payload of the close frame to send; nil for none
}

// pass sends pieces of data frames; a frame ends at offset boundary, if that is not negative. This is the path of every
// frame.
func (d *direction) pass(b []byte, boundary int) {
	if d.inserting && boundary >= 0 {
		d.to.Write(b[:boundary])
		d.insert()
		b = b[boundary:]
	}
	if !d.closed {
		d.to.Write(b)
	}
}

// sendPong answers a ping, as soon as a frame boundary allows. Only the last ping needs an answer (RFC 6455, section
// 5.5.3), so that a peer which sends pings and reads nothing makes nothing grow.
func (d *direction) sendPong(payload []byte) {
	d.notePong(payload)
	d.insertNow()
}

// notePong has the next call of insertNow answer a ping, if no other one comes before.
func (d *direction) notePong(payload []byte) {
	if d.pong == nil {
		d.pong = new([]byte)
	}
	*d.pong = append((*d.pong)[:0], payload...)
	d.inserting = true
}

// sendPing sends a ping, as soon as a frame boundary allows and the receiver has taken what was written.
func (d *direction) sendPing() {
	d.pinging, d.inserting = true, true
	d.insertNow()
}

// queueClose sends a close frame as soon as the frame that is passing is complete.
func (d *direction) queueClose(code frame.CloseCode, reason string) {
	payload := closePayload(code, reason)
	d.close = &payload
	d.inserting = true
}

// midFrame reports whether what has passed ends within a frame.
func (d *direction) midFrame() bool {
	return d.partial || !d.withheld && d.scanner != nil && !d.scanner.AtFrameBoundary()
}

// insertNow inserts what waits, unless a frame is incomplete.
func (d *direction) insertNow() {
	if d.inserting && !d.midFrame() {
		d.insert()
	}
}

// insert sends the control frames that wait. Pongs and pings wait on while the receiver is slow.
func (d *direction) insert() {
	if d.closed {
		d.inserting = false
		return
	}
	if d.pong != nil && d.to.Pending() == 0 {
		d.control(frame.Pong, *d.pong)
		d.pong = nil
	}
	if d.pinging && d.to.Pending() == 0 {
		d.control(frame.Ping, d.pings.Ping())
		d.pinging = false
	}
	if d.close != nil {
		d.control(frame.Close, *d.close)
		d.closed = true
	}
	d.inserting = (d.pong != nil || d.pinging) && !d.closed
}

func (d *direction) control(op frame.Opcode, payload []byte) {
	writeControl(d.to, op, payload, d.masked)
}

// writeControl writes a control frame, which must be at a frame boundary.
func writeControl(to *loop.Conn, op frame.Opcode, payload []byte, masked bool) {
	tap.Sent(to, op, payload)
	var buf [frame.MaxControlSize]byte
	to.Write(frame.AppendControl(buf[:0], op, payload, masked))
}
