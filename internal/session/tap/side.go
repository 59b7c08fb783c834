package tap

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// side sees the frames of one side of a tapped session. It looks at bytes before they are handled, since a control frame is unmasked in
// place then, and shows a frame when it is handled, so that frames and verdicts are in order. Bytes that are left for later, and
// presented again, are looked at once. It is owned by the loop of the side's connection.
type side struct {
	follower frame.Follower
	frames   uint64 // data frames begun, as the side's scanner counts them
	ahead    int    // bytes at the beginning of those that come next that were looked at already
	looked   int    // of the bytes at hand
	open     bool   // the last of seen is incomplete
	seen     []seenFrame
}

// seenFrame is a frame that was not shown yet.
type seenFrame struct {
	event   Event
	number  uint64 // as the scanner counts data frames; 0 for a control frame
	payload []byte // the beginning, as far as it is shown
	wanted  int    // how much of the payload is shown, at most
}

// newSide returns a side for what follows the bytes that the scanner has passed.
func newSide(s *frame.Scanner) side { return side{follower: s.Follow(), frames: s.Frames} }

// look looks at the bytes that are about to be handled. text is how many bytes of a text are shown.
func (s *side) look(b []byte, text int) {
	now := time.Now()
	pos := min(s.ahead, len(b))
	for {
		p := s.follower.Next(b[pos:])
		if p.Size == 0 {
			break
		}
		pos += p.Size
		if p.Begins {
			s.begin(&p, now, text)
		}
		if s.open {
			s.collect(&p)
		}
	}
	s.looked = pos
}

// begin notes a frame.
func (s *side) begin(p *frame.Part, now time.Time, text int) {
	h := p.Header
	f := seenFrame{event: Event{Time: now, Event: frameEvent, Kind: h.Opcode.String(), Size: h.Length, Fin: h.Fin}}
	switch {
	case h.Opcode == frame.Close:
		f.wanted = frame.MaxControlPayload
	case h.Opcode.IsControl():
	default:
		s.frames++
		f.number = s.frames
		if p.Text {
			f.wanted = text
		}
	}
	s.seen = append(s.seen, f)
	s.open = true
}

// collect adds a part to the last frame.
func (s *side) collect(p *frame.Part) {
	f := &s.seen[len(s.seen)-1]
	n := min(len(p.Payload), f.wanted-len(f.payload))
	start := len(f.payload)
	f.payload = append(f.payload, p.Payload[:n]...)
	frame.ApplyMask(f.payload[start:], p.Key)
	if p.Ends || f.number != 0 && len(f.payload) == f.wanted {
		s.open = false
	}
}

// drop marks the data frames that were not shown yet: they go nowhere.
func (s *side) drop() {
	for i := range s.seen {
		if s.seen[i].number != 0 {
			s.seen[i].event.What = passWords[profile.Drop]
		}
	}
}

// consumed tells how many of the bytes that were looked at were handled.
func (s *side) consumed(n int) { s.ahead = max(s.looked-n, 0) }

// flush shows the frames up to the data frame of that number, even if the last one is incomplete, and with them the control frames that
// follow it.
func (s *side) flush(a *audience, from string, number uint64, control bool) {
	n := 0
	for n < len(s.seen) && (s.seen[n].number <= number) && (control || s.seen[n].number != 0 || s.dataWithin(n, number)) {
		n++
	}
	s.show(a, from, n)
}

// dataWithin reports whether a data frame up to that number follows the control frame at index i.
func (s *side) dataWithin(i int, number uint64) bool {
	for _, f := range s.seen[i:] {
		if f.number != 0 {
			return f.number <= number
		}
	}
	return false
}

// flushAll shows all frames, except an incomplete one that may still be shown better.
func (s *side) flushAll(a *audience, from string) {
	n := len(s.seen)
	if s.open {
		n--
	}
	s.show(a, from, n)
}

// show shows the first n frames.
func (s *side) show(a *audience, from string, n int) {
	if n == 0 {
		return
	}
	for i := range s.seen[:n] {
		f := &s.seen[i]
		e := f.event
		e.From = from
		switch {
		case e.Kind == frame.Close.String():
			e.showClose(f.payload)
		case f.wanted > 0:
			if e.Cut = int64(len(f.payload)) < e.Size; e.Cut {
				f.payload = withoutPartialRune(f.payload)
			}
			e.Text = strings.ToValidUTF8(string(f.payload), "\uFFFD")
		case e.Kind == frame.Text.String():
			e.Cut = e.Size > 0
		}
		a.emit(e)
	}
	if s.open = s.open && n < len(s.seen); n == len(s.seen) {
		s.seen = s.seen[:0]
		if cap(s.seen) > maxSeenKept {
			s.seen = nil
		}
		return
	}
	s.seen = append(s.seen[:0], s.seen[n:]...)
}

// maxSeenKept is for how many frames memory is kept. One read may bring thousands.
const maxSeenKept = 64

// withoutPartialRune returns the text without the incomplete character at its end.
func withoutPartialRune(b []byte) []byte {
	for i := len(b) - 1; i >= max(len(b)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// showClose shows a close frame's code and reason.
func (e *Event) showClose(payload []byte) {
	if len(payload) >= 2 {
		e.Code = binary.BigEndian.Uint16(payload)
		e.Reason = strings.ToValidUTF8(string(payload[2:]), "\uFFFD")
	}
}
