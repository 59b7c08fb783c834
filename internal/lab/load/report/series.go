package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

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
