package load

import "github.com/wsbouncer/wsbouncer/internal/wire/frame"

// inbox parses the frames of a server as they arrive.
type inbox struct {
	remaining int64        // payload bytes of the current data frame that are still to come
	opcode    frame.Opcode // Text or Binary inside a message, Continuation (0) between messages
	fin       bool         // the current frame ends its message
}

// piece is a control frame, or a part of a message.
type piece struct {
	payload []byte
	opcode  frame.Opcode // Text or Binary for a part of a message, or the control frame's
	first   bool         // begins a message
	last    bool         // ends a message
}

// next returns the piece at the start of b and its length in bytes. The length is 0 if more bytes are needed: then the
// caller must present b again, with more bytes behind it.
func (in *inbox) next(b []byte) (p piece, n int, err error) {
	start := 0
	if in.remaining == 0 {
		h, size, err := frame.ParseHeader(b)
		switch {
		case err != nil:
			return p, 0, err
		case len(b) > 1 && b[1]&0x80 != 0:
			return p, 0, frame.ErrMasked
		case size == 0:
			return p, 0, nil
		case h.Opcode.IsControl():
			n = size + int(h.Length)
			if n > len(b) {
				return p, 0, nil
			}
			return piece{payload: b[size:n], opcode: h.Opcode}, n, nil
		case h.Opcode == frame.Continuation && in.opcode == frame.Continuation:
			return p, 0, frame.ErrNoMessage
		case h.Opcode != frame.Continuation && in.opcode != frame.Continuation:
			return p, 0, frame.ErrInMessage
		case h.Opcode != frame.Continuation:
			in.opcode, p.first = h.Opcode, true
		}
		in.fin, in.remaining, start = h.Fin, h.Length, size
	}
	length := min(int64(len(b)-start), in.remaining)
	in.remaining -= length
	n = start + int(length)
	p.payload, p.opcode = b[start:n], in.opcode
	if in.remaining == 0 && in.fin {
		p.last, in.opcode = true, frame.Continuation
	}
	return p, n, nil
}
