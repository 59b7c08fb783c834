package profile

import (
	"bytes"
	"iter"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// maxConfiguration is the most bytes of configuration messages that a tracker keeps, each counted with a few bytes more.
const maxConfiguration = 64 << 10

// mergeLeast and mergePart bound the work that a client's configuration messages make, in bytes that are read to merge them: so much in any case, and so
// much for each byte of the messages. Each could otherwise have all that is kept read again.
const (
	mergeLeast = 4 << 20
	mergePart  = 16
)

const tooMuchConfiguration = "the client sent too many configuration messages"

// kept is a configuration message that another server gets.
type kept struct {
	spec    int // index in the profile's configure
	opcode  frame.Opcode
	replied bool // see Entry
	counted bool
	payload []byte
}

// keepConfiguration keeps a configuration message as entry i of the profile's configure says. The slice and the payloads are never changed
// in place, since a caller may be going over them.
func (t *Tracker) keepConfiguration(i int, op frame.Opcode, payload []byte, e *Entry) {
	if t.whole != "" {
		return
	}
	t.configured += len(payload)
	for j := range t.configuration {
		if t.merging += 64; t.configuration[j].spec == i && t.program.configure[i].resend == ResendMerged {
			t.merging += len(t.configuration[j].payload) + len(payload)
		}
	}
	if len(payload) > maxConfiguration || t.merging > mergeLeast+mergePart*t.configured { // merging it would take long
		t.giveUp(tooMuchConfiguration)
		return
	}
	m := kept{i, op, e.replied, e.counted, bytes.Clone(payload)}
	list := make([]kept, 0, len(t.configuration)+1)
	size, placed := 0, false
	for _, k := range t.configuration {
		if k.spec > i && !placed { // in the profile's order
			list, placed = append(list, m), true
		}
		if k.spec == i {
			switch resend := t.program.configure[i].resend; {
			case resend == ResendLast:
				continue
			case resend == ResendMerged:
				if merged, ok := mergeObjects(nil, k.payload, payload, 0); ok {
					m.payload = merged
				}
				continue
			}
		}
		list = append(list, k)
	}
	if !placed {
		list = append(list, m)
	}
	for _, k := range list {
		size += len(k.payload) + 64
	}
	if size > maxConfiguration {
		t.giveUp(tooMuchConfiguration)
		return
	}
	t.configuration = list
}

// Configuration returns the messages by which the client had configured its server when the present leg began: those of each kind in the
// order in which they came, and the kinds in the profile's order.
func (t *Tracker) Configuration() iter.Seq2[frame.Opcode, []byte] {
	list := t.resent
	return func(yield func(frame.Opcode, []byte) bool) {
		for _, k := range list {
			if !yield(k.opcode, k.payload) {
				return
			}
		}
	}
}

// member is a member of a JSON object: its key with quotes, its value, and the text that the key stands for.
type member struct {
	key, value []byte
	name       string
}

// members returns the members of a JSON object in their order. ok is false if the text is no valid object.
func members(text []byte) (list []member, ok bool) {
	s := jsonScanner{b: text}
	s.space()
	if s.pos == len(text) || text[s.pos] != '{' {
		return nil, false
	}
	for more := !s.enter('}'); more; {
		from, to, escaped, ok := s.member()
		if !ok {
			return nil, false
		}
		s.space()
		at := s.pos
		if !s.value(0, 1) {
			return nil, false
		}
		list = append(list, member{text[from-1 : to+1], text[at:s.pos], unescaped(text[from:to], escaped)})
		if more, ok = s.separator('}'); !more && !ok {
			return nil, false
		}
	}
	s.space()
	return list, s.pos == len(text)
}

// mergeObjects appends a JSON object that has the members of both, merged where both values are objects, and otherwise as they are in later.
// What is taken over is the text as it was. Of members of later with the same key, the last counts. The time grows with the length of both, not
// with their product. ok is false if one of them is no valid object.
func mergeObjects(dst, earlier, later []byte, depth int) (merged []byte, ok bool) {
	a, okA := members(earlier)
	b, okB := members(later)
	if !okA || !okB || depth > maxDepth {
		return dst, false
	}
	last := make(map[string]int, len(b))
	for i, m := range b {
		if before, ok := last[m.name]; ok {
			b[before].key = nil
		}
		last[m.name] = i
	}
	dst = append(dst, '{')
	for _, m := range a {
		i, ok := last[m.name]
		if ok && b[i].key == nil { // the key comes twice in earlier
			continue
		}
		if dst = appendMember(dst, m.key); !ok {
			dst = append(dst, m.value...)
			continue
		}
		b[i].key = nil
		both, ok := mergeObjects(dst, m.value, b[i].value, depth+1)
		if !ok {
			both = append(dst, b[i].value...)
		}
		dst = both
	}
	for _, m := range b {
		if m.key != nil {
			dst = append(appendMember(dst, m.key), m.value...)
		}
	}
	return append(dst, '}'), true
}

// appendMember appends the key of an object's next member.
func appendMember(dst, key []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(dst, key...), ':')
}
