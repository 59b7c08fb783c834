package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
)

// watcher draws the same screen again and again, in the same place. When it ends, the last one stays on the terminal.
type watcher struct {
	out      io.Writer
	size     func() (columns, lines int)
	colours  bool
	interval time.Duration
	title    string
	draw     func(out, messages io.Writer) error

	last []byte    // the last screen that could be drawn
	at   time.Time // when
}

// run draws until ctx ends, which is no error. It fails if the first screen cannot be drawn; later, a proxy that does not answer is
// said above the last screen, until it answers again.
func (w *watcher) run(ctx context.Context) error {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for first := true; ; first = false {
		var screen, messages bytes.Buffer
		err := w.draw(painted{&screen, w.colours}, &messages)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			w.last, w.at = screen.Bytes(), time.Now()
		case first || !errors.As(err, new(*client.UnreachableError)):
			return err
		default:
			fmt.Fprintf(&messages, "%v; this is from %s.\n", err, w.at.Format(time.TimeOnly))
		}
		head := fmt.Sprintf("%s, every %v: %s\n", w.title, w.interval, time.Now().Format(time.TimeOnly))
		start := ""
		if first {
			start = "\x1b[2J"
		}
		if _, err := io.WriteString(w.out, start+w.frame(head+messages.String()+string(w.last))); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// frame returns what draws a text over the one before: cut to the terminal, since a line that wraps or scrolls would shift the rest.
func (w *watcher) frame(text string) string {
	columns, height := w.size()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if most := height - 1; len(lines) > most && most > 1 { // the cursor takes the last line
		more := len(lines) - most + 1
		lines = append(lines[:most-1], fmt.Sprintf("... and %d more lines", more))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(ansi.Truncate(line, columns, "…"))
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
