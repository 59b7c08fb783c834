package profile

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// numbering is a count that a server makes, such as of its utterances.
type numbering struct {
	offset int64 // what the present server's numbers need
	next   int64 // the number after the last final's, as the client sees it
}

// begin continues the count on another server.
func (n *numbering) begin(first int64) { n.offset = n.next - first }

// rewrite returns a message of the server as the client gets it: times and numbers continue from the former server's, and what that one has
// said of the whole session stays before what this one says. It returns the payload itself if nothing changes. It takes notice of a message
// that does not pass.
func (t *Tracker) rewrite(op frame.Opcode, f found, payload []byte, final, passes bool) []byte {
	payload = t.edit(op, f, payload, final, passes)
	if op != frame.Text {
		return payload
	}
	if t.program.list != nil && passes {
		payload = t.prepend(payload)
	}
	return payload
}

// roundedTime is how far apart a time may be in two sessions of which one was shifted: it is shifted by whole microseconds, and servers count in
// floats of 32 bits, which have no more digits than that after an hour.
const roundedTime = time.Millisecond

// SameTime reports whether a and b, which stand at a path with [] for the items of arrays, are one time that the proxy shifts.
func (f *Failover) SameTime(path, a, b string) bool {
	return slices.ContainsFunc(f.shift, func(t timeSpec) bool {
		one, isTime := parseTime([]byte(a), t.unit)
		other, too := parseTime([]byte(b), t.unit)
		return t.path.String() == path && isTime && too && time.Duration(max(one-other, other-one)) <= roundedTime
	})
}

// edit shifts times and numbers. In MessagePack, it shifts times.
func (t *Tracker) edit(op frame.Opcode, f found, payload []byte, final, passes bool) []byte {
	p := t.program
	packed := op == frame.Binary
	if p.edits == nil || packed && p.fromServer.packed == nil {
		return payload
	}
	shift := t.format.lastsFor(t.zero-t.base, 1e6)
	var live uint64
	for i := range p.shift {
		if shift != 0 && (p.timed[i] == 0 || f.class&p.timed[i] != 0) {
			live |= 1 << i
		}
	}
	for i := range t.numbers {
		if !packed && (t.numbers[i].offset != 0 || final) {
			live |= 1 << (len(p.shift) + i)
		}
	}
	if live == 0 {
		return payload
	}
	read := collect
	if packed {
		read = collectPacked
	}
	hits, ok := read(t.hits[:0], payload, p.edits, live)
	t.keepHits(hits)
	if !ok || len(hits) == 0 {
		return payload
	}
	out, copied := t.out[:0], 0
	for _, h := range hits {
		if h.from < copied || h.kind != hitText && h.kind != hitNumber {
			continue
		}
		text := payload[h.from:h.to]
		before := len(out)
		out = append(out, payload[copied:h.from]...)
		changed := false
		switch i := int(h.path) - len(p.shift); {
		case packed && h.kind == hitNumber:
			out, changed = shiftPacked(out, text, p.shift[h.path].unit, shift)
		case packed: // a text with a length before it
		case i < 0:
			out, changed = shiftTime(out, text, p.shift[h.path].unit, shift, h.kind == hitText)
		default:
			out, changed = t.numbers[i].renumber(out, text, final && f.class&isUncounted(i) == 0, passes)
		}
		if !changed {
			out = out[:before]
			continue
		}
		copied = h.to
	}
	t.out = out
	if copied == 0 {
		return payload
	}
	t.out = append(out, payload[copied:]...)
	return t.out
}

// renumber appends a number as the client gets it, and counts on from a final's, if the message is one that counts.
func (n *numbering) renumber(dst, text []byte, final, passes bool) ([]byte, bool) {
	number, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || number > math.MaxInt64/2 || number < math.MinInt64/2 {
		return dst, false
	}
	switch {
	case final && !passes: // the client does not see it, so the next one gets its number
		n.offset = n.next - (number + 1)
		return dst, false
	case final:
		n.next = max(n.next, number+n.offset+1)
	}
	if n.offset == 0 {
		return dst, false
	}
	return strconv.AppendInt(dst, number+n.offset, 10), true
}

// itemList holds the items of a list, or a text, as JSON.
type itemList struct {
	text []byte
	ends []int // of each item in text, without the comma behind it
}

// maxPrepended is how many bytes of the whole state a tracker keeps.
const maxPrepended = 256 << 10

// set makes the list equal to another.
func (l *itemList) set(other *itemList) {
	l.text, l.ends = append(l.text[:0], other.text...), append(l.ends[:0], other.ends...)
}

// reset empties the list.
func (l *itemList) reset() { l.text, l.ends = l.text[:0], l.ends[:0] }

// add adds an item.
func (l *itemList) add(item []byte) {
	l.text = append(l.text, item...)
	l.ends = append(l.ends, len(l.text))
}

// item returns the i-th item.
func (l *itemList) item(i int) []byte {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.text[from:l.ends[i]]
}

// prepend puts former servers' final results before what this one says, and remembers what is final of both.
func (t *Tracker) prepend(payload []byte) []byte {
	p := t.program
	hits, ok := collect(t.hits[:0], payload, p.list, 1)
	t.keepHits(hits)
	if !ok || len(hits) != 1 {
		return payload
	}
	h := hits[0]
	if h.kind == hitText {
		return t.prependText(payload, h)
	}
	if h.kind != hitList {
		return payload
	}
	kept, total := len(t.kept.ends), 0
	t.latest.reset()
	for range listItems(payload[h.from:h.to]) {
		total++
	}
	// The oldest are left out if there are too many.
	skip := 0
	if most := p.Failover.prepend.most; most > 0 {
		skip = max(0, kept+total-most)
	}
	out := append(t.second[:0], payload[:h.from+1]...)
	for i := range kept {
		if i < skip {
			continue
		}
		item := t.kept.item(i)
		out = appendItem(out, item)
		t.latest.add(item)
	}
	i := kept
	for item := range listItems(payload[h.from:h.to]) {
		if i++; i <= skip {
			continue
		}
		out = appendItem(out, item)
		if p.items == nil || p.items.holds(item) {
			t.latest.add(item)
		}
	}
	if len(t.latest.text) > maxPrepended {
		t.giveUp("the server's list of results became too long to keep")
		t.latest.reset()
	}
	t.second = out
	if kept == 0 {
		return payload
	}
	t.second = append(out, payload[h.to-1:]...)
	return t.second
}

// appendItem appends an item of a list.
func appendItem(dst, item []byte) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return append(dst, item...)
}

// listItems returns the items of a valid JSON array.
func listItems(list []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		s := jsonScanner{b: list, pos: 1}
		for more := true; more; {
			s.space()
			if s.pos == len(list) || list[s.pos] == ']' {
				return
			}
			from := s.pos
			if !s.value(0, 1) || !yield(bytes.TrimSpace(list[from:s.pos])) {
				return
			}
			more, _ = s.separator(']')
		}
	}
}

// prependText does what prepend does with a text.
func (t *Tracker) prependText(payload []byte, h hit) []byte {
	out := append(t.second[:0], payload[:h.from]...)
	out = append(out, t.kept.text...)
	out = append(out, payload[h.from:]...)
	t.second = out
	t.latest.reset()
	if h.to-h.from+len(t.kept.text) > maxPrepended {
		t.giveUp("the server's text became too long to keep")
		return out
	}
	t.latest.add(out[h.from : h.to+len(t.kept.text)])
	if len(t.kept.text) == 0 {
		return payload
	}
	return out
}
