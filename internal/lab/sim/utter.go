package sim

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"time"
)

// utterance is how long the simulated servers speak on each word.
const utterance = 80 * time.Millisecond

// appendSpeech appends the speech of a word, so many bytes: the mark's blocks of a word that is a chunk's identity, and otherwise samples
// that depend on the word alone, in 16 bits or as 32-bit floats.
func appendSpeech(dst []byte, word string, size int, floats bool) []byte {
	end := len(dst) + size
	dst = append(dst, make([]byte, 0, size+MarkSize)...)
	Chunks([]byte(word), func(session uint64, first, _ uint16) {
		if len(dst) < end {
			dst = AppendMark(dst, Mark{Session: session, Seq: first}, (end-len(dst)+MarkSize-1)/MarkSize)
		}
	})
	seed := crc32.ChecksumIEEE([]byte(word))
	for len(dst) < end {
		seed = seed*1664525 + 1013904223 // a linear congruential generator
		sample := int16(seed>>16) / 8
		if floats {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(sample)/32768))
		} else {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(sample))
		}
	}
	return dst[:end]
}

// wholeWords cuts a text behind its last space: its words, and the rest.
func wholeWords(text string) (words []string, rest string) {
	i := strings.LastIndexByte(text, ' ') + 1
	return strings.Fields(text[:i]), text[i:]
}
