package frame

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// CloseCode says why a connection is closed (RFC 6455, section 7.4, and IANA's registry of close codes).
type CloseCode uint16

// The registered codes that the proxy sends or has to distinguish.
const (
	NormalClosure    CloseCode = 1000
	GoingAway        CloseCode = 1001
	ProtocolError    CloseCode = 1002
	NoStatus         CloseCode = 1005 // never on the wire: the close frame had no code
	AbnormalClosure  CloseCode = 1006 // never on the wire: the connection ended without a close frame
	UnsupportedData  CloseCode = 1003
	InvalidPayload   CloseCode = 1007
	PolicyViolation  CloseCode = 1008
	MessageTooBig    CloseCode = 1009
	InternalError    CloseCode = 1011
	ServiceRestart   CloseCode = 1012
	TryAgainLater    CloseCode = 1013
	BadGateway       CloseCode = 1014
	TLSHandshakeFail CloseCode = 1015 // never on the wire
)

// String returns the code as a number.
func (c CloseCode) String() string { return strconv.Itoa(int(c)) }

// Sendable reports whether a close frame may have the code: one that RFC 6455 (section 7.4.1) or IANA defines for the wire, or one
// from the ranges for libraries and applications (section 7.4.2).
func (c CloseCode) Sendable() bool {
	switch {
	case c >= 1000 && c <= 1003, c >= 1007 && c <= 1014, c >= 3000 && c <= 4999:
		return true
	}
	return false
}

// MaxCloseReason is the length in bytes of the longest reason that fits into a close frame.
const MaxCloseReason = MaxControlPayload - 2

// ParseClose decodes a close frame's payload (RFC 6455, section 5.5.1). An empty payload is [NoStatus]. The reason
// shares memory with the payload.
func ParseClose(payload []byte) (code CloseCode, reason []byte, err error) {
	switch len(payload) {
	case 0:
		return NoStatus, nil, nil
	case 1:
		return 0, nil, ErrClosePayload
	}
	code, reason = CloseCode(binary.BigEndian.Uint16(payload)), payload[2:]
	if !code.Sendable() {
		return code, reason, ErrCloseCode
	}
	if !utf8.Valid(reason) {
		return code, reason, ErrCloseReason
	}
	return code, reason, nil
}

// AppendClosePayload appends the payload of a close frame to dst: nothing for [NoStatus], otherwise the code and as many whole
// characters of the reason as fit.
func AppendClosePayload(dst []byte, code CloseCode, reason string) []byte {
	if code == NoStatus {
		return dst
	}
	if len(reason) > MaxCloseReason {
		end := MaxCloseReason
		for end > 0 && !utf8.RuneStart(reason[end]) {
			end--
		}
		reason = reason[:end]
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}

// ClosePayload returns the payload of a close frame; it is never nil.
func ClosePayload(code CloseCode, reason string) []byte {
	return AppendClosePayload(make([]byte, 0, 2+len(reason)), code, reason)
}
