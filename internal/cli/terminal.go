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
