package frame

// Piece is a part of an inspected message: a frame, or as much of it as has arrived.
type Piece struct {
	// Size is the piece's length in bytes on the wire, including the header if the piece begins its frame.
	Size int
	// Payload is the piece's part of the frame's payload, as it is on the wire.
	Payload []byte
	// Key is the masking key, rotated to the first byte of Payload, as [ApplyMask] takes it; 0 if the frame is not masked.
	Key uint32
	// FrameEnds and MessageEnds tell that the piece is the last one of its frame, and of its message.
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
