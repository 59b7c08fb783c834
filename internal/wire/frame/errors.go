package frame

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
