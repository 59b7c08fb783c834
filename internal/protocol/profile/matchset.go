package profile

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const allMessages frame.Kinds = 1<<frame.Text | 1<<frame.Binary

// class is a set of the roles that a profile can give a message. failoverroles.go has those that concern failover.
type class uint64

// The roles of messages from the server, then those of messages from a client.
const (
	isGreeting class = 1 << iota
	isReady
	isBusy
	isUntil  // the acknowledgement of a reset
	isAlive  // the answer to a keepalive message
	isDone   // the last message of a task; also the client's own
	isFailed // the task failed, and the connection cannot be reused
	isTagged // a message that contains a tag
	isLast   // the last message of a session that was ended in order

	isEnd
	isSticky
	isUnanswered
	isCounted // its answer looks like the acknowledgement of a reset
	isStart   // the first message of a task, with its tag
	isStray   // a binary message, where clients send none

	isNaming // it has an id, see Affinity
)

// matchSet finds the roles of the messages of one direction. It scans a message once for all matchers.
type matchSet struct {
	alternatives []alternative
	program      *jsonProgram
	packed       *jsonProgram

	// By opcode: the roles that a message of that kind can have, and the longest payload in bytes that match may need.
	can   [3]class
	limit [3]int
}

// alternative is one compiled matcher.
type alternative struct {
	matcher
	class  class
	needle []byte // the text that the message must contain
	needed uint64 // the conditions of the program that must be true; of packed for MessagePack
}

// use is a list of matchers and the role of a message that matches one of them.
type use struct {
	matchers []matcher
	class    class
}

// newMatchSet compiles all matchers into one set. It inspects texts of up to limit bytes. With capture, match returns the text at that
// path in JSON messages as the tag.
func newMatchSet(limit int, capture jsonPath, uses ...use) *matchSet {
	s := &matchSet{}
	var conditions, packed []condition
	see := func(op frame.Opcode, c class, length int) {
		s.can[op] |= c
		s.limit[op] = max(s.limit[op], length)
	}
	for _, u := range uses {
		for _, m := range u.matchers {
			a := alternative{matcher: m, class: u.class, needle: []byte(m.contains)}
			switch {
			case m.text != nil:
				length := len(*m.text)
				if strings.Contains(*m.text, tokenMark) {
					length += tokenSize - len(tokenMark)
				}
				see(frame.Text, u.class, length)
			case m.contains != "":
				see(frame.Text, u.class, limit)
			case m.packed:
				packed, a.needed = need(packed, m.json)
				see(frame.Binary, u.class, limit)
			case m.json != nil:
				conditions, a.needed = need(conditions, m.json)
				see(frame.Text, u.class, limit)
			case m.binary != nil:
				see(frame.Binary, u.class, len(*m.binary))
			case m.opcode != 0:
				see(m.opcode, u.class, 0)
			default: // a refusal, which is no message
				continue
			}
			s.alternatives = append(s.alternatives, a)
		}
	}
	if capture != nil {
		conditions = append(conditions, condition{path: capture})
		see(frame.Text, isTagged, limit)
	}
	if len(conditions) > 0 {
		s.program = newJSONProgram(conditions, capture != nil)
	}
	if len(packed) > 0 {
		s.packed = newJSONProgram(packed, false)
	}
	return s
}

// need returns all conditions of a program with those of one more matcher, and which of them that matcher needs.
func need(all, wanted []condition) (_ []condition, needed uint64) {
	for _, c := range wanted {
		i := indexOfCondition(all, c)
		if i < 0 {
			i = len(all)
			all = append(all, c)
		}
		needed |= 1 << i
	}
	return all, needed
}

// indexOfCondition returns the index of an equal condition, or -1.
func indexOfCondition(list []condition, c condition) int {
	return slices.IndexFunc(list, func(other condition) bool {
		return other.kind == c.kind && other.text == c.text && slices.Equal(other.path, c.path)
	})
}

// kinds returns the kinds of messages that can have one of the wanted roles.
func (s *matchSet) kinds(wanted class) (k frame.Kinds) {
	for _, op := range []frame.Opcode{frame.Text, frame.Binary} {
		if s.can[op]&wanted != 0 {
			k |= 1 << op
		}
	}
	return k
}

// found holds what matchers found in a message.
type found struct {
	class  class
	doubt  class  // roles that it may have as well, because it is invalid JSON, has a duplicate key or is too long
	tag    []byte // what it stands for, without escapes, of at most maxTag bytes; nil for none
	name   []byte // the tag as it is written; points into the message
	length int    // of the message, in bytes
}

// tooLong returns what is known about a message that is too long to inspect.
func (s *matchSet) tooLong(op frame.Opcode) (f found) {
	for i := range s.alternatives {
		switch a := &s.alternatives[i]; {
		case a.opcode == op:
			f.class |= a.class
		case op == frame.Text && (a.json != nil && !a.packed || a.contains != ""), op == frame.Binary && a.packed:
			f.doubt |= a.class
		}
	}
	f.doubt &^= f.class
	return f
}

// match finds the roles of a whole message.
func (s *matchSet) match(op frame.Opcode, payload []byte, token uint64) (f found) {
	f.length = len(payload)
	var scanner jsonScanner
	valid := false
	var matched, ambiguous uint64 // of MessagePack
	switch {
	case op == frame.Text && s.program != nil:
		scanner = jsonScanner{b: payload, program: s.program, digits: tokenDigits(token)}
		valid = scanner.scan()
	case op == frame.Binary && s.packed != nil:
		matched, ambiguous = matchPacked(payload, s.packed)
	}
	for i := range s.alternatives {
		a := &s.alternatives[i]
		is := false
		switch {
		case a.opcode != 0:
			is = a.opcode == op
		case a.binary != nil:
			is = op == frame.Binary && string(payload) == *a.binary
		case a.packed: // a binary message that is not MessagePack is none of these
			is = op == frame.Binary && a.needed&^matched == 0
			if op == frame.Binary && a.needed&ambiguous != 0 {
				is, f.doubt = false, f.doubt|a.class
			}
		case op != frame.Text:
		case a.text != nil:
			is = equalWithToken(payload, *a.text, token)
		case a.contains != "":
			is = bytes.Contains(payload, a.needle)
		case !valid || a.needed&scanner.ambiguous != 0:
			f.doubt |= a.class
		default:
			is = a.needed&^scanner.matched == 0
		}
		if is {
			f.class |= a.class
		}
	}
	if valid && scanner.captureFrom >= 0 && scanner.ambiguous>>s.program.capture&1 == 0 {
		if f.tag, f.name = readTag(payload[scanner.captureFrom:scanner.captureTo], scanner.captureEscaped); f.tag != nil {
			f.class |= isTagged
		}
	}
	f.doubt &^= f.class
	return f
}

// readTag returns what a tag stands for that is written so in JSON, and how it is written, or nothing if it is too long or has half a surrogate pair,
// which stands for no character.
func readTag(name []byte, escaped bool) (tag, _ []byte) {
	if escaped && len(name) <= maxTag {
		tag = []byte(unescaped(name, true))
		if bytes.ContainsRune(tag, utf8.RuneError) {
			return nil, nil
		}
		return tag, name
	}
	if len(name) > maxTag {
		return nil, nil
	}
	return name, name
}

// equalWithToken compares a payload with a text that may contain tokenMark in place of the token.
func equalWithToken(payload []byte, want string, token uint64) bool {
	before, after, marked := strings.Cut(want, tokenMark)
	if !marked {
		return string(payload) == want
	}
	digits := tokenDigits(token)
	return len(payload) == len(before)+tokenSize+len(after) && string(payload[:len(before)]) == before &&
		[tokenSize]byte(payload[len(before):len(before)+tokenSize]) == digits && string(payload[len(before)+tokenSize:]) == after
}
