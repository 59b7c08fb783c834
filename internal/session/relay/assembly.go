package relay

import (
	"cmp"
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// maxWhole is the longest message in bytes of payload that is put together before it is passed on.
const maxWhole = 1 << 20

// assembly puts the whole messages of one direction together from data frames as they come. Nothing is copied of a message whose only
// frame is at hand. It is owned by the session's loop; an idle one keeps no memory.
type assembly struct {
	follower frame.Follower
	op       frame.Opcode
	fin      bool    // the frame under way ends its message
	most     int     // the longest message in bytes of payload; 0 for maxWhole
	skipping bool    // the message under way is too long, and is not collected
	size     int     // of the message's payload so far, in bytes
	raw      *[]byte // its frames so far; nil if nothing of it is kept
}

// message is a whole message. Its bytes are valid until the assembly's next call.
type message struct {
	op      frame.Opcode
	size    int    // of the payload, in bytes
	raw     []byte // its frames
	payload []byte // as it is on the wire, if the message is one frame; otherwise see appendPayload
	key     uint32 // the payload's masking key; 0 if it is not masked
	single  bool   // it is one frame
}

// gathered is what an assembly has come to.
type gathered uint8

const (
	gatheredPart    gathered = iota // the message is not complete
	gatheredWhole                   // the message is complete
	gatheredTooLong                 // the message is longer, or its frames are more than twice as long, or will be
	gatheredRest                    // the message is complete, and was skipped
)

// maxBufferKept is the largest buffer that is kept for other messages, in bytes.
const maxBufferKept = 64 << 10

// messageBuffers holds free buffers for messages.
var messageBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func freeBuffer(b *[]byte) {
	if cap(*b) <= maxBufferKept {
		*b = (*b)[:0]
		messageBuffers.Put(b)
	}
}

// next takes bytes of data frames, up to the end of the first message in them. It returns how many it has taken. With
// gatheredTooLong it has taken nothing of the frame that is too much; begun returns what it has collected, and the caller calls skip or reset.
func (a *assembly) next(b []byte) (m message, n int, is gathered) {
	if a.op == frame.Continuation && a.raw != nil { // of the message before
		freeBuffer(a.raw)
		a.raw = nil
	}
	for n < len(b) {
		before := a.follower
		p := a.follower.Next(b[n:])
		if p.Size == 0 {
			return m, n, gatheredPart
		}
		if p.Begins {
			if p.Header.Opcode != frame.Continuation {
				a.op = p.Header.Opcode
			}
			most := int64(cmp.Or(a.most, maxWhole))
			if !a.skipping && (int64(a.size)+p.Header.Length > most || int64(len(a.begun()))+p.Header.Length > 2*most) {
				a.follower = before
				return m, n, gatheredTooLong
			}
			a.fin = p.Header.Fin
		}
		a.size += len(p.Payload)
		ends := p.Ends && a.fin
		if ends && p.Begins && a.raw == nil && !a.skipping {
			m = message{op: a.op, size: a.size, raw: b[n : n+p.Size], payload: p.Payload, key: p.Key, single: true}
			a.op, a.size = frame.Continuation, 0
			return m, n + p.Size, gatheredWhole
		}
		if !a.skipping {
			if a.raw == nil {
				a.raw = messageBuffers.Get().(*[]byte)
			}
			*a.raw = append(*a.raw, b[n:n+p.Size]...)
		}
		n += p.Size
		if !ends {
			continue
		}
		m = message{op: a.op, size: a.size}
		is = gatheredRest
		if !a.skipping {
			m.raw, is = *a.raw, gatheredWhole
		}
		a.op, a.size, a.skipping = frame.Continuation, 0, false
		return m, n, is
	}
	return m, n, gatheredPart
}

// done gives the buffer of a message back that was whole, and that nobody uses any longer.
func (a *assembly) done() {
	if a.between() {
		a.free()
	}
}

// begun returns what is collected of the message under way.
func (a *assembly) begun() []byte {
	if a.raw == nil {
		return nil
	}
	return *a.raw
}

// skip collects nothing more of the message under way, whose end is still told.
func (a *assembly) skip() {
	a.free()
	a.skipping = true
}

// reset forgets the message under way. What comes next begins a message.
func (a *assembly) reset() {
	a.free()
	*a = assembly{}
}

// free gives the buffer back.
func (a *assembly) free() {
	if a.raw != nil {
		freeBuffer(a.raw)
		a.raw = nil
	}
}

// between reports whether no message is under way.
func (a *assembly) between() bool { return a.op == frame.Continuation }

// appendPayload appends the message's payload to dst, not masked.
func (m *message) appendPayload(dst []byte) []byte {
	if m.single {
		start := len(dst)
		dst = append(dst, m.payload...)
		frame.ApplyMask(dst[start:], m.key)
		return dst
	}
	return appendPayloads(dst, m.raw)
}

// appendPayloads appends the payloads of whole frames to dst, not masked.
func appendPayloads(dst, frames []byte) []byte {
	var f frame.Follower
	for {
		p := f.Next(frames)
		if p.Size == 0 {
			return dst
		}
		start := len(dst)
		dst = append(dst, p.Payload...)
		frame.ApplyMask(dst[start:], p.Key)
		frames = frames[p.Size:]
	}
}
