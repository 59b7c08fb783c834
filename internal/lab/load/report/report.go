// Package report writes down what a load has shown: as a table for people, as JSON for programs, as a time series, and as
// one HTML file with plots.
//
// All of it is made of a [Report], which is static once filled in; its methods may be called by several goroutines. A [Chart]
// compares several loads.
package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
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
	// Audio are the settings of a load with audio, which has no others of messages.
	Audio []Setting
	// Result is what the run has shown.
	Result *load.Result
	// Verdicts are those of the thresholds, in the order in which they were given.
	Verdicts []load.Verdict
	// Trouble is what is wrong with the result, by the thresholds or without them; nil for nothing.
	Trouble error
}

// Setting is an option of the run by the name of its flag.
type Setting struct {
	Name  string
	Value any // a string, a number or a truth value
}

// settings returns the options that matter for the kind of load, without what may be secret.
func (r *Report) settings() []Setting {
	o := &r.Options
	duration := func(d time.Duration) string { return d.String() }
	all := []Setting{{"connections", o.Connections}, {"duration", duration(o.Duration)}, {"ramp", duration(o.Ramp)}}
	add := func(when bool, name string, value any) {
		if when {
			all = append(all, Setting{name, value})
		}
	}
	audio := r.audio()
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
	all = append(all, r.Audio...)
	add(o.DialParallel > 0, "dial-parallel", o.DialParallel)
	add(true, "connect-timeout", duration(o.ConnectTimeout))
	add(true, "drain", duration(cmp.Or(o.Drain, load.DefaultDrain)))
	add(!audio && o.Tick > 0, "tick", duration(o.Tick))
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
func (r *Report) churns() bool { return r.Options.SessionLength > 0 || r.audio() }

// audio reports whether clients held sessions as a profile's clients do.
func (r *Report) audio() bool { return r.Result.Speech != nil }

// row is a line of a table of times.
type row struct {
	Name  string
	Times load.Times
}

// times returns the distributions that hold anything.
func (r *Report) times() []row {
	f := &r.Result.Figures
	if s := r.Result.Speech; s != nil {
		return measured(
			row{"lag", f.Latency},
			row{"first result", s.First},
			row{"partial result", s.Partial},
			row{"end of audio to last", s.Final},
			row{"connect", f.Connect},
			row{"connect again", f.ConnectAgain},
		)
	}
	return measured(
		row{"latency", f.Latency},
		row{"connect", f.Connect},
		row{"first echo", f.FirstEcho},
		row{"connect again", f.ConnectAgain},
		row{"first echo again", f.ReplyAgain},
	)
}

func measured(rows ...row) []row {
	return slices.DeleteFunc(rows, func(r row) bool { return r.Times.Count() == 0 })
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Table writes the report as a table for people.
func (r *Report) Table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	r.summary(w)
	if rows := r.times(); len(rows) > 0 {
		fmt.Fprintf(w, "\nmilliseconds\tp50\tp90\tp99\tp99.9\tmax\n")
		for _, row := range rows {
			t := row.Times.Summary()
			fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", row.Name, t.P50, t.P90, t.P99, t.P999, t.Max)
		}
	}
	if len(r.Result.Targets) > 1 {
		fmt.Fprintf(w, "\ntarget\tconnected\treceived\tper second\tp50\tp99\tfailures\tlost\tmixed up\n")
		for _, t := range r.Result.Targets {
			fmt.Fprintf(w, "%s\t%d of %d\t%d\t%.0f\t%.2f\t%.2f\t%d\t%d\t%d\n", t.URL, t.Connected, t.Connections, t.Received, t.MessagesPerSecond,
				milliseconds(t.Latency.Quantile(0.5)), milliseconds(t.Latency.Quantile(0.99)), t.Failures(), t.Lost, t.Mixed)
		}
	}
	if f := &r.Result.Figures; len(f.Errors) > 0 {
		fmt.Fprintf(w, "\nwhat went wrong\n")
		for _, kind := range slices.Sorted(maps.Keys(f.Errors)) {
			fmt.Fprintf(w, "%s\t%d\n", kind, f.Errors[kind])
		}
	}
	if len(r.Verdicts) > 0 {
		fmt.Fprintf(w, "\nfail if\n")
		for _, v := range r.Verdicts {
			fmt.Fprintf(w, "%s\t%s\t%s\n", v.Threshold, v.Word(), v.Text())
		}
	}
	return w.Flush()
}

// summary writes what needs no table of its own.
func (r *Report) summary(w io.Writer) {
	for _, line := range r.lines() {
		fmt.Fprintf(w, "%s\t%s\n", line.Name, line.Text)
	}
}

// line is something that a report says, and what it is about.
type line struct{ Name, Text string }

// lines returns what the report says in words.
func (r *Report) lines() (all []line) {
	f, res := &r.Result.Figures, r.Result
	add := func(name, format string, args ...any) { all = append(all, line{name, fmt.Sprintf(format, args...)}) }
	if res.Interrupted {
		add("interrupted", "the run was ended before its time")
	}
	add("connections", "%s", connections(f))
	switch {
	case f.Connected > 0 && r.audio():
		add("connecting", "%s until the last was connected", short(f.AllConnected))
	case f.Connected > 0:
		add("connecting", "%s until the last was connected, %s until the last first echo", short(f.AllConnected), short(f.LastFirstEcho))
	}
	add("duration", "%s", res.Duration.Round(time.Millisecond))
	add("messages", "%d sent, %d received, %.0f per second", f.Sent, f.Received, f.MessagesPerSecond)
	if r.churns() {
		add("sessions", "%d complete, %.1f per second; of %d begun, %d could not connect, %d failed, %d ended with the run",
			f.Complete, f.SessionsPerSecond, f.Begun, int64(f.ConnectFailures)+f.Refused, f.Failed, f.Cut)
	}
	if s := res.Speech; s != nil {
		r.speechLines(s, add)
	}
	if f.Unsent > 0 {
		add("unsent", "%d were due, but could not be sent in time: the load was too high", f.Unsent)
	}
	wrong := fmt.Sprintf("%d lost, %d mixed up, %d connections failed", f.Lost, f.Mixed, f.Failed)
	if r.audio() {
		wrong = fmt.Sprintf("%d sessions failed", f.Failed)
	}
	if f.Abandoned > 0 {
		wrong += fmt.Sprintf(", with %d messages without an echo", f.Abandoned)
	}
	add("wrong", "%s", wrong)
	if len(f.CloseCodes) > 0 {
		text := ""
		for _, code := range slices.Sorted(maps.Keys(f.CloseCodes)) {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d with %s", f.CloseCodes[code], code)
		}
		add("closed", "%s", text)
	}
	return all
}

// tenths writes a number with one decimal, and never -0.0.
func tenths(v float64) string { return fmt.Sprintf("%.1f", math.Round(10*v)/10+0) }

// mostLate is how late clients may send audio without a word about it.
const mostLate = 100 * time.Millisecond

// speechLines adds what only a load with audio has.
func (r *Report) speechLines(s *load.Speech, add func(name, format string, args ...any)) {
	if s.Final.Count() > 0 && !slices.ContainsFunc(s.Texts, func(text string) bool { return text != "" }) {
		add("text", "no session had a final text")
	} else if n := s.Same + s.Other; n > 0 {
		add("text", "%d of %d as of a session alone; %.1f %% of the words alike", s.Same, n, 100*s.Alike)
	}
	if s.RealTime > 0 {
		add("real time", "sessions took %.3f times as long as their audio", s.RealTime)
	}
	if g := s.Growth; g.Sessions > 0 {
		add("lag", "known by %s; it grew by %s ms a second in a session (standard error %s)", s.Lag, tenths(1000*g.PerSecond), tenths(1000*g.Error))
	} else if s.Lag != "" {
		add("lag", "known by %s; too few sessions to tell whether it grew", s.Lag)
	}
	if late := s.Late.Quantile(0.99); late > mostLate {
		add("late", "the clients themselves sent audio up to %s late (p99): this machine is too busy to measure with", short(late))
	}
	if s.Full > 0 {
		add("full", "%d sessions were refused because the server was full", s.Full)
	}
}

// connections says how many clients connected, and what became of the others.
func connections(f *load.Figures) string {
	text := fmt.Sprintf("%d of %d", f.Connected, f.Connections)
	if f.ConnectFailures > 0 {
		text += fmt.Sprintf(", %d could not connect", f.ConnectFailures)
	}
	if n := f.Connections - f.Connected - f.ConnectFailures; n > 0 {
		text += fmt.Sprintf(", %d were still connecting or had not begun", n)
	}
	return text
}

// short rounds a duration to what people read.
func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
