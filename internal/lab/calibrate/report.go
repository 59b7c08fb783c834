package calibrate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
)

// Report is what a calibration has found, as JSON and for people.
type Report struct {
	URL         string    `json:"url"`
	Profile     string    `json:"profile"`
	Model       string    `json:"model,omitempty"`
	Version     string    `json:"version,omitempty"` // of the server, as it says itself in its handshake
	At          time.Time `json:"at"`
	Limits      Limits    `json:"limits"`
	Connections int       `json:"connections"` // the result; 0 for none
	AtMost      bool      `json:"at_most"`     // the limit given was reached: the server may take more
	Why         string    `json:"why,omitempty"`
	Steps       []Step    `json:"steps"`
}

// Table writes a line for each step.
func (r *Report) Table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "STEP\tSTREAMS\tFOR\tSESSIONS\tFAILED\tLAG P95\tGROWTH (MS/S)\tFIRST P95\tLAST P95\tSAME TEXT\t  VERDICT\t")
	for i, s := range r.Steps {
		m, text := s.Measured, "-"
		if m.Sessions > m.Failed && (m.Failed == 0 || m.SameText > 0) { // where sessions were refused before, none was compared
			text = fmt.Sprintf("%.0f %%", 100*m.SameText)
		}
		fmt.Fprintf(w, "%d\t%d\t%v\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t  %s\t\n", i+1, s.Streams, s.Length.Round(time.Second), m.Sessions, m.Failed,
			short(m.Lag), m.growth(), short(m.First), short(m.Final), text, s.Verdict)
	}
	return w.Flush()
}

func (m *Measured) growth() string {
	if m.SlopeError >= 1 {
		return "-"
	}
	return fmt.Sprintf("%+.1f ± %.1f", 1000*m.Slope, 1000*m.SlopeError)
}

// last returns the last step with each number of streams, ordered by the number.
func (r *Report) last() []Step {
	by := make(map[int]Step)
	for _, s := range r.Steps {
		by[s.Streams] = s
	}
	return slices.SortedFunc(maps.Values(by), func(a, b Step) int { return a.Streams - b.Streams })
}

// Bars writes a plot of lag by streams for a terminal. The limit is in its middle.
func (r *Report) Bars(out io.Writer) error {
	const half, most = 24, 48
	var b strings.Builder
	fmt.Fprintf(&b, "%9s  %-*s│ %s\n", "streams", half, "lag p95", short(r.Limits.Lag))
	for _, s := range r.last() {
		n := int(math.Round(half * s.Measured.Lag.Seconds() / r.Limits.Lag.Seconds()))
		bar := []rune(strings.Repeat("█", min(max(n, 1), most)))
		for len(bar) <= half {
			bar = append(bar, ' ')
		}
		if bar[half] == ' ' {
			bar[half] = '│'
		}
		mark := " "
		if s.Streams == r.Connections {
			mark = ">"
		}
		why := short(s.Measured.Lag)
		if s.Why != "" {
			why = s.Why
		}
		fmt.Fprintf(&b, "%s %7d  %s %s\n", mark, s.Streams, string(bar), why)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Verdict is the result in a sentence.
func (r *Report) Verdict() string {
	hold := "hold"
	if r.Connections == 1 {
		hold = "holds"
	}
	switch {
	case r.Connections == 0:
		return "No result: " + r.Why
	case r.AtMost:
		return fmt.Sprintf("%s %s the limits, as many as were tried: the server may take more.", figures.Plural(r.Connections, "stream"), hold)
	}
	return fmt.Sprintf("%s %s the limits, and %d do not.", figures.Plural(r.Connections, "stream"), hold, r.Connections+1)
}
