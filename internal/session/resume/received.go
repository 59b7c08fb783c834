package resume

import (
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

const (
	// maxWhole is how much of a message from the client, in bytes on the wire, waits for its end. The pieces of a longer one pass as they
	// come, and its client cannot come back in the middle of it.
	maxWhole = 1 << 20
	// maxDrained is how much of what a client has said before its stream ended, in bytes, is read before the session reads it.
	maxDrained = 64 << 10
)

// received is what comes from the client.
type received struct {
	follower frame.Follower
	counted  Gathering // of rest, while a message is under way
	rest     *[]byte   // of the message or control frame under way; nil for nothing
	walked   int       // of rest, in bytes: how far the follower has gone
	begin    int       // where in rest the frame under way begins
	header   frame.Header
	size     int   // of that header
	within   bool  // a message is under way
	fin      bool  // the last frame of data ends its message
	streams  bool  // the message under way is too long to wait for its end
	broken   bool  // what comes is no frames: the session says so
	closed   bool  // the close frame has come
	taken    int64 // messages that the session has got
	noted    int64 // of those, what the client was told
	notedAt  loop.Instant
}

// buffers holds free buffers for what is under way.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func putBuffer(b *[]byte) {
	if b != nil && cap(*b) <= maxDrained {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// reset forgets what is under way. What comes next begins a message, over another connection.
func (l *Line) reset() {
	r := &l.received
	putBuffer(r.rest)
	l.gather(0)
	r.rest, r.follower, r.walked, r.begin, r.within, r.streams = nil, frame.Follower{}, 0, 0, false, false
}

// keep keeps data, of which buffer has all or nothing, without its beginning.
func (r *received) keep(buffer *[]byte, data []byte, without int) {
	switch {
	case without == len(data):
		putBuffer(buffer)
		return
	case buffer == nil:
		buffer = buffers.Get().(*[]byte)
		*buffer = append(*buffer, data[without:]...)
	case without > 0: // otherwise a client that sends a byte at a time would have everything copied for each
		*buffer = append((*buffer)[:0], data[without:]...)
	default:
		*buffer = data
	}
	r.rest = buffer
}

// gather counts n bytes of a message that waits for its end. It returns false if that is to wait no longer.
func (l *Line) gather(n int) bool {
	if n <= maxWhole && l.received.counted.Count(n) {
		return true
	}
	l.received.counted.Count(0)
	return false
}

// breaks reports whether a frame breaks the protocol already with its header, so that its end is not to be waited for.
func (r *received) breaks(h *frame.Header) bool {
	return !h.Masked || !h.Opcode.IsControl() && (h.Opcode == frame.Continuation) != r.within
}

// Received implements [loop.Handler]: the session gets whole messages, and control frames between them. Those that come within a message do not
// wait for its end.
func (l *Line) Received(_ *loop.Conn, b []byte) int {
	n := l.receive(b)
	if l.conn.Paused() {
		l.conn.ReportKept() // once, however many pieces there were
	}
	return n
}

// receive is Received without the report of what the session has not read yet.
func (l *Line) receive(b []byte) int {
	if l.draining {
		l.Interest() // until there is no more room
	}
	r := &l.received
	if l.over || l.dropping {
		r.lookForClose(b)
		return len(b)
	}
	l.conn.Loop().Handling(l.conn)
	if r.broken {
		l.conn.Deliver(b)
		return len(b)
	}
	if n := r.whole(b); n > 0 { // what most sockets have most of the time: it passes without any notes but this one
		r.taken += n
		l.conn.Deliver(b)
		l.heard()
		return len(b)
	}
	buffer, data := r.rest, b
	r.rest = nil // the session may end while it gets something of this
	if buffer != nil {
		*buffer = append(*buffer, b...)
		data = *buffer
	}
	pos, from, whole := r.walked, 0, 0
	end := pos // up to here, data is without what was taken out of it; what follows moves there as it is walked over
	taken := false
	deliver := func(b []byte) {
		taken = taken || len(b) > 0
		l.conn.Deliver(b)
	}
	for pos < len(data) && !l.over {
		p := r.follower.Next(data[pos:])
		if p.Size == 0 {
			_, _, err := frame.ParseHeader(data[pos:])
			r.broken = err != nil
			break
		}
		if p.Begins && r.breaks(&p.Header) {
			r.broken = true
			break
		}
		if p.Begins {
			r.begin, r.header, r.size = end, p.Header, p.Size-len(p.Payload)
			if !p.Header.Opcode.IsControl() {
				r.within, r.fin = true, p.Header.Fin
			}
		}
		if end < pos {
			copy(data[end:], data[pos:pos+p.Size])
		}
		pos, end = pos+p.Size, end+p.Size
		switch control := r.header.Opcode.IsControl(); {
		case !p.Ends:
		case !control && r.fin:
			r.within, r.streams = false, false
			r.taken++
			whole = end
		case !control:
		case r.header.Opcode == frame.Close:
			r.closed, whole = true, end
		case r.streams:
			switch {
			case r.header.Opcode != frame.Pong:
			case p.Begins:
				l.acknowledged(r.header, data[r.begin+r.size:end])
			default: // its beginning has passed: the client is asked again
				l.kept.pinged = false
			}
		default:
			own := r.header.Opcode == frame.Pong && l.acknowledged(r.header, data[r.begin+r.size:end])
			if !own && !r.within {
				whole = end
				break
			}
			deliver(data[from:whole])
			if !own {
				deliver(data[r.begin:end])
			}
			from, end = whole, r.begin
		}
		if r.streams {
			whole = end
		}
	}
	if end < pos {
		data = append(data[:end], data[pos:]...)
	}
	if r.broken {
		whole = len(data)
	}
	if !l.gather(len(data)-whole) && r.within {
		r.streams, whole = true, end
	}
	r.walked, r.begin = end-whole, r.begin-whole
	if r.broken {
		r.walked = 0
	}
	deliver(data[from:whole])
	if l.over { // since then, the connection is closed
		l.reset()
		putBuffer(buffer)
		return len(b)
	}
	r.keep(buffer, data, whole)
	if taken {
		l.heard()
	}
	return len(b)
}

// whole returns how many messages b is, each a single frame; 0 if it is anything else as well, or if something else is under way.
func (r *received) whole(b []byte) (n int64) {
	if r.rest != nil || r.within || !r.follower.Between() {
		return 0
	}
	for len(b) > 0 {
		size := frame.Unfragmented(b, true)
		if size == 0 {
			return 0
		}
		b = b[size:]
		n++
	}
	return n
}

// UnderWay returns how many bytes have come of a message, or control frame, that the session has not got yet, since its end has not come, and the opcode
// that it begins with. It is called on the line's loop.
func (l *Line) UnderWay() (n int, begins frame.Opcode) {
	if l == nil || l.received.rest == nil {
		return 0, frame.Continuation
	}
	rest := *l.received.rest
	return len(rest), frame.Opcode(rest[0] & 0xf)
}

// heard is called after the session has got messages.
func (l *Line) heard() {
	if l.over {
		return
	}
	if l.former != "" {
		l.confirmed()
	}
	if l.messages {
		l.note()
	}
}

// lookForClose follows what a client sends whose session is over, up to its close frame.
func (r *received) lookForClose(b []byte) {
	buffer, data := r.rest, b
	r.rest = nil
	if buffer != nil {
		*buffer = append(*buffer, b...)
		data = *buffer
	}
	pos := r.walked
	for pos < len(data) {
		p := r.follower.Next(data[pos:])
		if p.Size == 0 {
			break // an incomplete header, or what the client says is no frames
		}
		if p.Begins {
			r.header = p.Header
		}
		pos += p.Size
		r.closed = r.closed || p.Ends && r.header.Opcode == frame.Close
	}
	r.walked = 0
	if len(data)-pos > frame.MaxHeaderSize {
		pos = len(data)
	}
	r.keep(buffer, data, pos)
}

// confirmed is called when the client has shown that it has the next token.
func (l *Line) confirmed() {
	l.lines.forget(l.former)
	l.former = ""
}
