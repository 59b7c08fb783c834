package profile

import (
	"sync"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// assembly puts the message together that is under way in one direction, as far as it is looked at.
type assembly struct {
	opcode  frame.Opcode
	fate    fate
	long    bool // it is longer than anything that can be told; it is not collected any more
	split   bool // it has come in more than one piece
	partial bool // what was collected is only the beginning, and has been released
	total   int  // payload bytes of the frames so far
	limit   int  // payload bytes that can be told
	buffer  *[]byte
}

// fate is what becomes of a message while it is under way.
type fate uint8

const (
	unseen   fate = iota // its first frame was not presented
	relayed              // not looked at
	looking              // relayed and looked at
	holding              // looked at, and kept back until it is told
	dropping             // looked at and dropped
	ignored              // dropped without a look
)

// looked reports whether the message's payload is looked at.
func (f fate) looked() bool { return f == looking || f == holding || f == dropping }

// buffers holds what messages are put together in.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// begin begins a message.
func (a *assembly) begin(op frame.Opcode, f fate, limit int) {
	a.free()
	*a = assembly{opcode: op, fate: f, limit: limit}
}

// free gives the buffer back.
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

// collect adds a piece of the payload, masked with key.
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

// collected returns what was collected.
func (a *assembly) collected() []byte {
	if a.buffer == nil {
		return nil
	}
	return *a.buffer
}
