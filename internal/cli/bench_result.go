package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/load"
)

// benchJSON is a load's result as the bench command prints it. Field names are part of the command's interface.
type benchJSON struct {
	Connections       int              `json:"connections"`
	Connected         int              `json:"connected"`
	ConnectFailures   int              `json:"connect_failures"`
	DurationSeconds   float64          `json:"duration_seconds"`
	Sent              int64            `json:"sent"`
	Received          int64            `json:"received"`
	MessagesPerSecond float64          `json:"messages_per_second"`
	Unsent            int64            `json:"unsent"`
	Lost              int64            `json:"lost"`
	Mixed             int64            `json:"mixed"`
	Failed            int64            `json:"failed"`
	Latency           benchTimes       `json:"latency_ms"`
	Connect           benchTimes       `json:"connect_ms"`
	FirstEcho         benchTimes       `json:"first_echo_ms"`
	Errors            map[string]int64 `json:"errors"`
	*benchAudioJSON
}

// benchAudioJSON is what the result of a load of audio has besides.
type benchAudioJSON struct {
	Partials int64 `json:"partials"`
	Finals   int64 `json:"finals"`
	Sessions int64 `json:"sessions"`
}

// benchTimes are quantiles in milliseconds.
type benchTimes struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

func newBenchTimes(t load.Times) benchTimes {
	return benchTimes{
		P50:  inMilliseconds(t.Quantile(0.5)),
		P90:  inMilliseconds(t.Quantile(0.9)),
		P99:  inMilliseconds(t.Quantile(0.99)),
		P999: inMilliseconds(t.Quantile(0.999)),
		Max:  inMilliseconds(t.Max()),
	}
}

func printBenchJSON(out io.Writer, r *load.Result) error {
	result := benchJSON{
		Connections:       r.Connections,
		Connected:         r.Connected,
		ConnectFailures:   r.ConnectFailures,
		DurationSeconds:   r.Duration.Seconds(),
		Sent:              r.Sent,
		Received:          r.Received,
		MessagesPerSecond: r.MessagesPerSecond,
		Unsent:            r.Unsent,
		Lost:              r.Lost,
		Mixed:             r.Mixed,
		Failed:            r.Failed,
		Latency:           newBenchTimes(r.Latency),
		Connect:           newBenchTimes(r.Connect),
		FirstEcho:         newBenchTimes(r.FirstEcho),
		Errors:            r.Errors,
	}
	if r.Partials+r.Finals > 0 {
		result.benchAudioJSON = &benchAudioJSON{Partials: r.Partials, Finals: r.Finals, Sessions: r.Complete}
	}
	return json.NewEncoder(out).Encode(result)
}

func printBenchTable(out io.Writer, r *load.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "connections\t%d of %d", r.Connected, r.Connections)
	if r.ConnectFailures > 0 {
		fmt.Fprintf(w, ", %d could not connect", r.ConnectFailures)
	}
	fmt.Fprintf(w, "\nduration\t%s\n", r.Duration.Round(time.Millisecond))
	fmt.Fprintf(w, "messages\t%d sent, %d received, %.0f per second\n", r.Sent, r.Received, r.MessagesPerSecond)
	if r.Partials+r.Finals > 0 {
		fmt.Fprintf(w, "speech\t%d sessions complete, %d partial and %d final answers\n", r.Complete, r.Partials, r.Finals)
	}
	if r.Unsent > 0 {
		fmt.Fprintf(w, "unsent\t%d were due, but could not be sent in time: the load was too high\n", r.Unsent)
	}
	fmt.Fprintf(w, "wrong\t%d lost, %d mixed up, %d connections failed\n", r.Lost, r.Mixed, r.Failed)
	if r.Connected > 0 {
		fmt.Fprintf(w, "\nmilliseconds\tp50\tp90\tp99\tp99.9\tmax\n")
	}
	for _, row := range []struct {
		name  string
		times load.Times
	}{{"latency", r.Latency}, {"connect", r.Connect}, {"first echo", r.FirstEcho}} {
		if row.times.Count() == 0 {
			continue
		}
		t := newBenchTimes(row.times)
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", row.name, t.P50, t.P90, t.P99, t.P999, t.Max)
	}
	if len(r.Errors) > 0 {
		fmt.Fprintf(w, "\nwhat went wrong\n")
		for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
			fmt.Fprintf(w, "%s\t%d\n", kind, r.Errors[kind])
		}
	}
	return w.Flush()
}
