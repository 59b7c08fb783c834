package sim

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// Mark is the identity that a piece of audio carries, so that each result can be traced to the audio that caused it. On the
// wire it is a block of MarkSize bytes; a chunk of audio repeats its block. The simulated servers look for blocks wherever
// they begin, so marks survive being cut into messages, frames and half samples, and being decoded in parts.
type Mark struct {
	// Session is who sent the audio.
	Session uint64
	// Seq counts the chunks of audio of a session, from 1. Settings of a session that carry its identity have 0.
	Seq uint16
	// Pause says that the speaker pauses behind this block: recognisers end their utterance there.
	Pause bool
}

// MarkSize is the length of a mark's block in bytes: a whole number of samples in 16 bits, 32-bit floats and base64's
// groups with padding alike.
const MarkSize = 16

// markMagic begins a block; behind it come the sequence number (2 bytes, little-endian), flags, a check byte that makes all
// bytes' exclusive or 0, and the session (8 bytes, little-endian).
var markMagic = []byte{0x9d, 'i', 'd', 0xe3}

const markPause = 1 // flag

// AppendMark appends the mark's block to dst, count times.
func AppendMark(dst []byte, m Mark, count int) []byte {
	var block [MarkSize]byte
	copy(block[:], markMagic)
	binary.LittleEndian.PutUint16(block[4:], m.Seq)
	if m.Pause {
		block[6] = markPause
	}
	binary.LittleEndian.PutUint64(block[8:], m.Session)
	block[7] = exclusiveOr(block[:])
	for range count {
		dst = append(dst, block[:]...)
	}
	return dst
}

func exclusiveOr(b []byte) (sum byte) {
	for _, c := range b {
		sum ^= c
	}
	return sum
}

// MarkScanner finds the marks in audio that comes in pieces. The zero value is ready to be used.
type MarkScanner struct {
	rest []byte // what may be the beginning of a block
}

// Scan calls found with each mark that is complete with the audio.
func (s *MarkScanner) Scan(audio []byte, found func(Mark)) {
	s.scan(audio, func(m Mark) bool { found(m); return true })
}

// scan calls found with each mark that is complete with the audio, until it returns false. It returns how much of the audio was looked
// at: up to the end of that mark, or all of it.
func (s *MarkScanner) scan(audio []byte, found func(Mark) (more bool)) (looked int) {
	size, before := len(audio), len(s.rest)
	if before > 0 {
		s.rest = append(s.rest, audio...)
		audio = s.rest
	}
	all := len(audio)
	for {
		i := bytes.Index(audio, markMagic)
		if i < 0 {
			audio = audio[max(0, len(audio)-len(markMagic)+1):]
			break
		}
		if audio = audio[i:]; len(audio) < MarkSize {
			break
		}
		block := audio[:MarkSize]
		if exclusiveOr(block) != 0 { // the beginning of a block, and then something else
			audio = audio[1:]
			continue
		}
		more := found(Mark{
			Session: binary.LittleEndian.Uint64(block[8:]),
			Seq:     binary.LittleEndian.Uint16(block[4:]),
			Pause:   block[6]&markPause != 0,
		})
		audio = audio[MarkSize:]
		if !more {
			looked = all - len(audio) - before
			s.rest = s.rest[:0]
			return looked
		}
	}
	s.rest = append(s.rest[:0], audio...)
	return size
}

// Marks calls found with each mark in the audio.
func Marks(audio []byte, found func(Mark)) {
	var s MarkScanner
	s.Scan(audio, found)
}

// IdentityWord returns the word that stands for a session in its settings, such as a list of hot words: "s17:0".
func IdentityWord(session uint64) string {
	return string(appendIdentity(nil, session, 0, 0))
}

// ChunkWord returns the word for a chunk of a session, such as "s17:3": what a server that speaks is to speak.
func ChunkWord(session uint64, seq uint16) string {
	return string(appendIdentity(nil, session, seq, seq))
}

// appendIdentity appends the word for the chunks first to last of a session: "s17:3", or "s17:3-5".
func appendIdentity(dst []byte, session uint64, first, last uint16) []byte {
	dst = strconv.AppendUint(append(dst, 's'), session, 10)
	dst = strconv.AppendUint(append(dst, ':'), uint64(first), 10)
	if last != first {
		dst = strconv.AppendUint(append(dst, '-'), uint64(last), 10)
	}
	return dst
}

// Identities calls found with the session of each identity word in a message, whatever stands around it.
func Identities(message []byte, found func(session uint64)) {
	Chunks(message, func(session uint64, _, _ uint16) { found(session) })
}

// Chunks calls found with each identity word in a message, in its order: the session, and the first and the last of the chunks
// that the word names.
func Chunks(message []byte, found func(session uint64, first, last uint16)) {
	for i := 0; i < len(message); i++ {
		if message[i] != 's' || i > 0 && isWordByte(message[i-1]) {
			continue
		}
		session, digits := uint64(0), 0
		for i++; i < len(message) && isDigit(message[i]); i++ {
			session = session*10 + uint64(message[i]-'0')
			digits++
		}
		if digits > 0 && i+1 < len(message) && message[i] == ':' && isDigit(message[i+1]) {
			var first uint16
			first, i = frameNumber(message, i+1)
			last := first
			if i+1 < len(message) && message[i] == '-' && isDigit(message[i+1]) {
				last, i = frameNumber(message, i+1)
			}
			found(session, first, last)
		}
		i-- // what ended the word may begin one
	}
}

// frameNumber reads the digits from message[i] on, and returns where they end.
func frameNumber(message []byte, i int) (n uint16, end int) {
	for ; i < len(message) && isDigit(message[i]); i++ {
		n = n*10 + uint16(message[i]-'0')
	}
	return n, i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWordByte(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}
