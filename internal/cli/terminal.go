package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether what is written to w is shown on a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalSize returns the size of the terminal that w writes to: 80 x 24 if it is unknown.
func terminalSize(w io.Writer) (columns, lines int) {
	if file, ok := w.(*os.File); ok {
		if columns, lines, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 && lines > 0 {
			return columns, lines
		}
	}
	return 80, 24
}

// painted is a writer that says itself whether it takes colours: for a buffer that ends up on a terminal.
type painted struct {
	io.Writer
	colours bool
}

// colours reports whether what is written to w may have colours: only on a terminal, and never if the user wants none
// (https://no-color.org).
func colours(w io.Writer) bool {
	if p, ok := w.(painted); ok {
		return p.colours
	}
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Colours, as the terminal's own theme defines them.
const (
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	plain  = "\x1b[0m"
)

// paint returns a text in a colour; an empty colour leaves it as it is.
func paint(colour, text string) string {
	if colour == "" || text == "" {
		return text
	}
	return colour + text + plain
}
