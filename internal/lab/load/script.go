package load

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A message consists of a head, a body and a tail. The head, in hexadecimal digits, names the run, the client and the message's
// number. The body is a piece of one long pattern; where it begins there depends on the head. The tail consists of dots.
const (
	headSize = 24
	// alignment of a body in the pattern, in bytes: the length of a masking key, and of the groups of characters that make
	// up the pattern.
	alignment = 4
	places    = 1024 // number of places where a body can begin
	filler    = '.'
)

// script makes and recognizes the messages of a run's clients. It is static, and all loops share it.
type script struct {
	run     [8]byte
	size    int // of a message
	bodyEnd int // where the tail begins
	opcode  frame.Opcode
	pattern []byte
	// Masking a message costs more than copying it, so the script keeps the pattern masked with a few keys, and each message
	// uses one of them.
	masked [4]maskedPattern
}

type maskedPattern struct {
	key     uint32
	header  []byte // of the frame
	pattern []byte
	tail    []byte
}

func newScript(o Options, random *rand.Rand) *script {
	s := &script{size: o.Size, opcode: frame.Binary}
	putHex(s.run[:], random.Uint32())
	body := (o.Size - headSize) / alignment * alignment
	s.bodyEnd = headSize + body
	s.pattern = make([]byte, body+(places-1)*alignment)
	switch {
	case o.Unicode:
		fillUnicode(s.pattern, random)
	case o.Text:
		fillLetters(s.pattern, random)
	default:
		for i := 0; i < len(s.pattern); i += alignment {
			binary.LittleEndian.PutUint32(s.pattern[i:], random.Uint32())
		}
	}
	if o.Text {
		s.opcode = frame.Text
	}
	for i := range s.masked {
		m := &s.masked[i]
		m.key = random.Uint32()
		m.header = frame.AppendHeader(nil, frame.Header{
			Fin: true, Opcode: s.opcode, Masked: true, Mask: m.key, Length: int64(o.Size),
		})
		m.pattern = append([]byte(nil), s.pattern...)
		frame.ApplyMask(m.pattern, m.key)
		m.tail = bytes.Repeat([]byte{filler}, s.size-s.bodyEnd)
		frame.ApplyMask(m.tail, m.key)
	}
	return s
}

// append appends the frame of a client's message with the number to dst.
func (s *script) append(dst []byte, client, number uint32) []byte {
	m := &s.masked[(client+number)%uint32(len(s.masked))]
	dst = append(dst, m.header...)
	var head [headSize]byte
	copy(head[:], s.run[:])
	putHex(head[8:], client)
	putHex(head[16:], number)
	frame.ApplyMask(head[:], m.key)
	dst = append(dst, head[:]...)
	at := s.place(client, number)
	dst = append(dst, m.pattern[at:at+s.bodyEnd-headSize]...)
	return append(dst, m.tail...)
}

// frameSize is the length of a message's frame.
func (s *script) frameSize() int { return len(s.masked[0].header) + s.size }

// place returns where in the pattern a message's body begins.
func (s *script) place(client, number uint32) int {
	const mix = 0x9E3779B1 // 2^32 divided by the golden ratio: spreads neighbours
	hash := (client*mix ^ number) * mix
	return int(hash>>22) * alignment // the ten highest bits
}

const hexDigits = "0123456789abcdef"

// putHex writes a value as the eight digits at the start of b.
func putHex(b []byte, value uint32) {
	for i := 7; i >= 0; i-- {
		b[i] = hexDigits[value&15]
		value >>= 4
	}
}

// hex reads eight digits as putHex writes them. It returns false for other characters.
func hex(b []byte) (value uint32, ok bool) {
	for _, c := range b[:8] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		value = value<<4 | uint32(c)
	}
	return value, true
}

func fillLetters(b []byte, random *rand.Rand) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ,"
	for i := range b {
		b[i] = letters[random.IntN(len(letters))]
	}
}

// fillUnicode fills b with groups of whole characters, four bytes each. The length of b must be a multiple of four.
func fillUnicode(b []byte, random *rand.Rand) {
	groups := [...]string{"öé", "ßñ", "жщ", "语.", "a音", "한k", "😀", "𝄞", "wsbo", "unce"}
	for i := 0; i < len(b); i += alignment {
		copy(b[i:], groups[random.IntN(len(groups))])
	}
}

// What can be wrong with an echo, as counted in Result.Errors.
const (
	wrongKind    = "mixed: text for binary or binary for text"
	wrongLength  = "mixed: wrong length"
	wrongContent = "mixed: altered content"
	foreign      = "mixed: message of another client or run"
	earlier      = "mixed: message of an earlier session"
	repeated     = "mixed: message repeated"
	notSent      = "mixed: message that was not sent"
	outOfOrder   = "lost: message out of order"
	missing      = "lost: message missing"
)

// reply compares one message of the server with what the client has sent, piece by piece as it arrives.
type reply struct {
	head   [headSize]byte
	got    int    // bytes so far
	number uint32 // the message's number, once the head is complete
	at     int    // where its body begins in the pattern
	wrong  string // what is wrong with the message; empty if nothing so far
}

// begin starts a new message.
func (r *reply) begin() { r.got, r.wrong = 0, "" }

// take compares the message's next piece.
func (r *reply) take(s *script, client uint32, b []byte) {
	if r.got < headSize {
		n := copy(r.head[r.got:], b)
		r.got += n
		b = b[n:]
		if r.got == headSize {
			r.parseHead(s, client)
		}
	}
	from := r.got
	r.got += len(b)
	if len(b) == 0 || r.wrong != "" {
		return
	}
	if r.got > s.size {
		r.wrong = wrongLength
		return
	}
	if n := min(len(b), s.bodyEnd-from); n > 0 {
		at := r.at + from - headSize
		if !bytes.Equal(b[:n], s.pattern[at:at+n]) {
			r.wrong = wrongContent
		}
		b = b[n:]
	}
	for _, c := range b {
		if c != filler {
			r.wrong = wrongContent
		}
	}
}

// parseHead parses the head.
func (r *reply) parseHead(s *script, client uint32) {
	of, ok := hex(r.head[8:])
	number, numbered := hex(r.head[16:])
	if !bytes.Equal(r.head[:8], s.run[:]) || !ok || !numbered || of != client {
		r.wrong = foreign
		return
	}
	r.number, r.at = number, s.place(client, number)
}

// end ends the message, and reports whether it is known which of the client's messages it answers.
func (r *reply) end(s *script) (known bool) {
	if r.got < s.size && r.wrong == "" {
		r.wrong = wrongLength
	}
	return r.got >= headSize && r.wrong != foreign
}
