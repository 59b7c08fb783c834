package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// JSON returns an entity's fields for programs, in the order of [Fields]: those that are in values, or with the defaults all of
// them. Maps are objects, lists are arrays, and fields whose default is a number, true or false are such, as is the number of warm
// connections, which may also be "cap"; the others are texts.
func JSON(kind Kind, values Values, defaults bool) json.RawMessage {
	b := []byte{'{'}
	for _, f := range Fields(kind) {
		if _, ok := values[f.Name]; !ok && !defaults {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, `"`+f.Name+`":`...)
		b = append(b, f.json(values.or(f))...)
	}
	return append(b, '}')
}

// json returns the canonical text of a field as JSON.
func (f *Field) json(text string) string {
	switch {
	case f.IsMap && text == "":
		return "{}"
	case f.IsList && text == "":
		return "[]"
	case f.IsMap || f.IsList, isBare(text) && (isBare(f.Default) || f.Default == wholeCap):
		return text
	}
	return value.JSON(text)
}

// isBare reports whether a text is a number, true or false.
func isBare(text string) bool {
	if text == "" || text[0] == '{' || text[0] == '[' || text[0] == '"' || text == "null" {
		return false
	}
	return json.Valid([]byte(text))
}

// UnmarshalJSON implements [json.Unmarshaler]. It reads what JSON writes, and also numbers for texts; null is the default.
func (v *Values) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return errors.New("invalid fields: use a JSON object such as {\"connections\":32,\"labels\":{\"zone\":\"a\"}}")
	}
	*v = make(Values, len(raw))
	for name, field := range raw {
		var text string
		switch field[0] {
		case '"':
			if err := json.Unmarshal(field, &text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case '{', '[':
			var compact bytes.Buffer
			if err := json.Compact(&compact, field); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			text = compact.String()
		case 'n':
		default:
			text = string(field)
		}
		(*v)[name] = text
	}
	return nil
}
