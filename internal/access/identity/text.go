package identity

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxText is the longest name of a tenant or subject, in bytes.
const maxText = 256

// CheckText checks the name of a tenant or subject that another system has said: it is shown in logs, and each session keeps it. The error
// does not repeat it.
func CheckText(what, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("the %s is empty", what)
	case len(text) > maxText:
		return fmt.Errorf("the %s is longer than %d bytes", what, maxText)
	case !utf8.ValidString(text):
		return fmt.Errorf("the %s is not UTF-8", what)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the %s has characters that are not printable", what)
		}
	}
	return nil
}
