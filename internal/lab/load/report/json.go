package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// schema is the version of the JSON object. It changes when a field goes or changes its meaning, not when one comes. All
// fields are described in docs/reference/bench.md.
const schema = 2

type document struct {
	Schema      int            `json:"schema"`
	Version     string         `json:"version"`
	Started     time.Time      `json:"started"`
	Settings    map[string]any `json:"settings"`
	Interrupted bool           `json:"interrupted"`
	Duration    float64        `json:"duration_seconds"`
	figures
	*load.Speech                // nil without audio
	Targets      []target       `json:"targets"`
	Thresholds   []load.Verdict `json:"thresholds"`
	Trouble      *string        `json:"trouble"`
	Series       []point        `json:"series"`
}

type target struct {
	URL string `json:"url"`
	figures
}

// figures are those of the whole run or of a target.
type figures struct {
	*load.Figures
	AllConnected  float64 `json:"all_connected_ms"`
	LastFirstEcho float64 `json:"last_first_echo_ms"`
}

func newFigures(f *load.Figures) figures {
	return figures{f, milliseconds(f.AllConnected), milliseconds(f.LastFirstEcho)}
}

// JSON writes the report as one JSON object in one line.
func (r *Report) JSON(w io.Writer) error {
	d := document{
		Schema:      schema,
		Version:     r.Version,
		Started:     r.Started.UTC().Truncate(time.Millisecond),
		Settings:    make(map[string]any),
		Interrupted: r.Result.Interrupted,
		Duration:    r.Result.Duration.Seconds(),
		figures:     newFigures(&r.Result.Figures),
		Speech:      r.Result.Speech,
		Targets:     []target{},
		Thresholds:  append([]load.Verdict{}, r.Verdicts...),
		Series:      points(r.Result.Series),
	}
	for _, s := range r.settings() {
		d.Settings[s.Name] = s.Value
	}
	for i := range r.Result.Targets {
		t := &r.Result.Targets[i]
		d.Targets = append(d.Targets, target{t.URL, newFigures(&t.Figures)})
	}
	if r.Trouble != nil {
		text := r.Trouble.Error()
		d.Trouble = &text
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // thresholds hold < and >
	return encoder.Encode(d)
}

// point is a point of the time series. The names of its fields are those of the columns, too.
type point struct {
	Start     float64 `json:"start_seconds"` // since clients began to connect
	End       float64 `json:"end_seconds"`
	Phase     string  `json:"phase"`
	Active    int64   `json:"active"`
	Connects  int64   `json:"connects"`
	Completed int64   `json:"sessions"`
	Failures  int64   `json:"failures"`
	Sent      int64   `json:"sent"`
	Received  int64   `json:"received"`
	Lost      int64   `json:"lost"`
	Mixed     int64   `json:"mixed"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
}

func points(series []load.Point) []point {
	all := make([]point, len(series))
	for i, p := range series {
		all[i] = point{
			Start: p.Start.Seconds(), End: p.End.Seconds(), Phase: p.Phase.String(), Active: p.Active,
			Connects: p.Connects, Completed: p.Completed, Failures: p.Failures,
			Sent: p.Sent, Received: p.Received, Lost: p.Lost, Mixed: p.Mixed,
			P50: milliseconds(p.P50), P90: milliseconds(p.P90), P99: milliseconds(p.P99), Max: milliseconds(p.Max),
		}
	}
	return all
}

// CheckSeriesName reports whether the name of a file for a time series says what format it is to have.
func CheckSeriesName(name string) error {
	if e := filepath.Ext(name); e != ".csv" && e != ".json" {
		return fmt.Errorf("%q: unknown format %q: use a name that ends with .csv or .json", name, e)
	}
	return nil
}

// Series writes the time series in the format that the name of its file asks for: CSV with a line of names, or a JSON
// array.
func (r *Report) Series(w io.Writer, name string) error {
	if err := CheckSeriesName(name); err != nil {
		return err
	}
	all := points(r.Result.Series)
	if filepath.Ext(name) == ".json" {
		return json.NewEncoder(w).Encode(all)
	}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "start_seconds,end_seconds,phase,active,connects,sessions,failures,sent,received,lost,mixed,p50_ms,p90_ms,p99_ms,max_ms")
	for _, p := range all {
		fmt.Fprintf(out, "%s,%s,%s,%d,%d,%d,%d,%d,%d,%d,%d,%s,%s,%s,%s\n", plain(p.Start), plain(p.End), p.Phase, p.Active,
			p.Connects, p.Completed, p.Failures, p.Sent, p.Received, p.Lost, p.Mixed, plain(p.P50), plain(p.P90), plain(p.P99), plain(p.Max))
	}
	return out.Flush()
}

// plain writes a number with at most six places and no exponent.
func plain(f float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', 6, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
