package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
)

// tone is what a text means; it decides the colour.
type tone int

const (
	normal  tone = iota
	quiet        // less important
	strong       // a title
	good         // it works
	warning      // an operator should know
	bad          // it fails
	busy         // in use
	chosen       // the row under the cursor, the title of the pane that has the keyboard
)

// attributes are those of each tone without colours.
var attributes = map[tone]string{strong: "1", chosen: "7", bad: "1"}

// colours are those of the terminal's own theme.
var colours = map[tone]string{quiet: "90", strong: "1", good: "32", warning: "33", bad: "1;31", busy: "36", chosen: "7"}

// paint returns a text with its tone.
func (s Style) paint(t tone, text string) string {
	code := attributes[t]
	switch {
	case s.Plain:
		code = ""
	case s.Colours:
		code = colours[t]
	}
	if code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[m"
}

// fit returns a text with exactly this many columns. It may have colours.
func (s Style) fit(text string, width int, right bool) string {
	have := ansi.StringWidth(text)
	switch {
	case width <= 0:
		return ""
	case have > width:
		return ansi.Truncate(text, width, s.ellipsis(width))
	case right:
		return strings.Repeat(" ", width-have) + text
	}
	return text + strings.Repeat(" ", width-have)
}

func (s Style) ellipsis(width int) string {
	switch {
	case width < 4:
		return ""
	case s.ASCII:
		return "~"
	}
	return "…"
}

// elide returns a text of at most this many columns, without its middle if it is longer.
func (s Style) elide(text string, width int) string {
	mark := s.ellipsis(width)
	if ansi.StringWidth(text) <= width || mark == "" {
		return text
	}
	half := (width - 1) / 2
	return ansi.Truncate(text, half, "") + mark + ansi.TruncateLeft(text, ansi.StringWidth(text)-(width-1-half), "")
}

// longestText is how much of a text of the proxy's is shown at most, in bytes.
const longestText = 500

// plain returns a text of the proxy's as it may be shown.
func (s Style) plain(text string) string {
	text = printable.Text(text, longestText)
	if !s.ASCII {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r > 126 {
			return '?'
		}
		return r
	}, text)
}

// segment is a part of a bar.
type segment struct {
	n       int
	tone    tone
	letter  string
	inASCII string
}

// bar draws the connections of a backend: leased, resetting, idle, and being closed or dialed, against the cap. What there is at all
// has at least one column, as long as there is room.
func (s Style) bar(width, limit int, segments []segment) string {
	if width < 3 || limit <= 0 {
		return strings.Repeat(" ", max(0, width))
	}
	total := 0
	for _, g := range segments {
		total += g.n
	}
	limit = max(limit, total)
	var b strings.Builder
	used := 0
	for i, g := range segments {
		if g.n == 0 {
			continue
		}
		later := 0 // those that still need a column
		for _, next := range segments[i+1:] {
			if next.n > 0 {
				later++
			}
		}
		columns := max(1, (g.n*width+limit/2)/limit)
		columns = max(0, min(columns, width-used-later))
		letter := g.letter
		if s.ASCII {
			letter = g.inASCII
		}
		b.WriteString(s.paint(g.tone, strings.Repeat(letter, columns)))
		used += columns
	}
	rest := "·"
	if s.ASCII {
		rest = "."
	}
	b.WriteString(s.paint(quiet, strings.Repeat(rest, width-used)))
	return b.String()
}
