// Package report writes down what a load has shown: as a table for people, as JSON for programs, as a time series, and as
// one HTML file with plots.
//
// All of it is made of a [Report], which is static once filled in; its methods may be called by several goroutines. A [Chart]
// compares several loads.
package report

import (
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// Report is what is known of a run.
type Report struct {
	// Version is that of the program.
	Version string
	// Started is when the run began.
	Started time.Time
	// Options are those of the run, as they were given.
	Options load.Options
	// Result is what the run has shown.
	Result *load.Result
	// Verdicts are those of the thresholds, in the order in which they were given.
	Verdicts []load.Verdict
	// Trouble is what is wrong with the result, by the thresholds or without them; nil for nothing.
	Trouble error
}

// setting is an option of the run by the name of its flag.
type setting struct {
	Name  string
	Value any // a string, a number or a truth value
}

// settings returns the options that matter for the kind of load, without what may be secret.
func (r *Report) settings() []setting {
	o := &r.Options
	duration := func(d time.Duration) string { return d.String() }
	all := []setting{{"connections", o.Connections}, {"duration", duration(o.Duration)}, {"ramp", duration(o.Ramp)}}
	add := func(when bool, name string, value any) {
		if when {
			all = append(all, setting{name, value})
		}
	}
	audio := o.Audio != nil
	kind := "binary"
	if o.Text {
		kind = "text"
	}
	add(!audio, "rate", o.Rate)
	add(!audio, "size", o.Size)
	add(!audio, kind, true)
	add(o.Unicode, "unicode", true)
	add(!audio && o.Window > 0, "window", o.Window)
	add(o.SessionLength > 0, "session-length", duration(o.SessionLength))
	add(o.NoJitter, "no-jitter", true)
	if audio {
		seconds := time.Duration(len(o.Audio.PCM)/2) * time.Second / time.Duration(o.Audio.SampleRate)
		add(true, "audio", seconds.Round(time.Millisecond).String())
		add(true, "chunk", duration(o.Chunk))
		add(o.Config != "", "config", o.Config)
	}
	add(o.DialParallel > 0, "dial-parallel", o.DialParallel)
	add(true, "connect-timeout", duration(o.ConnectTimeout))
	add(true, "drain", duration(o.Drain))
	add(o.Tick > 0, "tick", duration(o.Tick))
	add(o.Loops > 0, "loops", o.Loops)
	add(o.Subprotocol != "", "subprotocol", o.Subprotocol)
	var names []string
	for _, field := range o.Header { // values are often secrets
		name, _, _ := strings.Cut(field, ":")
		names = append(names, name)
	}
	add(len(names) > 0, "header", strings.Join(names, ", "))
	return all
}

// churns reports whether clients had one session after another.
func (r *Report) churns() bool { return r.Options.SessionLength > 0 || r.Options.Audio != nil }

// row is a line of a table of times.
type row struct {
	Name  string
	Times load.Times
}

// times returns the distributions that hold anything.
func (r *Report) times() []row {
	f := &r.Result.Figures
	return measured(
		row{"latency", f.Latency},
		row{"connect", f.Connect},
		row{"first echo", f.FirstEcho},
		row{"connect again", f.ConnectAgain},
		row{"first echo again", f.ReplyAgain},
		row{"end of audio to final", f.Final},
	)
}

func measured(rows ...row) (all []row) {
	for _, r := range rows {
		if r.Times.Count() > 0 {
			all = append(all, r)
		}
	}
	return all
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
