package frame

// Error is a breach of RFC 6455 by a peer. The errors of this package are made once, so that a hostile peer does not
// cost an allocation, and can be compared with ==.
type Error struct {
	// Code is the close code that tells the peer what it did (RFC 6455, section 7.4.1).
	Code CloseCode
	// Reason is the text for the close frame, at most 123 bytes.
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// What a peer can do wrong.
var (
	ErrReservedBits      = &Error{ProtocolError, "reserved bits set without a negotiated extension"}
	ErrReservedOpcode    = &Error{ProtocolError, "reserved opcode"}
	ErrFragmentedControl = &Error{ProtocolError, "fragmented control frame"}
	ErrLongControl       = &Error{ProtocolError, "control frame longer than 125 bytes"}
	ErrLengthEncoding    = &Error{ProtocolError, "frame length not in its shortest form, or over 63 bits"}
	ErrNotMasked         = &Error{ProtocolError, "client frame not masked"}
	ErrMasked            = &Error{ProtocolError, "server frame masked"}
	ErrNoMessage         = &Error{ProtocolError, "continuation frame without a message to continue"}
	ErrInMessage         = &Error{ProtocolError, "new message before the last one ended"}
	ErrClosePayload      = &Error{ProtocolError, "close frame with a payload of one byte"}
	ErrCloseCode         = &Error{ProtocolError, "close code that may not be sent"}
	ErrCloseReason       = &Error{InvalidPayload, "close reason is not UTF-8"}
	ErrText              = &Error{InvalidPayload, "text is not UTF-8"}
	ErrMessageSize       = &Error{MessageTooBig, "message over the size limit"}
)
