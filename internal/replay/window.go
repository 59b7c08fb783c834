package replay

import (
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

// Arena is memory for windows. Any goroutine may use it.
type Arena struct{}

// NewArena returns an arena that hands out at most limit bytes.
func NewArena(limit int64) *Arena { panic("not written yet") }

// SetLimit changes the limit. Windows keep what they have.
func (a *Arena) SetLimit(limit int64) { panic("not written yet") }

// Used returns how many bytes windows hold now, and Limit how many they may.
func (a *Arena) Used() int64  { panic("not written yet") }
func (a *Arena) Limit() int64 { panic("not written yet") }

// Window is what one session keeps: whole messages in order, and the beginning of one more. The zero value is empty; SetArena comes
// first. It belongs to its session's loop.
type Window struct{}

// SetArena says where the window's memory comes from.
func (w *Window) SetArena(a *Arena) { panic("not written yet") }

// Append adds bytes of the message under way, frames as they are on the wire. It returns false if the arena has no memory left; then the
// window is as it was.
func (w *Window) Append(raw []byte) bool { panic("not written yet") }

// End ends the message under way, and returns its number: the first message of a session has 0, each next one more.
func (w *Window) End(e profile.Entry) (number int64) { panic("not written yet") }

// First returns the number of the first message that is still kept, and Next that of the next message to be ended.
func (w *Window) First() int64 { panic("not written yet") }
func (w *Window) Next() int64  { panic("not written yet") }

// Entry returns a kept message's entry.
func (w *Window) Entry(number int64) profile.Entry { panic("not written yet") }

// Pieces calls f with each piece of a kept message's frames, in order. The pieces are valid until the next call of Drop or Free.
func (w *Window) Pieces(number int64, f func(raw []byte)) { panic("not written yet") }

// Payload appends to dst the message's payload, unmasked, and returns its kind as well.
func (w *Window) Payload(dst []byte, number int64) (op frame.Opcode, payload []byte) {
	panic("not written yet")
}

// Drop forgets all messages before a number.
func (w *Window) Drop(before int64) { panic("not written yet") }

// Size returns how many bytes are kept, and Memory how many of the arena are in use for that.
func (w *Window) Size() int64   { panic("not written yet") }
func (w *Window) Memory() int64 { panic("not written yet") }

// Free gives all memory back. The window is empty after that, and its numbers go on.
func (w *Window) Free() { panic("not written yet") }
