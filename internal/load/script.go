package load

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// A message is a head, a body and a tail. The head, in hexadecimal digits, names the run, the client and the message's
// number. The body is a piece of one long pattern, at a place that depends on the head. The tail fills up with dots.
const (
	headSize = 24
	// alignment of a body in the pattern: a masking key's length, and that of the groups of characters the pattern
	// consists of.
	alignment = 4
	places    = 1024 // number of places where a body can begin
	filler    = '.'
)

// script is what the clients of a run say: how their messages are made, and how they are recognised. It is static once
// made, and shared by all loops.
type script struct {
	run     [8]byte
	size    int // of a message
	bodyEnd int // where the tail begins
	opcode  frame.Opcode
	pattern []byte
	// Masking a message anew costs more than copying it, so that the pattern is kept masked with a few keys, of which
	// messages take one or another.
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
		for range s.size - s.bodyEnd {
			m.tail = append(m.tail, filler)
		}
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

// hex reads eight digits, and reports whether they are those that putHex writes.
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

// fillUnicode fills b, whose length is a multiple of four, with groups of four bytes that are whole characters.
func fillUnicode(b []byte, random *rand.Rand) {
	groups := [...]string{"öé", "ßñ", "жщ", "语.", "a音", "한k", "😀", "𝄞", "wsbo", "unce"}
	for i := 0; i < len(b); i += alignment {
		copy(b[i:], groups[random.IntN(len(groups))])
	}
}
