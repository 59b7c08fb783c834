package replay

import (
	"encoding/binary"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const (
	// linkSize is the length of a chunk's link, the number of the window's next chunk. It comes before the chunk's data.
	linkSize = 4
	// entrySize is the length of a message's entry, which comes before its frames. An entry is never cut by the end of a chunk: where it
	// does not fit, it begins the next chunk.
	entrySize = sizeSize + profile.EntrySize
	// sizeSize is the length of the length of a message's frames, with which its entry begins.
	sizeSize = 3
	// maxMessage is the largest message in bytes on the wire that a window takes.
	maxMessage = 1<<(8*sizeSize) - 1
)

// Window is what one session keeps: whole messages in order, and the beginning of one more. The zero value is empty; SetArena comes
// first. It belongs to its session's loop.
//
// The messages stand one after the other in a list of chunks of the arena, each one behind its entry. So a window costs no memory of its
// own, and whatever a client sends counts against the arena's limit.
type Window struct {
	arena *Arena
	share *share // guarded by the arena's mutex

	first, last, found message // the first one that is kept, the last one that has ended, and the last one that was looked for
	next               int64   // number of the next message to be ended

	open     bool   // a message is under way
	begin    place  // of its entry
	openSize uint32 // of its frames

	tail   place // where the next byte goes, if there are chunks
	chunks int
	size   int64 // of the frames of all messages, in bytes
}

// message says where a message is.
type message struct {
	number int64
	place  place // of its entry; for the first one, if it has not begun yet, anywhere
}

// place is a place in a window's chunks. The offset may be that of the chunk's end.
type place struct {
	chunk  uint32
	offset uint32
}

// SetArena says where the window's memory comes from, and whose the window is.
func (w *Window) SetArena(a *Arena, o Owner) { w.arena, w.share = a, &share{owner: o} }

// Asked reports whether the owner was asked to free the window, and has not done so yet.
func (w *Window) Asked() bool {
	w.arena.mu.Lock()
	defer w.arena.mu.Unlock()
	return w.share.asked
}

// Append adds bytes of the message under way, frames as they are on the wire. It returns false if the arena has no memory left for it, or if
// the message has become longer than maxMessage; then the window is as it was.
func (w *Window) Append(raw []byte) bool {
	if len(raw) > maxMessage-int(w.openSize) {
		return false
	}
	need, room := len(raw), w.room()
	if !w.open {
		need += entrySize
		if room < entrySize {
			room = 0
		}
	}
	missing := 0
	if need > room {
		missing = (need - room + chunkSize - linkSize - 1) / (chunkSize - linkSize)
		if !w.arena.reserve(w.share, missing) {
			return false
		}
	}
	if !w.open {
		w.open = true
		if room == 0 {
			w.grow(&missing)
		}
		w.begin = w.tail
		w.tail.offset += entrySize
	}
	for rest := raw; len(rest) > 0; {
		if w.tail.offset == chunkSize {
			w.grow(&missing)
		}
		n := copy(w.arena.chunk(w.tail.chunk)[w.tail.offset:], rest)
		w.tail.offset += uint32(n)
		rest = rest[n:]
	}
	w.openSize += uint32(len(raw))
	w.size += int64(len(raw))
	return true
}

// room returns how many bytes fit into the last chunk.
func (w *Window) room() int {
	if w.chunks == 0 {
		return 0
	}
	return chunkSize - int(w.tail.offset)
}

// grow adds chunks that were reserved, at most batchSize of those that are missing, and continues in the first of them. If it has more to
// add than one batch, it is called again when those are full.
func (w *Window) grow(missing *int) {
	if w.chunks > 0 {
		// A former call may have added chunks ahead of the tail.
		if next := w.link(w.tail.chunk); next != noChunk {
			w.tail = place{next, linkSize}
			return
		}
	}
	var batch [batchSize]uint32
	ids := batch[:min(batchSize, *missing)]
	w.arena.take(w.share, ids)
	*missing -= len(ids)
	for i, id := range ids {
		next := uint32(noChunk)
		if i+1 < len(ids) {
			next = ids[i+1]
		}
		binary.LittleEndian.PutUint32(w.arena.chunk(id)[:], next)
	}
	if w.chunks > 0 {
		binary.LittleEndian.PutUint32(w.arena.chunk(w.tail.chunk)[:], ids[0])
	} else {
		w.first.place = place{ids[0], linkSize}
	}
	w.chunks += len(ids)
	w.tail = place{ids[0], linkSize}
}

// noChunk is the link of the last chunk.
const noChunk = 1<<32 - 1

func (w *Window) link(chunk uint32) uint32 {
	return binary.LittleEndian.Uint32(w.arena.chunk(chunk)[:])
}

// End ends the message under way, of which Append has added something. It returns the message's number: the first message of a session
// has 0, each next one more.
func (w *Window) End(e profile.Entry) (number int64) {
	if !w.open {
		panic("replay: a message ends that has not begun")
	}
	b := w.arena.chunk(w.begin.chunk)[w.begin.offset:]
	b[0], b[1], b[2] = byte(w.openSize), byte(w.openSize>>8), byte(w.openSize>>16)
	e.Encode(b[sizeSize:])
	w.last = message{w.next, w.begin}
	w.next++
	w.open, w.openSize = false, 0
	return w.last.number
}

// First returns the number of the first message that is still kept, and Next that of the next message to be ended.
func (w *Window) First() int64 { return w.first.number }
func (w *Window) Next() int64  { return w.next }

// Entry returns a kept message's entry. The first message, the last one, and those that follow the one that was looked for before are
// found at once; others by a search from the first one.
func (w *Window) Entry(number int64) profile.Entry {
	e, _, _ := w.entry(w.find(number))
	return e
}

// Length returns the length in bytes of a kept message's frames.
func (w *Window) Length(number int64) int {
	_, size, _ := w.entry(w.find(number))
	return size
}

// find returns where the entry of a kept message is.
func (w *Window) find(number int64) place {
	if number < w.first.number || number >= w.next {
		panic(fmt.Sprintf("replay: message %d is not kept, only %d to %d", number, w.first.number, w.next-1))
	}
	switch number {
	case w.last.number:
		return w.last.place
	case w.first.number:
		w.first.place = w.entryPlace(w.first.place)
		return w.first.place
	}
	m := w.first
	if w.found.number > w.first.number && w.found.number <= number {
		m = w.found
	}
	m.place = w.entryPlace(m.place)
	for ; m.number < number; m.number++ {
		_, size, data := w.entry(m.place)
		m.place = w.entryPlace(w.forward(data, size))
	}
	w.found = m
	return m.place
}

// entryPlace returns where the entry is that begins at p, which may be too near to the end of its chunk.
func (w *Window) entryPlace(p place) place {
	if p.offset > chunkSize-entrySize {
		return place{w.link(p.chunk), linkSize}
	}
	return p
}

// entry decodes the entry at p. It returns the length of the message's frames as well, and where they begin.
func (w *Window) entry(p place) (e profile.Entry, size int, data place) {
	size, data = w.frames(p)
	return profile.DecodeEntry(w.arena.chunk(p.chunk)[p.offset+sizeSize:]), size, data
}

// frames returns the length in bytes of the frames of the message whose entry is at p, and where they begin.
func (w *Window) frames(p place) (size int, data place) {
	b := w.arena.chunk(p.chunk)[p.offset:]
	return int(b[0]) | int(b[1])<<8 | int(b[2])<<16, place{p.chunk, p.offset + entrySize}
}

// forward returns the place n bytes after p.
func (w *Window) forward(p place, n int) place {
	for n > chunkSize-int(p.offset) {
		n -= chunkSize - int(p.offset)
		p = place{w.link(p.chunk), linkSize}
	}
	p.offset += uint32(n)
	return p
}

// Pieces calls f with each piece of a kept message's frames, in order. The pieces are valid until the next call of Drop or Free.
func (w *Window) Pieces(number int64, f func(raw []byte)) {
	_, size, p := w.entry(w.find(number))
	w.pieces(p, size, f)
}

// pieces calls f with each piece of what stands at p.
func (w *Window) pieces(p place, size int, f func(raw []byte)) {
	for size > 0 {
		if p.offset == chunkSize {
			p = place{w.link(p.chunk), linkSize}
		}
		piece := w.arena.chunk(p.chunk)[p.offset:]
		piece = piece[:min(size, len(piece))]
		size -= len(piece)
		p.offset += uint32(len(piece))
		f(piece)
	}
}

// Begun calls f with each piece of the message under way, as Pieces does.
func (w *Window) Begun(f func(raw []byte)) {
	if w.open {
		w.pieces(place{w.begin.chunk, w.begin.offset + entrySize}, int(w.openSize), f)
	}
}

// Payload appends to dst the message's payload, unmasked, and returns its kind as well.
func (w *Window) Payload(dst []byte, number int64) (op frame.Opcode, payload []byte) {
	begin := len(dst)
	w.Pieces(number, func(raw []byte) { dst = append(dst, raw...) })
	// What was appended is frames. Their payloads move to the front.
	end := begin
	for rest := dst[begin:]; len(rest) > 0; {
		h, size, err := frame.ParseHeader(rest)
		if err != nil || size == 0 || h.Length > int64(len(rest)-size) {
			break // the session's scanner has checked the frames, so that this does not happen
		}
		if h.Opcode != frame.Continuation {
			op = h.Opcode
		}
		rest = rest[size:]
		n := copy(dst[end:], rest[:h.Length])
		if h.Masked {
			frame.ApplyMask(dst[end:end+n], h.Mask)
		}
		end += n
		rest = rest[h.Length:]
	}
	return op, dst[:end]
}

// Drop forgets all messages before a number.
func (w *Window) Drop(before int64) {
	before = min(before, w.next)
	if before <= w.first.number {
		return
	}
	p := w.first.place
	old := p.chunk
	for ; w.first.number < before; w.first.number++ {
		size, data := w.frames(w.entryPlace(p))
		w.size -= int64(size)
		p = w.forward(data, size)
	}
	switch {
	case w.first.number < w.next:
		p = w.entryPlace(p)
	case w.open:
		p = w.begin
	default:
		// The last chunk stays, so that a session whose messages are answered one by one does not take and give back a chunk for each.
		p.offset = linkSize
		w.tail = p
	}
	w.first.place = p
	w.give(old, p.chunk)
}

// give gives the chunks from one up to another back, which is not among them; noChunk for all.
func (w *Window) give(id, end uint32) {
	var batch [batchSize]uint32
	for id != end {
		ids := batch[:0]
		for id != end && len(ids) < batchSize {
			ids = append(ids, id)
			id = w.link(id)
		}
		w.arena.give(w.share, ids)
		w.chunks -= len(ids)
	}
}

// Size returns how many bytes are kept, and Memory how many of the arena are in use for that.
func (w *Window) Size() int64   { return w.size }
func (w *Window) Memory() int64 { return int64(w.chunks) * chunkSize }

// Free gives all memory back. The window is empty after that, and its numbers continue.
func (w *Window) Free() {
	if w.chunks > 0 {
		w.give(w.first.place.chunk, noChunk)
	}
	*w = Window{arena: w.arena, share: w.share, first: message{number: w.next}, next: w.next}
}
