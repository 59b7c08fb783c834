package profile

import (
	"encoding/base64"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// Message is a whole message that the proxy itself sends to a server for a profile's setup, reset or keepalive. It is immutable.
type Message struct {
	// Binary means that it is a binary message; otherwise it is text.
	Binary bool

	payload string // contains tokenMark in place of the token, if marked
	zeros   int    // the length of a payload of zero bytes, which is silence in most audio formats
	marked  bool
}

const (
	// tokenMark stands in a profile for the token: a number that is different in each session.
	tokenMark = "$token"
	// tokenSize is the length of the token in messages, in bytes: 64 bits in hexadecimal digits.
	tokenSize = 16
)

// Append appends the message's payload to dst and returns the result. token is the session's, see [Boundary.Token].
func (m *Message) Append(dst []byte, token uint64) []byte {
	if m.zeros > 0 {
		return append(dst, make([]byte, m.zeros)...)
	}
	rest := m.payload
	for m.marked {
		before, after, found := strings.Cut(rest, tokenMark)
		dst = append(dst, before...)
		if !found {
			return dst
		}
		digits := tokenDigits(token)
		dst = append(dst, digits[:]...)
		rest = after
	}
	return append(dst, rest...)
}

// tokenDigits returns the token in the form that messages contain.
func tokenDigits(token uint64) (digits [tokenSize]byte) {
	for i := range digits {
		digits[i] = "0123456789abcdef"[token>>60]
		token <<= 4
	}
	return digits
}

// maxZeros is the length in bytes of the longest message of zeros: a second of audio in any usual format.
const maxZeros = 192 << 10

// messages reads one message or a list of them.
func (r *reader) messages(n *strictyaml.Node) []Message {
	if isNone(n) {
		return nil
	}
	var list []Message
	for _, item := range items(n) {
		if m, ok := r.message(item); ok {
			list = append(list, m)
		}
	}
	return list
}

const messageForms = "text, {text: ...}, {base64: ...} or {zeros: number of bytes}"

func (r *reader) message(n *strictyaml.Node) (m Message, ok bool) {
	switch {
	case isText(n):
		return Message{payload: n.Value, marked: strings.Contains(n.Value, tokenMark)}, true
	case !isMapping(n):
		r.Wrong(n, messageForms)
		return m, false
	}
	before := len(r.problems)
	fields := r.fields(n, "text", "base64", "zeros")
	if len(fields) != 1 {
		if len(r.problems) > before {
			return m, false
		}
		r.problem(placeOf(n), "a message has exactly one payload: use %s", messageForms)
		return m, false
	}
	switch f := fields[0]; f.key {
	case "text":
		m.payload, ok = r.text(f.value)
		m.marked = strings.Contains(m.payload, tokenMark)
	case "base64":
		m.Binary = true
		var payload []byte
		payload, ok = r.base64(f.value)
		m.payload = string(payload)
	case "zeros":
		m.Binary = true
		var length int64
		length, ok = r.number(f.value, 1, maxZeros)
		m.zeros = int(length)
	}
	return m, ok
}

// base64 decodes a text.
func (r *reader) base64(n *strictyaml.Node) ([]byte, bool) {
	s, ok := r.text(n)
	if !ok {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		r.problem(placeOf(n), "invalid base64 %q (%v): use the standard alphabet with padding (RFC 4648, section 4)", s, err)
		return nil, false
	}
	return b, true
}
