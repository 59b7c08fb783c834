package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// headerHelp says how flags for headers are used.
const headerHelp = "NAME=VALUE, whose last word may be env:NAME or file:/path (repeat for several)"

// errHeader: the text may be a secret, and is not shown.
var errHeader = errors.New("invalid value: use NAME=VALUE")

// oldHeader is the warning about a header that was given as HTTP writes it.
const oldHeader = `the form "Name: value" is deprecated: use NAME=VALUE`

// headerPair returns the name and the value of a header, which is given as NAME=VALUE, or as HTTP writes it (old).
func headerPair(text string) (name, value string, old bool, err error) {
	i := strings.IndexAny(text, "=:")
	if i < 1 {
		return "", "", false, errHeader
	}
	name, value, old = text[:i], text[i+1:], text[i] == ':'
	if old {
		value = strings.Trim(value, " \t")
	}
	return name, value, old, nil
}

// headerForm is how the headers of a flag were given.
type headerForm struct {
	old bool // one was given as HTTP writes it
}

// oldForm returns the warning about how the flag was used; empty for none.
func (h *headerForm) oldForm() string {
	if h.old {
		return oldHeader
	}
	return ""
}

// headerFlag is a flag for headers that a command sends.
type headerFlag struct {
	headerForm
	fields []headerField
}

// headerField is a header: its value without references to secrets, and as it was given.
type headerField struct{ name, value, given string }

// Set implements [pflag.Value].
func (h *headerFlag) Set(text string) error {
	name, value, old, err := headerPair(text)
	if err != nil {
		return err
	}
	given := value
	if !old { // in the old form of bench, values were taken as they are
		if value, err = secret.Resolve(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	h.fields, h.old = append(h.fields, headerField{name, value, given}), h.old || old
	return nil
}

// String implements [pflag.Value]. It shows no secrets.
func (h *headerFlag) String() string { return "" }

// Type implements [pflag.Value].
func (h *headerFlag) Type() string { return "name=value" }
