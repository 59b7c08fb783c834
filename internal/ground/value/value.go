// Package value has the types of settings and of fields of the configuration. Each value is read from text and written as text,
// whichever file, database, variable or flag it comes from, and says in words what is allowed.
package value

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Value is one setting, or one field of an entity, as text.
type Value interface {
	// Text returns the value in its canonical form, which Set understands.
	Text() string
	// Set parses and checks a value. If that fails, the value stays as it was, and the error names the text and what is allowed.
	Set(text string) error
	// Allowed says in words what may be set.
	Allowed() string
}

// Invalid returns the error for an invalid value. what says what the value should be, and use says what to write instead:
// invalid duration "7": use a number with a unit, such as 10s or 2m.
func Invalid(what, text, use string) error {
	return fmt.Errorf("invalid %s %q: use %s", what, text, use)
}

// The kinds of values that hold several texts.
const (
	KindList = "stringArray"
	KindMap  = "map"
)

// Kind returns the kind of a value as flags name it, for help: string, int, float64, bool, size, duration, [KindList] or [KindMap].
func Kind(v Value) string {
	switch v.(type) {
	case count:
		return "int"
	case number:
		return "float64"
	case flag:
		return "bool"
	case size:
		return "size"
	case duration:
		return "duration"
	case List:
		return KindList
	case Map:
		return KindMap
	}
	return "string"
}

// NewText returns the value for a text that check accepts. may describes the text in words.
func NewText(p *string, may string, check func(text string) error) Value {
	return NewCanonical(p, may, func(text string) (string, error) { return text, check(text) })
}

// NewCanonical returns the value for a text that read accepts, in the form that read returns. may describes the text in words.
func NewCanonical(p *string, may string, read func(text string) (canonical string, err error)) Value {
	return text{p, may, read}
}

type text struct {
	p    *string
	may  string
	read func(text string) (string, error)
}

func (v text) Text() string    { return *v.p }
func (v text) Allowed() string { return v.may }

func (v text) Set(text string) error {
	text, err := v.read(text)
	if err == nil {
		*v.p = text
	}
	return err
}

// NewChoice returns the value for one of a few names. what says in words what they name.
func NewChoice(p *string, what string, names []string) Value { return choice{p, what, names} }

type choice struct {
	p     *string
	what  string
	names []string
}

func (v choice) Text() string    { return *v.p }
func (v choice) Allowed() string { return strings.Join(v.names, ", ") }

func (v choice) Set(text string) error {
	if !slices.Contains(v.names, text) {
		return spelling.Unknown(v.what, text, v.names)
	}
	*v.p = text
	return nil
}

// NewFlag returns the value for true or false.
func NewFlag(p *bool) Value { return flag{p} }

type flag struct{ p *bool }

func (v flag) Text() string    { return strconv.FormatBool(*v.p) }
func (v flag) Allowed() string { return "true, false" }

func (v flag) Set(text string) error {
	if text != "true" && text != "false" {
		return Invalid("value", text, "true or false")
	}
	*v.p = text == "true"
	return nil
}

// CheckAddress checks a host:port to listen on, whose port is a number.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return Invalid("address", address, "host:port, such as 127.0.0.1:8080")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Invalid("address", address, "a port from 0 to 65535")
	}
	return nil
}

// AnyPort reports whether a host:port lets the system choose the port. Such an address may be used more than once.
func AnyPort(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(port)
	return err == nil && n == 0
}
