// Package frame reads and writes the framing of the WebSocket protocol (RFC 6455, section 5) on byte slices.
//
// It does no I/O and keeps no buffers. Callers present the bytes as they arrive, wherever the network has cut them. A
// [Scanner] says which of them are data frames to pass on as they are, which are control frames to act on, and which break
// the protocol. A scanner is for one direction of one connection, and not safe for concurrent use.
package frame

// Opcode is the four-bit type of a frame (RFC 6455, section 5.2).
type Opcode byte

// The opcodes that RFC 6455 defines. All others are reserved: they are errors.
const (
	Continuation Opcode = 0x0
	Text         Opcode = 0x1
	Binary       Opcode = 0x2
	Close        Opcode = 0x8
	Ping         Opcode = 0x9
	Pong         Opcode = 0xA
)

// IsControl reports whether frames of this opcode are control frames (RFC 6455, section 5.5).
func (o Opcode) IsControl() bool { return o&0x8 != 0 }

// String returns the opcode's name in RFC 6455.
func (o Opcode) String() string {
	switch o {
	case Continuation:
		return "continuation"
	case Text:
		return "text"
	case Binary:
		return "binary"
	case Close:
		return "close"
	case Ping:
		return "ping"
	case Pong:
		return "pong"
	}
	return "reserved"
}

const (
	// MaxHeaderSize is the length in bytes of the longest frame header: two bytes, eight of length, four of masking key.
	MaxHeaderSize = 14
	// MinClientSize is the length in bytes of the shortest frame from a client, whose header has a masking key.
	MinClientSize = 2 + 4
	// MaxControlPayload is the largest payload in bytes that a control frame may have (RFC 6455, section 5.5).
	MaxControlPayload = 125
	// MaxControlSize is the length in bytes of the longest control frame, including its header.
	MaxControlSize = 2 + 4 + MaxControlPayload
)

// Error is a violation of RFC 6455, or of a limit, by a peer. The errors of this package can be compared with ==, and cost no allocation.
type Error struct {
	// Code is the close code for the peer (RFC 6455, section 7.4.1).
	Code CloseCode
	// Reason is the text for the close frame, at most 123 bytes.
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return e.Reason }

// The violations that this package detects.
var (
	ErrReservedBits      = &Error{ProtocolError, "reserved bits set without a negotiated extension"}
	ErrReservedOpcode    = &Error{ProtocolError, "reserved opcode"}
	ErrFragmentedControl = &Error{ProtocolError, "fragmented control frame"}
	ErrLongControl       = &Error{ProtocolError, "control frame longer than 125 bytes"}
	ErrLengthEncoding    = &Error{ProtocolError, "frame length not in its shortest form, or over 63 bits"}
	ErrNotMasked         = &Error{ProtocolError, "client frame not masked"}
	ErrMasked            = &Error{ProtocolError, "server frame masked"}
	ErrNoMessage         = &Error{ProtocolError, "continuation frame without a message to continue"}
	ErrInMessage         = &Error{ProtocolError, "new message before the previous one ended"}
	ErrClosePayload      = &Error{ProtocolError, "close frame with a payload of one byte"}
	ErrCloseCode         = &Error{ProtocolError, "close code that must not be sent"}
	ErrCloseReason       = &Error{InvalidPayload, "close reason is not UTF-8"}
	ErrText              = &Error{InvalidPayload, "text is not UTF-8"}
	ErrEmptyFrames       = &Error{PolicyViolation, "too many empty frames in a message"}
	ErrMessageSize       = &Error{MessageTooBig, "message over the size limit"}
)
