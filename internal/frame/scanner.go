package frame

// Scanner follows one direction of a WebSocket connection and checks it against RFC 6455. It belongs to whoever reads
// that direction and is not safe for concurrent use.
//
// Data frames are not taken apart: [Scanner.Next] says how far the bytes at hand can be passed on as they are.
type Scanner struct {
	// Counts of what has passed, for whoever owns the scanner to read.
	Frames   uint64 // data frames begun
	Messages uint64 // messages that ended: every byte of the last frame has passed
	Bytes    uint64 // payload bytes of data frames

	limit      int64  // largest message in bytes; 0 for no limit
	remaining  int64  // payload bytes of the current data frame that are still to come
	message    int64  // payload bytes announced for the current message
	key        uint32 // masking key, turned to the next payload byte
	text       textChecker
	opcode     Opcode // Text or Binary inside a message, Continuation (0) between messages
	fin        bool   // the current frame ends its message
	inspecting bool   // the message under way is inspected

	// Inspect is the kinds of messages that Next does not pass over: it stops at each of their frames, which [Scanner.NextPiece] takes.
	// Whoever owns the scanner sets it between two calls. It is for messages that begin from then on.
	Inspect    Kinds
	fromClient bool
}

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
	// Boundary is the offset of the last frame's end within that part, or -1 when no data frame ends in it. Another
	// frame may be put into the stream there.
	Boundary int
	// Control is the opcode of the control frame that follows the data, when Consumed is larger than Data.
	Control Opcode
	// Payload is that control frame's payload, unmasked in place.
	Payload []byte
	// Consumed is the length of the data and the control frame. What lies behind it is to be scanned by the next
	// call when there is a control frame; otherwise it is the incomplete start of a frame (at most MaxControlSize
	// bytes) and has to be presented again with the bytes that follow it on the wire.
	Consumed int
	// Inspect tells that a piece of a message to inspect follows the data: call NextPiece with the bytes that follow.
	Inspect bool
	// Begins tells that the piece begins a frame, whose header is Header.
	Begins bool
	Header Header
}

// HasControl tells whether the run ends with a control frame.
func (r *Run) HasControl() bool { return r.Consumed > r.Data }

// Next scans b, which must continue where the last call's Consumed ended.
//
// An error is always an [*Error] and final: more may be scanned, but what is found there means nothing. The returned run is valid even then: its Data ends where the offending frame
// begins, so that the receiver of what was passed on sees nothing of that frame, unless it began in an earlier call,
// which [Scanner.AtFrameBoundary] tells.
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
			err = s.judge(h, size > 0 || len(b)-pos >= 2)
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

// AtFrameBoundary tells whether all data that was passed on ends with a whole frame.
func (s *Scanner) AtFrameBoundary() bool { return s.remaining == 0 }

// AtMessageBoundary tells whether all data that was passed on ends with a whole message.
func (s *Scanner) AtMessageBoundary() bool { return s.remaining == 0 && s.opcode == Continuation }

// judge checks a frame's header against its direction and the message under way. masked tells whether the mask bit
// has been seen; the header may be incomplete otherwise, and its length unknown.
func (s *Scanner) judge(h Header, masked bool) error {
	if masked && h.Masked != s.fromClient {
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
	// An incomplete header's length field may still hold the marker 126 or 127, which is never more than the length.
	if s.limit > 0 && h.Length > s.limit-s.message {
		return ErrMessageSize
	}
	return nil
}

// begin enters a data frame.
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

// payload takes as much of b as belongs to the current data frame, and ends the frame and the message when it was the
// last of them.
func (s *Scanner) payload(b []byte) (int, error) {
	n := len(b)
	if int64(n) > s.remaining {
		n = int(s.remaining)
	}
	if s.fromClient && s.opcode == Text {
		if !s.text.check(b[:n], s.key) {
			return 0, ErrText
		}
		if int64(n) == s.remaining && s.fin && !s.text.complete() {
			return 0, ErrText
		}
		s.key = turnMask(s.key, n)
	}
	s.remaining -= int64(n)
	s.Bytes += uint64(n)
	if s.remaining == 0 && s.fin {
		s.Messages++
		s.opcode = Continuation
		s.message = 0
		s.inspecting = false
	}
	return n, nil
}
