package frame

// Follower follows one direction of a connection beside the [Scanner] that checks it, for observers of the frames that pass. It
// neither checks nor changes the bytes. A copy is independent of the original. It is owned by one goroutine.
type Follower struct {
	remaining int64  // payload bytes of the current frame that are still to come
	key       uint32 // masking key, rotated to the next payload byte
	message   Opcode // Text or Binary inside a message, Continuation (0) between messages
	control   bool   // the current frame is a control frame
	fin       bool   // the current frame ends its message
	lost      bool   // the bytes are no frames
}

// Follow returns a follower for the bytes that follow those which the scanner has passed. It may begin in the middle of a frame.
func (s *Scanner) Follow() Follower {
	return Follower{remaining: s.remaining, message: s.opcode, fin: s.fin}
}

// Part is a part of a frame that a [Follower] has found: all of the frame, or as much of it as has arrived.
type Part struct {
	// Size is the length in bytes on the wire, including the header if the part begins its frame.
	Size int
	// Header is the header of the frame, if the part begins it.
	Header Header
	Begins bool
	Ends   bool // the part is the last one of its frame
	// Text: the frame belongs to a text message.
	Text bool
	// Payload is the part's payload, as it is on the wire, and Key its masking key as [ApplyMask] takes it; 0 if it is not masked or if
	// the frame had begun before the follower did.
	Payload []byte
	Key     uint32
}

// Next returns the part of a frame at the start of b, which must continue where the last part ended. Size is 0 if b is empty or has only an
// incomplete header, which has to be presented again together with the next bytes, or if the bytes are no frames.
func (f *Follower) Next(b []byte) (p Part) {
	if f.lost {
		return Part{}
	}
	if f.remaining == 0 {
		h, size, err := ParseHeader(b)
		if f.lost = err != nil; err != nil || size == 0 {
			return Part{}
		}
		p.Header, p.Begins, p.Size = h, true, size
		f.remaining, f.key, f.control = h.Length, h.Mask, h.Opcode.IsControl()
		if !f.control {
			f.fin = h.Fin
			if h.Opcode != Continuation {
				f.message = h.Opcode
			}
		}
	} else if len(b) == 0 {
		return Part{}
	}
	n := int(min(int64(len(b)-p.Size), f.remaining))
	p.Payload, p.Key, p.Text = b[p.Size:p.Size+n], f.key, f.message == Text && !f.control
	p.Size += n
	f.key = rotateKey(f.key, n)
	if f.remaining -= int64(n); f.remaining == 0 {
		p.Ends = true
		if !f.control && f.fin {
			f.message = Continuation
		}
	}
	return p
}

// Between reports whether the next byte begins a message or a control frame outside messages.
func (f *Follower) Between() bool { return f.remaining == 0 && f.message == Continuation && !f.lost }
