// Package printable makes text that came from outside (a path, a close reason, a server's answer) fit to be shown in a log or on a
// terminal: one line, of bounded length, without control characters. It does no I/O.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut marks the end of a text that was shortened.
const cut = "..."

// Text returns the text as one line of at most limit bytes, which must be at least 3. The replacement character U+FFFD takes the
// place of whatever is not valid UTF-8 or not printable: control characters, such as those that begin a terminal's escape sequences,
// line breaks of all kinds, and characters that change the direction of writing. A longer text is cut off, which "..." at its end
// shows. Text allocates nothing if there is nothing to change.
func Text(text string, limit int) string {
	if fits(text, limit) {
		return text
	}
	var b strings.Builder
	b.Grow(min(len(text), limit))
	whole := 0 // the longest beginning of the result, in bytes, that has room for the mark behind it
	for _, r := range text {
		if !unicode.IsPrint(r) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			return b.String()[:whole] + cut
		}
		b.WriteRune(r)
		if b.Len() <= limit-len(cut) {
			whole = b.Len()
		}
	}
	return b.String()
}

// fits reports whether Text has nothing to change.
func fits(text string, limit int) bool {
	if len(text) > limit {
		return false
	}
	for i, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return false
		}
	}
	return true
}
