package profile

import (
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// assembly collects the current message of one direction, if the Boundary inspects it.
type assembly struct {
	opcode  frame.Opcode
	fate    fate
	long    bool   // it is longer than limit, and is no longer collected
	split   bool   // it came in more than one piece
	partial bool   // only its beginning was collected, and has been released
	frames  uint16 // so far
	total   int    // payload bytes of the frames so far
	limit   int    // payload bytes to collect at most
	buffer  *[]byte
}

// fate says what happens to a message until its end is known.
type fate uint8

const (
	unseen     fate = iota // its beginning was not presented
	relayed                // not inspected, relayed
	inspecting             // inspected and relayed
	holding                // inspected, and held until it is matched
	dropping               // inspected and dropped
	ignored                // not inspected, dropped
)

// inspected reports whether the Boundary reads the message's payload.
func (f fate) inspected() bool { return f == inspecting || f == holding || f == dropping }

// buffers holds free buffers for collecting messages.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// begin begins a message.
func (a *assembly) begin(op frame.Opcode, f fate, limit int) {
	a.free()
	*a = assembly{opcode: op, fate: f, frames: 1, limit: limit}
}

// free returns the buffer to buffers, unless it has grown too large.
func (a *assembly) free() {
	if a.buffer == nil {
		return
	}
	if cap(*a.buffer) <= 64<<10 {
		*a.buffer = (*a.buffer)[:0]
		buffers.Put(a.buffer)
	}
	a.buffer = nil
}

// collect adds a piece of the payload and unmasks it with key.
func (a *assembly) collect(piece []byte, key uint32) {
	if len(piece) == 0 {
		return
	}
	if a.buffer == nil {
		a.buffer = buffers.Get().(*[]byte)
	}
	start := len(*a.buffer)
	*a.buffer = append(*a.buffer, piece...)
	frame.ApplyMask((*a.buffer)[start:], key)
}

// collected returns the payload collected so far. It is valid until free.
func (a *assembly) collected() []byte {
	if a.buffer == nil {
		return nil
	}
	return *a.buffer
}
