package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is one field of one entity, as text. Every store, the command line and the history know fields as text.
type value interface {
	// text returns the value in its canonical form.
	text() string
	// set reads and checks a value; the error says what is allowed, and the field keeps its value.
	set(text string) error
	// allowed says in words what may be set.
	allowed() string
}

type textValue struct {
	p     *string
	may   string
	check func(text string) error
}

func (v textValue) text() string    { return *v.p }
func (v textValue) allowed() string { return v.may }

func (v textValue) set(text string) error {
	if err := v.check(text); err != nil {
		return err
	}
	*v.p = text
	return nil
}

// choiceValue is one of a few names.
type choiceValue struct {
	p     *string
	what  string
	names []string
}

func (v choiceValue) text() string    { return *v.p }
func (v choiceValue) allowed() string { return strings.Join(v.names, ", ") }

func (v choiceValue) set(text string) error {
	if !slices.Contains(v.names, text) {
		return fmt.Errorf("%s", Unknown(v.what, text, v.names))
	}
	*v.p = text
	return nil
}

// countValue is a whole number.
type countValue struct {
	p           *int
	least, most int
}

func (v countValue) text() string    { return strconv.Itoa(*v.p) }
func (v countValue) allowed() string { return fmt.Sprintf("%d to %d", v.least, v.most) }

func (v countValue) set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is not a whole number; allowed are %s", text, v.allowed())
	}
	if n < v.least || n > v.most {
		return fmt.Errorf("%d is not between %d and %d", n, v.least, v.most)
	}
	*v.p = n
	return nil
}

// warmValue is a number of connections, or the cap, which is negative.
type warmValue struct{ p *int }

// wholeCap is how people say that all connections of the cap are kept warm.
const wholeCap = "cap"

func (v warmValue) allowed() string { return "0 to the cap, or cap for all of it" }

func (v warmValue) text() string {
	if *v.p < 0 {
		return wholeCap
	}
	return strconv.Itoa(*v.p)
}

func (v warmValue) set(text string) error {
	if text == wholeCap {
		*v.p = -1
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of connections; allowed are whole numbers from %s", text, v.allowed())
	}
	*v.p = n
	return nil
}

// sizeValue is a number of bytes.
type sizeValue struct{ p *int64 }

func (v sizeValue) text() string    { return formatSize(*v.p) }
func (v sizeValue) allowed() string { return "sizes such as 4096, 512KiB or 16MiB" }

func (v sizeValue) set(text string) error {
	n, err := parseSize(text)
	if err != nil {
		return err
	}
	*v.p = n
	return nil
}

// durationValue is a time span.
type durationValue struct {
	p     *time.Duration
	least time.Duration
}

// maxDuration is the longest time span that is believed to be meant.
const maxDuration = 30 * 24 * time.Hour

func (v durationValue) text() string { return formatDuration(*v.p) }

func (v durationValue) allowed() string {
	return formatDuration(v.least) + " to " + formatDuration(maxDuration)
}

func (v durationValue) set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration; allowed are numbers with their unit, such as 500ms, 10s or 1m30s", text)
	}
	if d < v.least || d > maxDuration {
		return fmt.Errorf("%s is not between %s and %s", formatDuration(d), formatDuration(v.least), formatDuration(maxDuration))
	}
	*v.p = d
	return nil
}

// numberValue is a number with a fraction.
type numberValue struct {
	p    *float64
	most float64
}

func (v numberValue) text() string    { return strconv.FormatFloat(*v.p, 'g', -1, 64) }
func (v numberValue) allowed() string { return fmt.Sprintf("0 to %g", v.most) }

func (v numberValue) set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > v.most {
		return fmt.Errorf("%q is not a number between 0 and %g", text, v.most)
	}
	*v.p = n
	return nil
}

// flagValue is true or false.
type flagValue struct{ p *bool }

func (v flagValue) text() string    { return strconv.FormatBool(*v.p) }
func (v flagValue) allowed() string { return "true, false" }

func (v flagValue) set(text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("%q is not true or false", text)
	}
	*v.p = text == "true"
	return nil
}

// listValue is a list of texts. Its canonical form is JSON; texts without commas may also be given with commas between them.
type listValue struct {
	p     *[]string
	may   string
	check func(item string) error
}

func (v listValue) allowed() string { return "a list of " + v.may }

func (v listValue) text() string {
	if len(*v.p) == 0 {
		return ""
	}
	return marshal(*v.p)
}

func (v listValue) set(text string) error {
	var list []string
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return fmt.Errorf("%q is not %s; as JSON such as [\"a\",\"b\"], or a,b", text, v.allowed())
		}
	} else if text != "" {
		list = strings.Split(text, ",")
	}
	for i, item := range list {
		if err := v.check(item); err != nil {
			return err
		}
		if slices.Contains(list[:i], item) {
			return fmt.Errorf("%q is listed twice", item)
		}
	}
	*v.p = list
	return nil
}

// mapValue is texts by name. Its canonical form is JSON; values without commas may also be given as name=value,name=value.
type mapValue struct {
	p     *map[string]string
	may   string
	check func(key, value string) error
}

func (v mapValue) allowed() string { return v.may }

func (v mapValue) text() string {
	if len(*v.p) == 0 {
		return ""
	}
	return marshal(*v.p) // keys in order
}

func (v mapValue) set(text string) error {
	entries := make(map[string]string)
	switch {
	case strings.HasPrefix(text, "{"):
		if err := json.Unmarshal([]byte(text), &entries); err != nil { // values may be secrets: not shown
			return fmt.Errorf(`this is not a JSON object of texts; allowed are %s, as {"name":"value"} or name=value`, v.may)
		}
	case text != "":
		for pair := range strings.SplitSeq(text, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if _, twice := entries[key]; twice || !ok {
				return fmt.Errorf(`this is not name=value,name=value with each name once; allowed are %s, or as {"name":"value"}`, v.may)
			}
			entries[key] = value
		}
	}
	for _, key := range sortedKeys(entries) {
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

// with returns the map's text with one entry set, or removed if it is empty.
func (v mapValue) with(key, text string) string {
	entries := maps.Clone(*v.p)
	if entries == nil {
		entries = make(map[string]string)
	}
	if entries[key] = text; text == "" {
		delete(entries, key)
	}
	return mapValue{p: &entries}.text()
}

// marshal returns JSON without the escapes that are for HTML.
func marshal(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // texts can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
