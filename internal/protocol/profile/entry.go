package profile

import (
	"encoding/binary"
	"fmt"
)

// EntrySize is the length of an encoded [Entry] in bytes.
const EntrySize = 13

// An encoded entry has the number in its first four bytes. The next eight have From and the low bits of the audio's length; the last one has
// the kind, the flags and the high bits of that length. It is small because a session keeps one for each message.
const (
	entryFrom  = 43 // bits: years of audio
	entryLow   = 64 - entryFrom
	entryAudio = entryLow + 2
	entryFlags = 3 // where the flags begin in the last byte, behind the kind
	entryHigh  = 6 // where the high bits of the audio's length begin in it

	maxEntryTo    = 1<<entryFrom - 1
	maxEntryAudio = 1<<entryAudio - 1
)

// Encode writes the entry to b, which has at least EntrySize bytes. The entry must be one that a tracker has made.
func (e Entry) Encode(b []byte) {
	audio := e.To - e.From
	if e.From < 0 || e.To > maxEntryTo || audio < 0 || audio > maxEntryAudio {
		panic(fmt.Sprintf("profile: an entry with audio from %d to %d", e.From, e.To))
	}
	last := uint8(e.Kind) | uint8(audio>>entryLow)<<entryHigh
	for bit, flag := range [...]bool{e.marks, e.replied, e.counted} {
		if flag {
			last |= 1 << (entryFlags + bit)
		}
	}
	binary.LittleEndian.PutUint32(b, e.number)
	binary.LittleEndian.PutUint64(b[4:], uint64(e.From)|uint64(audio)<<entryFrom)
	b[12] = last
}

// DecodeEntry returns the entry that Encode wrote.
func DecodeEntry(b []byte) (e Entry) {
	from, last := binary.LittleEndian.Uint64(b[4:]), b[12]
	e.number = binary.LittleEndian.Uint32(b)
	e.Kind = EntryKind(last & (1<<entryFlags - 1))
	e.marks, e.replied, e.counted = last>>entryFlags&1 != 0, last>>entryFlags&2 != 0, last>>entryFlags&4 != 0
	e.From = Position(from & maxEntryTo)
	e.To = e.From + Position(from>>entryFrom|uint64(last>>entryHigh)<<entryLow)
	return e
}
