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
	// maxDrained is how much a client may have said, in bytes, that the session does not read yet when the client's stream ends.
	maxDrained = 64 << 10
)

// received is what comes from the client.
type received struct {
	follower frame.Follower
	rest     *[]byte // of the message or control frame under way; nil for nothing
	walked   int     // of rest, in bytes: how far the follower has gone
	begin    int     // where in rest the frame under way begins
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

// reset forgets what is under way. What comes next begins a message, over another connection.
func (r *received) reset() {
	r.keep(nil)
	r.follower, r.walked, r.begin, r.within, r.streams = frame.Follower{}, 0, 0, false, false
}

// keep keeps b, which may be a part of what is kept already.
func (r *received) keep(b []byte) {
	switch {
	case len(b) > 0:
		if r.rest == nil {
			r.rest = buffers.Get().(*[]byte)
		}
		*r.rest = append((*r.rest)[:0], b...)
	case r.rest != nil:
		if cap(*r.rest) <= maxDrained {
			*r.rest = (*r.rest)[:0]
			buffers.Put(r.rest)
		}
		r.rest = nil
	}
}

// Received implements [loop.Handler]: the session gets whole messages, and control frames between them.
func (l *Line) Received(_ *loop.Conn, b []byte) int {
	if l.draining && l.conn.Paused() && l.conn.Kept() > maxDrained {
		return len(b) // the client sends it again
	}
	l.conn.Loop().Handling(l.conn)
	r := &l.received
	if r.broken {
		l.conn.Deliver(b)
		return len(b)
	}
	data := b
	if r.rest != nil {
		*r.rest = append(*r.rest, b...)
		data = *r.rest
	}
	pos, from, whole := r.walked, 0, 0
	for pos < len(data) {
		p := r.follower.Next(data[pos:])
		if p.Size == 0 {
			if _, _, err := frame.ParseHeader(data[pos:]); err != nil {
				r.broken, whole = true, len(data)
			}
			break
		}
		if p.Begins {
			r.begin, r.header, r.size = pos, p.Header, p.Size-len(p.Payload)
			if !p.Header.Opcode.IsControl() {
				r.within, r.fin = true, p.Header.Fin
			}
		}
		pos += p.Size
		switch control := r.header.Opcode.IsControl(); {
		case !p.Ends:
		case !control && r.fin:
			r.within, r.streams = false, false
			r.taken++
			whole = pos
		case control && r.header.Opcode == frame.Close:
			r.closed, whole = true, pos
		case control && r.header.Opcode == frame.Pong && l.acknowledged(r.header, data[r.begin+r.size:pos]) && !r.within:
			l.conn.Deliver(data[from:r.begin])
			from, whole = pos, pos
		case control && !r.within:
			whole = pos
		}
		if r.streams {
			whole = pos
		}
	}
	if r.within && len(data)-whole > maxWhole {
		r.streams, whole = true, pos
	}
	rest := data[whole:]
	r.walked, r.begin = pos-whole, r.begin-whole
	if r.broken {
		r.walked = 0
	}
	taken := whole > from
	if taken {
		l.conn.Deliver(data[from:whole])
	}
	r.keep(rest)
	if taken && l.former != "" {
		l.confirmed()
	}
	if l.messages && r.taken > r.noted {
		l.note()
	}
	return len(b)
}

// confirmed is called when the client has shown that it has the next token.
func (l *Line) confirmed() {
	l.lines.forget(l.former)
	l.former = ""
}
