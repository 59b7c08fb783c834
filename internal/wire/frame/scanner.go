package frame

// Scanner follows one direction of a WebSocket connection and checks it against RFC 6455. It is owned by the goroutine that
// reads that direction.
//
// It does not take data frames apart: [Scanner.Next] says how many of the bytes at hand can be passed on as they are.
type Scanner struct {
	// Counts of what has passed, for the owner to read and to set back.
	Frames   uint64 // data frames begun
	Messages uint64 // messages that ended: every byte of the last frame has passed
	Bytes    uint64 // payload bytes of data frames
	Text     uint64 // of these, the ones in text messages

	limit      int64  // static: the size of the largest message in bytes; 0 for no limit
	remaining  int64  // payload bytes of the current data frame that are still to come
	message    int64  // payload bytes that the headers of the current message have announced
	key        uint32 // masking key, rotated to the next payload byte
	text       textChecker
	opcode     Opcode // Text or Binary inside a message, Continuation (0) between messages
	fin        bool   // the current frame ends its message
	inspecting bool   // the current message is inspected

	// Inspect is the kinds of messages to inspect: Next stops at each of their frames, for [Scanner.NextPiece]. The owner sets it
	// between two calls. It applies to messages that begin after that.
	Inspect    Kinds
	fromClient bool   // static
	empty      uint16 // frames without payload that did not end the current message
}

// maxEmpty is how many frames of a client's message may have no payload and not end it. A message of such frames would never reach the
// limit of its size, and cost each side as much as others.
const maxEmpty = 1000

// NewClientScanner returns a scanner for what a client sends: frames must be masked, text must be UTF-8, and no
// message may be larger than limit bytes (0 for no limit).
func NewClientScanner(limit int64) Scanner { return Scanner{fromClient: true, limit: limit} }

// NewServerScanner returns a scanner for what a server sends: frames must not be masked; text is trusted.
func NewServerScanner() Scanner { return Scanner{} }

// Kinds is a set of kinds of messages: 1<<Text, 1<<Binary or both.
type Kinds uint8

// Run is what [Scanner.Next] found at the start of the bytes it was given.
type Run struct {
	// Data is the length of the part that consists of data frames, or pieces of them, and can be passed on.
	Data int
	// Boundary is where the last data frame that ends within that part ends, as an offset; -1 if none does. Another frame may be
	// inserted into the stream there.
	Boundary int
	// Control is the opcode of the control frame that follows the data, if Consumed is larger than Data.
	Control Opcode
	// Payload is that control frame's payload, unmasked in place.
	Payload []byte
	// Consumed is the length of the data and the control frame. If there is a control frame, the next call scans what follows it.
	// Otherwise what follows is the incomplete start of a frame (at most MaxControlSize bytes), and has to be presented again
	// together with the next bytes on the wire.
	Consumed int
	// Inspect: a piece of a message to inspect follows the data: call NextPiece with the bytes that follow.
	Inspect bool
	// Begins: the piece begins a frame.
	Begins bool
	// Header is the header of that frame.
	Header Header
}

// HasControl reports whether the run ends with a control frame.
func (r *Run) HasControl() bool { return r.Consumed > r.Data }

// Remaining returns how many bytes of payload of the present data frame are still to come; 0 between frames.
func (s *Scanner) Remaining() int64 { return s.remaining }

// Forget takes a whole message that has passed out of the counts.
func (s *Scanner) Forget(op Opcode, frames, bytes int) {
	s.Messages--
	s.Frames -= uint64(frames)
	s.Bytes -= uint64(bytes)
	if op == Text {
		s.Text -= uint64(bytes)
	}
}

// Next scans b, which must continue where the last call's Consumed ended.
//
// An error is always an [*Error], and final: what later calls return means nothing. The run is valid even with an error. Its Data
// ends where the offending frame begins, so that the receiver sees nothing of that frame, unless the frame began in an earlier
// call, as [Scanner.AtFrameBoundary] reports.
func (s *Scanner) Next(b []byte) (Run, error) {
	run := Run{Boundary: -1}
	pos := 0
	if s.remaining > 0 {
		if s.inspecting {
			run.Inspect = len(b) > 0
			return run, nil
		}
		n, err := s.payload(b)
		if err != nil {
			return run, err
		}
		pos = n
		if s.remaining == 0 {
			run.Boundary = pos
		}
	}
	for pos < len(b) {
		h, size, err := ParseHeader(b[pos:])
		if err == nil {
			err = s.check(h, size > 0 || len(b)-pos >= 2)
		}
		if err != nil {
			run.Data, run.Consumed = pos, pos
			return run, err
		}
		if size == 0 {
			break
		}
		if h.Opcode.IsControl() {
			end := pos + size + int(h.Length)
			if end > len(b) {
				break
			}
			run.Control = h.Opcode
			run.Payload = b[pos+size : end]
			if h.Masked {
				ApplyMask(run.Payload, h.Mask)
			}
			run.Data, run.Consumed = pos, end
			return run, nil
		}
		if s.Inspect != 0 || s.inspecting {
			if h.Opcode == Continuation && s.inspecting || h.Opcode != Continuation && s.Inspect&(1<<h.Opcode) != 0 {
				run.Data, run.Consumed, run.Inspect, run.Begins, run.Header = pos, pos, true, true, h
				return run, nil
			}
		}
		before := *s
		s.begin(h)
		n, err := s.payload(b[pos+size:])
		if err != nil {
			*s = before
			run.Data, run.Consumed = pos, pos
			return run, err
		}
		pos += size + n
		if s.remaining == 0 {
			run.Boundary = pos
		}
	}
	run.Data, run.Consumed = pos, pos
	return run, nil
}

// AtFrameBoundary reports whether the data that was passed on ends with a whole frame.
func (s *Scanner) AtFrameBoundary() bool { return s.remaining == 0 }

// AtMessageBoundary reports whether the data that was passed on ends with a whole message.
func (s *Scanner) AtMessageBoundary() bool { return s.remaining == 0 && s.opcode == Continuation }

// check checks a frame's header against its direction and the current message. maskKnown reports whether the mask bit has arrived.
// If it has not, the header is incomplete, and its length unknown.
func (s *Scanner) check(h Header, maskKnown bool) error {
	if maskKnown && h.Masked != s.fromClient {
		if s.fromClient {
			return ErrNotMasked
		}
		return ErrMasked
	}
	if h.Opcode.IsControl() {
		return nil
	}
	if h.Opcode == Continuation && s.opcode == Continuation {
		return ErrNoMessage
	}
	if h.Opcode != Continuation && s.opcode != Continuation {
		return ErrInMessage
	}
	// In an incomplete header, the length may still be the marker 126 or 127, which is never more than the length itself.
	if s.limit > 0 && h.Length > s.limit-s.message {
		return ErrMessageSize
	}
	return nil
}

// begin begins a data frame.
func (s *Scanner) begin(h Header) {
	if h.Opcode != Continuation {
		s.opcode = h.Opcode
	}
	s.fin = h.Fin
	s.message += h.Length
	s.remaining = h.Length
	s.key = h.Mask
	s.Frames++
}

// payload takes as much of b as belongs to the current data frame, and ends the frame, and the message, if nothing of them is to
// come. It returns how many bytes it has taken.
func (s *Scanner) payload(b []byte) (int, error) {
	n := len(b)
	if int64(n) > s.remaining {
		n = int(s.remaining)
	}
	if s.opcode == Text {
		if s.fromClient {
			if !s.text.check(b[:n], s.key) {
				return 0, ErrText
			}
			if int64(n) == s.remaining && s.fin && !s.text.complete() {
				return 0, ErrText
			}
			s.key = rotateKey(s.key, n)
		}
		s.Text += uint64(n)
	}
	s.remaining -= int64(n)
	s.Bytes += uint64(n)
	if s.remaining == 0 {
		if s.fin {
			s.Messages++
			s.opcode = Continuation
			s.message = 0
			s.inspecting = false
			s.empty = 0
		} else if n == 0 && s.fromClient {
			if s.empty++; s.empty > maxEmpty {
				return 0, ErrEmptyFrames
			}
		}
	}
	return n, nil
}

// Piece is a part of an inspected message: a frame, or as much of it as has arrived.
type Piece struct {
	// Size is the piece's length in bytes on the wire, including the header if the piece begins its frame.
	Size int
	// Payload is the piece's part of the frame's payload, as it is on the wire.
	Payload []byte
	// Key is the masking key, rotated to the first byte of Payload, as [ApplyMask] takes it; 0 if the frame is not masked.
	Key uint32
	// FrameEnds and MessageEnds: the piece is the last one of its frame, and of its message.
	FrameEnds, MessageEnds bool
}

// NextPiece takes the piece of an inspected message at the start of b, where [Scanner.Next] has stopped. Like Next, it checks and
// counts it. An error is an [*Error], and final. If the piece begins its frame, the scanner then stays before that frame.
func (s *Scanner) NextPiece(b []byte) (Piece, error) {
	before := *s
	header := 0
	if s.remaining == 0 {
		h, size, err := ParseHeader(b)
		if err != nil {
			return Piece{}, err
		}
		s.begin(h)
		s.inspecting = true
		header = size
	}
	piece := Piece{Key: s.key}
	rotated := s.fromClient && s.opcode == Text // by payload, which checks the text
	messages := s.Messages
	n, err := s.payload(b[header:])
	if err != nil {
		*s = before
		return Piece{}, err
	}
	if !rotated {
		s.key = rotateKey(s.key, n)
	}
	piece.Size, piece.Payload = header+n, b[header:header+n]
	piece.FrameEnds, piece.MessageEnds = s.remaining == 0, s.Messages > messages
	return piece, nil
}

// InspectRest makes Next stop at the rest of the current message, too, if there is one and its kind is in Inspect.
func (s *Scanner) InspectRest() {
	if s.opcode != Continuation && s.Inspect&(1<<s.opcode) != 0 {
		s.inspecting = true
	}
}

// AppendMessage appends a whole frame of a message to dst, with a random key if it is masked, as a client's must be (RFC 6455,
// section 5.3). It is the last frame of the message if fin is set.
func AppendMessage(dst []byte, op Opcode, fin bool, payload []byte, masked bool) []byte {
	h := Header{Fin: fin, Opcode: op, Masked: masked}
	if masked {
		h.Mask = randomKey()
	}
	return Append(dst, h, payload)
}
