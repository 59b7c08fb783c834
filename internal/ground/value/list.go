package value

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// List is a list of texts. Its canonical form is JSON. Texts without commas may also be written with commas between them.
type List struct {
	p     *[]string
	may   string
	check func(item string) error
	again func(item string) bool
}

// NewList returns the value for a list of texts that check accepts, each at most once. may describes the texts in words.
func NewList(p *[]string, may string, check func(item string) error) List {
	return List{p: p, may: may, check: check}
}

// Repeatable returns the same value for a list in which items may be repeated if again returns true for them.
func (v List) Repeatable(again func(item string) bool) List {
	v.again = again
	return v
}

// Allowed implements [Value].
func (v List) Allowed() string { return "a list of " + v.may }

// Text implements [Value]; it is empty for an empty list.
func (v List) Text() string {
	if len(*v.p) == 0 {
		return ""
	}
	return JSON(*v.p)
}

// Set implements [Value].
func (v List) Set(text string) error {
	var list []string
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return Invalid("list", text, `JSON such as ["a","b"], or a,b`)
		}
	} else if text != "" {
		list = strings.Split(text, ",")
	}
	for i, item := range list {
		if err := v.check(item); err != nil {
			return err
		}
		if slices.Contains(list[:i], item) && (v.again == nil || !v.again(item)) {
			return fmt.Errorf("%q is listed twice", item)
		}
	}
	*v.p = list
	return nil
}

// Map is a map of texts by name. Its canonical form is JSON. Values without commas may also be written as name=value,name=value.
type Map struct {
	p     *map[string]string
	may   string
	check func(key, value string) error
}

// NewMap returns the value for texts by name that check accepts. may describes them in words.
func NewMap(p *map[string]string, may string, check func(key, value string) error) Map {
	return Map{p, may, check}
}

// Allowed implements [Value].
func (v Map) Allowed() string { return v.may }

// Text implements [Value]; it is empty for an empty map.
func (v Map) Text() string {
	if len(*v.p) == 0 {
		return ""
	}
	return JSON(*v.p) // the keys are sorted
}

// Set implements [Value].
func (v Map) Set(text string) error {
	entries := make(map[string]string)
	switch {
	case strings.HasPrefix(text, "{"):
		if err := json.Unmarshal([]byte(text), &entries); err != nil {
			return v.invalid()
		}
	case text != "":
		for pair := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if _, twice := entries[key]; twice || !ok {
				return v.invalid()
			}
			entries[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if err := v.check(key, entries[key]); err != nil {
			return err
		}
	}
	*v.p = entries
	if len(entries) == 0 {
		*v.p = nil
	}
	return nil
}

// invalid returns the error for a text that is not a map. It does not repeat the text, which may hold secrets.
func (v Map) invalid() error {
	return fmt.Errorf(`invalid value: use %s, as name=value,name=value with each name once, or as JSON such as {"name":"value"}`, v.may)
}

// With returns the map's text with one entry set, or removed if it is empty.
func (v Map) With(key, text string) string {
	entries := maps.Clone(*v.p)
	if entries == nil {
		entries = make(map[string]string)
	}
	if entries[key] = text; text == "" {
		delete(entries, key)
	}
	return Map{p: &entries}.Text()
}

// JSON encodes a value as JSON, without escapes for HTML.
func JSON(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // texts can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
