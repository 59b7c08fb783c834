package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// benchProgress shows on standard error how far a load has come: in one line that is written over again on a terminal,
// and else in a line now and then. A harness around the command can tell from lines of their own when the steady part
// of the load begins and when it ends ("steady", "done").
type benchProgress struct {
	out      io.Writer
	quiet    bool
	terminal bool
	interval time.Duration
	shown    bool // a line is on the terminal that the next one replaces
}

func newBenchProgress(out io.Writer, quiet bool) *benchProgress {
	p := &benchProgress{out: out, quiet: quiet, terminal: isTerminal(out), interval: 5 * time.Second}
	if p.terminal {
		p.interval = time.Second / 2
	}
	return p
}

// report shows the progress of a load.
func (p *benchProgress) report(now load.Progress) {
	switch {
	case now.Begins && (now.Phase == load.Steady || now.Phase == load.Done):
		p.clear()
		fmt.Fprintln(p.out, now.Phase)
	case p.quiet, now.Begins && !p.terminal:
	case p.terminal:
		p.clear()
		fmt.Fprint(p.out, benchLine(now))
		p.shown = true
	default:
		fmt.Fprintln(p.out, benchLine(now))
	}
}

// clear removes the line that is on the terminal.
func (p *benchProgress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func benchLine(p load.Progress) string {
	line := fmt.Sprintf("%4.0fs %s: %d/%d connected", p.Elapsed.Seconds(), p.Phase, p.Connected, p.Connections)
	if p.ConnectFailures > 0 {
		line += fmt.Sprintf(", %d attempts failed", p.ConnectFailures)
	}
	if p.Phase > load.Connecting {
		line += fmt.Sprintf(", %d sent, %d received, %.0f/s, p50 %s, p99 %s",
			p.Sent, p.Received, p.Rate, milliseconds(p.P50), milliseconds(p.P99))
	}
	if p.Sessions > 0 {
		line += fmt.Sprintf(", %d sessions", p.Sessions)
	}
	if p.Lost+p.Mixed+p.Failed > 0 {
		line += fmt.Sprintf(", %d lost, %d mixed, %d connections failed", p.Lost, p.Mixed, p.Failed)
	}
	return line
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2fms", float64(d)/float64(time.Millisecond))
}
