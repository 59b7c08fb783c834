package speaker

import (
	"bytes"
	"encoding/json"
	"strconv"
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
func (r *Recording) Texts(m Message) []string {
	value, ok := Decode(m)
	if !ok {
		return nil
	}
	var texts []string
	for _, path := range r.script.Texts {
		collect(value, strings.ReplaceAll(path, "[", ".["), func(found any) {
			if text, ok := found.(string); ok {
				texts = append(texts, text)
			}
		})
	}
	return texts
}

// collect calls found with each value at a path: keys, numbers of items in brackets, and [] for all items, with dots between them.
func collect(value any, path string, found func(any)) {
	if path == "" {
		found(value)
		return
	}
	step, rest, _ := strings.Cut(path, ".")
	list, isList := value.([]any)
	switch {
	case step == "[]" && isList:
		for _, item := range list {
			collect(item, rest, found)
		}
	case strings.HasPrefix(step, "[") && isList, isList:
		if i, err := strconv.Atoi(strings.Trim(step, "[]")); err == nil && i >= 0 && i < len(list) {
			collect(list[i], rest, found)
		}
	default:
		if object, ok := value.(map[string]any); ok {
			if below, ok := object[step]; ok {
				collect(below, rest, found)
			}
		}
	}
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
