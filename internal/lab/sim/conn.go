package sim

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// lingerTime is how long a client may take to end a connection after the server ended its direction.
const lingerTime = 5 * time.Second

// conn is one connection of a server: the framing, the control frames and the end. Its loop owns it, and it stays on that loop.
type conn struct {
	server  *Server
	lane    *lane
	socket  *loop.Conn
	scanner frame.Scanner
	split   splitter
	replies *replies // answers whole messages; nil to echo the pieces of frames as they arrive
	linger  loop.Timer
	marks   MarkScanner // for Options.Heard

	ended   bool // the server has ended the session, and discards what still arrives
	stalled bool // the server no longer answers anything
	dead    bool // the session no longer answers anything; the server still answers pings and a close
	placed  bool // it has one of the places of NastyOptions.Full
	gone    bool // the client has ended its direction, and the server only writes what is pending
}

// serve makes the socket a connection of the loop, unless the server has died. It runs on the loop.
func (s *Server) serve(l *loop.Loop, socket loop.Socket, request *handshake.Request, life context.Context, placed bool, dice *rand.Rand) {
	if life.Err() != nil {
		socket.Close()
		s.giveBack(placed)
		return
	}
	k := &conn{server: s, lane: s.lanes[l.ID()], scanner: frame.NewClientScanner(s.options.MaxMessage), placed: placed}
	if !s.passesThrough() {
		k.replies = newReplies(k, request.Request, dice)
	}
	k.lane.conns[k] = struct{}{}
	k.socket = l.Add(socket, k, request.Early)
	if k.replies != nil {
		k.replies.start()
	}
	k.flush()
}

// passesThrough reports whether messages can be echoed before they are complete.
func (s *Server) passesThrough() bool {
	o := &s.options
	return o.Protocol == Echo && o.Latency == 0 && o.Jitter == 0 && !o.Fail.inSession() && !o.Nasty.inSession()
}

// place takes one of the places for sessions. It returns false if all are taken.
func (k *conn) place() bool {
	if !k.placed {
		k.placed = k.server.places.take()
	}
	return k.placed
}

// Received implements loop.Handler.
func (k *conn) Received(_ *loop.Conn, b []byte) int {
	if k.ended {
		return len(b)
	}
	before := k.scanner.Messages
	pos := 0
	for {
		run, err := k.scanner.Next(b[pos:])
		k.data(b[pos : pos+run.Data])
		pos += run.Consumed
		if err != nil && !k.ended {
			k.broken(err.(*frame.Error))
		}
		if k.ended { // by the protocol or a message
			pos = len(b)
			break
		}
		if !run.HasControl() {
			break
		}
		k.control(run.Control, run.Payload)
	}
	if n := k.scanner.Messages - before; n > 0 {
		k.server.counters.messages.Add(n)
	}
	k.flush()
	return pos
}

// data handles a run of data frames, or of pieces of them.
func (k *conn) data(b []byte) {
	for len(b) > 0 && !k.ended {
		var p piece
		p, b = k.split.next(b)
		if heard := k.server.options.Heard; heard != nil {
			k.marks.Scan(p.payload, func(m Mark) { heard(m.Session) })
		}
		switch {
		case k.replies != nil:
			k.replies.take(p)
		default:
			if p.first {
				k.lane.out = frame.AppendHeader(k.lane.out, frame.Header{
					Fin: p.header.Fin, Opcode: p.header.Opcode, Length: p.header.Length,
				})
			}
			k.lane.out = append(k.lane.out, p.payload...)
		}
	}
}

// control handles a control frame. The answer may go out at once, because everything before it ends at a frame boundary.
func (k *conn) control(op frame.Opcode, payload []byte) {
	if k.stalled {
		return
	}
	switch op {
	case frame.Ping:
		k.lane.out = frame.Append(k.lane.out, frame.Header{Fin: true, Opcode: frame.Pong}, payload)
	case frame.Close:
		k.clientEnds()
		code, _, err := frame.ParseClose(payload)
		if err != nil {
			k.broken(err.(*frame.Error))
			return
		}
		k.closeWith(code, "")
	}
}

// broken ends the connection because the client broke the protocol.
func (k *conn) broken(e *frame.Error) {
	k.server.counters.protocolErrors.Add(1)
	k.server.options.Logger.Info("a client broke the protocol", "error", e)
	if k.replies == nil && !k.scanner.AtFrameBoundary() {
		k.hangUp() // no frame can go into the middle of the echoed one
		return
	}
	k.closeWith(e.Code, e.Reason)
}

// closeWith sends a close frame and waits for the client to end the connection.
func (k *conn) closeWith(code frame.CloseCode, reason string) {
	if k.ended || k.stalled {
		return
	}
	if k.replies == nil && !k.scanner.AtFrameBoundary() {
		k.hangUp()
		return
	}
	var payload [frame.MaxControlPayload]byte
	k.lane.out = frame.Append(k.lane.out, frame.Header{Fin: true, Opcode: frame.Close},
		frame.AppendClosePayload(payload[:0], code, reason))
	k.hangUp()
}

// hangUp ends the server's direction of the stream, and waits for the client to end the other.
func (k *conn) hangUp() {
	k.release()
	k.flush()
	if !k.socket.Closed() {
		k.socket.CloseWrite()
		k.linger.Set(k.socket, lingerTime, timerLinger)
	}
}

// cut closes the socket at once.
func (k *conn) cut() {
	k.release()
	k.linger.Stop()
	k.socket.Close()
}

// die ends the connection as the end of the server's process does, in the middle of a frame.
func (k *conn) die() {
	if !k.stalled && (k.replies != nil || k.scanner.AtFrameBoundary()) {
		k.lane.out = append(k.lane.out, cutOff...)
		k.flush()
	}
	k.cut()
}

// cutOff is the beginning of a text frame of 125 bytes.
var cutOff = []byte("\x81\x7d{\"text\" : \"cut off in the midd")

// release ends the session and frees its place on the server. It is called before the client can see the end.
func (k *conn) release() {
	if k.ended {
		return
	}
	k.ended = true
	delete(k.lane.conns, k)
	k.server.slots.release()
	if k.placed {
		k.server.leavePlace()
	}
	if k.replies != nil {
		k.replies.stop()
	}
}

// flush writes what the current event produced.
func (k *conn) flush() {
	out := k.lane.out
	k.lane.out = out[:0]
	if cap(out) > maxScratch {
		k.lane.out = nil
	}
	if len(out) > 0 {
		k.socket.Write(out)
	}
	k.throttle()
}

// throttle pauses reading while the client does not read, or too many answers are queued, or the server is stalled and cannot keep
// messages.
func (k *conn) throttle() {
	if k.socket.Pending() > 0 || k.replies != nil && k.replies.full() || k.replies == nil && k.server.stalled.Load() {
		k.socket.Pause()
	} else {
		k.socket.Resume()
	}
}

// What a connection's timers are set for.
const (
	timerLinger    loop.Purpose = iota // the client has had its time to end the connection
	timerSilence                       // the client has perhaps been silent for too long
	timerAge                           // the server says that it ends the connection, or does
	timerReply                         // answers are due
	timerLateReply                     // answers out of turn are due
	timerUnasked                       // a late message that no client asked for is due
	timerChatter                       // chatter is due
)

// Expired implements loop.TimerHandler.
func (k *conn) Expired(_ *loop.Conn, t *loop.Timer) {
	switch t.Purpose() {
	case timerLinger:
		k.socket.Close()
	case timerSilence:
		k.replies.silence.judge()
	case timerAge:
		k.replies.aged()
	case timerReply:
		k.replies.sendDue(&k.replies.queue)
	case timerLateReply:
		k.replies.sendDue(&k.replies.late)
	case timerUnasked:
		k.replies.unsolicited.sendDueLate()
	case timerChatter:
		k.replies.unsolicited.chat()
	}
}

// Flushed implements loop.Handler.
func (k *conn) Flushed(*loop.Conn) {
	if k.gone {
		k.cut()
		return
	}
	k.throttle()
}

// Ended implements loop.Handler.
func (k *conn) Ended(_ *loop.Conn, err error) {
	k.clientEnds()
	if err != io.EOF {
		k.server.options.Logger.Info("a connection failed", "error", err)
	}
	if err != io.EOF || k.socket.Pending() == 0 {
		k.cut()
		return
	}
	k.gone = true
	k.hangUp()
}

// piece is a data frame of a client, or as much of it as has arrived.
type piece struct {
	header  frame.Header // of the frame it belongs to
	first   bool         // the frame begins with it
	last    bool         // the frame ends with it
	payload []byte       // unmasked
}

// splitter splits the data of a frame.Scanner into pieces. The zero value is at a frame boundary.
type splitter struct {
	header frame.Header // of the frame under way; Mask is turned to the next byte
	left   int64        // payload bytes of it that are still to come
}

// next unmasks the piece at the start of b, in place, and returns what follows it. Headers in b are whole: the scanner
// saw to that.
func (s *splitter) next(b []byte) (p piece, rest []byte) {
	if s.left == 0 {
		var size int
		s.header, size, _ = frame.ParseHeader(b)
		s.left = s.header.Length
		p.first = true
		b = b[size:]
	}
	n := int(min(int64(len(b)), s.left))
	p.payload, rest = b[:n], b[n:]
	s.header.Mask = frame.ApplyMask(p.payload, s.header.Mask)
	s.left -= int64(n)
	p.header = s.header
	p.last = s.left == 0
	return p, rest
}

// silence ends a connection whose client sends nothing for too long, as the real server does.
type silence struct {
	conn  *conn
	limit time.Duration // 0 for none
	heard loop.Instant  // the last message
	timer loop.Timer
}

func (s *silence) start() {
	if s.limit > 0 {
		s.heard = loop.Now()
		s.timer.Set(s.conn.socket, s.limit, timerSilence)
	}
}

func (s *silence) stop() { s.timer.Stop() }

// broken records that the client sent something.
func (s *silence) broken() {
	if s.limit > 0 {
		s.heard = loop.Now()
	}
}

func (s *silence) judge() {
	if left := s.heard.After(s.limit).Until(); left > 0 {
		s.timer.Set(s.conn.socket, left, timerSilence)
		return
	}
	k := s.conn
	if k.server.stalled.Load() { // it watches no clock
		s.timer.Set(k.socket, s.limit, timerSilence)
		return
	}
	if silent, ok := k.replies.dialogue.(interface{ silent(v *voice) }); ok && !k.stalled && !k.dead {
		silent.silent(&k.replies.voice)
		k.replies.speak()
	}
	k.flush()
}

// This file is for servers that do not bear clients that vanish: the connection ends while a session is under way, without the end
// message, or before the server's last word was sent.

// heard notes that a message came, which begins a session if none is under way.
func (r *replies) heard() { r.underWay = true }

// told notes that a reply was sent, which may be the session's last.
func (r *replies) told(a *answer) {
	if a.closing != 0 || a.role == last {
		r.underWay = false
	}
}

// clientEnds notes that the client ends the connection. If that is in the middle of a session, it is counted, and a fragile server never
// frees the session's place.
func (k *conn) clientEnds() {
	if k.ended || k.replies == nil || !k.replies.underWay {
		return
	}
	k.server.counters.abruptEnds.Add(1)
	if k.placed && k.replies.voice.hit(k.server.options.Nasty.Fragile) {
		k.placed = false // so that release does not free it
	}
}
