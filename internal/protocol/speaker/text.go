package speaker

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Decode returns what a message of a server says: JSON in a text, MessagePack in a binary message. ok is false for anything else. Numbers are
// [json.Number].
func Decode(m Message) (value any, ok bool) {
	payload := m.Payload
	if m.Opcode == frame.Binary {
		var b bytes.Buffer
		if rest, err := msgp.UnmarshalAsJSON(&b, payload); err != nil || len(rest) > 0 {
			return nil, false
		}
		payload = b.Bytes()
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if d.Decode(&value) != nil || d.More() {
		return nil, false
	}
	return value, true
}

// Texts returns the texts that a message of the server has at the profile's paths, empty ones included.
func (r *Recording) Texts(m Message) []string { return r.script.TextsIn(m.Opcode, m.Payload) }

// Finals returns the messages that hold for good what a session has said, of those that were found to be final: the last one where
// each has the whole state, and the last message with a text where the profile does not say which are final.
func (r *Recording) Finals(final []Message, received []Received) []Message {
	if len(final) == 0 {
		for _, m := range slices.Backward(received) {
			if strings.TrimSpace(strings.Join(r.Texts(m.Message), "")) != "" {
				return []Message{m.Message}
			}
		}
	}
	if len(final) > 1 && r.profile.Failover().WholeState() { // the others are states on the way there, which depend on the server's pace
		return final[len(final)-1:]
	}
	return final
}

// Words returns the words of a text in lower case, without punctuation.
func Words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c) && c != '\''
	})
}

// Contains reports whether all words of a text follow one another in another one, whatever their case and punctuation.
func Contains(said, wanted string) bool {
	if len(Words(wanted)) == 0 {
		return true
	}
	return strings.Contains(" "+strings.Join(Words(said), " ")+" ", " "+strings.Join(Words(wanted), " ")+" ")
}
