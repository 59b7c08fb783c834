package profile

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// assembly puts the message together that is under way in one direction, as far as it is looked at.
type assembly struct {
	opcode  Opcode
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

// looked tells whether the message's payload is looked at.
func (f fate) looked() bool { return f == looking || f == holding || f == dropping }

// buffers holds what messages are put together in.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// begin begins a message.
func (a *assembly) begin(op Opcode, f fate, limit int) {
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
	applyMask((*a.buffer)[start:], key)
}

// collected returns what was collected.
func (a *assembly) collected() []byte {
	if a.buffer == nil {
		return nil
	}
	return *a.buffer
}

// applyMask masks or unmasks b in place (RFC 6455, section 5.3). The key's lowest bits are for the first byte.
func applyMask(b []byte, key uint32) {
	if key == 0 {
		return
	}
	wide := uint64(key) | uint64(key)<<32
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
}
