package report

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// measuredRun returns a copy of the report of a short run, which is made once.
var measuredRun = func() func(t *testing.T) *Report {
	var kept *Report
	return func(t *testing.T) *Report {
		t.Helper()
		if kept == nil {
			kept = run(t)
		}
		r := *kept
		result := *kept.Result
		r.Result = &result
		return &r
	}
}()

func run(t *testing.T) *Report {
	t.Helper()
	server, err := sim.Start(sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	o := load.Options{
		URLs: []string{server.URL() + "/a", server.URL() + "/b"}, Connections: 4, Rate: 100, Size: 100, Text: true,
		Duration: 300 * time.Millisecond, SessionLength: 50 * time.Millisecond, Drain: 20 * time.Second,
		Header: []string{"Authorization: Bearer secret", "X-Y: z"}, SampleInterval: 50 * time.Millisecond,
	}
	result, err := load.Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Version: "v1.2.3", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Options: o, Result: result}
	var all []load.Threshold
	for _, text := range []string{"p99>1h", "sessions>0", "final-p50>1s"} {
		threshold, err := load.ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, threshold)
	}
	r.Verdicts, r.Trouble = result.Judge(all)
	return r
}

func written(t *testing.T, write func(*strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestJSONHasAllFigures(t *testing.T) {
	r := measuredRun(t)
	text := written(t, func(b *strings.Builder) error { return r.JSON(b) })
	var got struct {
		Schema     int
		Version    string
		Started    time.Time
		Settings   map[string]any
		Sent       int64
		Sessions   int64
		Latency    struct{ Count int64 } `json:"latency_ms"`
		CloseCodes map[string]int64      `json:"close_codes"`
		Targets    []struct {
			URL     string
			Sent    int64
			Latency map[string]float64 `json:"latency_ms"`
		}
		Thresholds []struct {
			Threshold, Unit  string
			Measured, Failed bool
			Value            float64
		}
		Trouble *string
		Series  []struct {
			End      float64 `json:"end_seconds"`
			Received int64
			Phase    string
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != schema || got.Version != "v1.2.3" || !got.Started.Equal(r.Started) || got.Sent != r.Result.Sent || got.Sessions != r.Result.Complete ||
		got.Latency.Count != r.Result.Latency.Count() || got.CloseCodes["1000"] == 0 || got.Trouble == nil {
		t.Errorf("%s", text)
	}
	if s := got.Settings; s["connections"] != 4.0 || s["rate"] != 100.0 || s["text"] != true || s["session-length"] != "50ms" || s["header"] != "Authorization, X-Y" {
		t.Errorf("settings %v", s)
	}
	if strings.Contains(text, "secret") {
		t.Error("the value of a header is told")
	}
	if len(got.Targets) != 2 || !strings.HasSuffix(got.Targets[1].URL, "/b") || got.Targets[0].Sent+got.Targets[1].Sent != got.Sent || got.Targets[0].Latency["p99.9"] <= 0 {
		t.Errorf("targets %+v", got.Targets)
	}
	if v := got.Thresholds; len(v) != 3 || v[0].Failed || v[0].Unit != "ms" || v[0].Value <= 0 || !v[1].Failed || v[2].Measured || !v[2].Failed {
		t.Errorf("thresholds %+v", v)
	}
	if !strings.Contains(text, `"p99>1h"`) {
		t.Error("thresholds are not written as they are")
	}
	received := int64(0)
	for _, p := range got.Series {
		received += p.Received
	}
	if received != r.Result.Received || got.Series[0].Phase == "" {
		t.Errorf("series %+v", got.Series)
	}
}

// Lists are lists and not null even when they are empty, so that programs need not tell the two apart.
func TestJSONOfNothing(t *testing.T) {
	r := &Report{Result: &load.Result{}}
	text := written(t, func(b *strings.Builder) error { return r.JSON(b) })
	for _, part := range []string{`"targets":[]`, `"thresholds":[]`, `"series":[]`, `"trouble":null`, `"latency_ms":{"count":0`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if strings.Contains(text, "partial_ms") {
		t.Error("there are partial results without audio")
	}
}

func TestSeries(t *testing.T) {
	r := &Report{Result: &load.Result{Series: []load.Point{
		{End: time.Second, Phase: load.Connecting, Active: 3, Connects: 3},
		{
			Start: time.Second, End: 2010 * time.Millisecond, Phase: load.Steady, Active: 2, Failures: 1, Completed: 4, Sent: 30, Received: 29, Lost: 5, Mixed: 6,
			P50: 1500 * time.Microsecond, P90: 2 * time.Millisecond, P99: 3 * time.Millisecond, Max: 4 * time.Millisecond,
		},
	}}}
	const want = `start_seconds,end_seconds,phase,active,connects,sessions,failures,sent,received,lost,mixed,p50_ms,p90_ms,p99_ms,max_ms
0,1,connecting,3,3,0,0,0,0,0,0,0,0,0,0
1,2.01,steady,2,0,4,1,30,29,5,6,1.5,2,3,4
`
	if got := written(t, func(b *strings.Builder) error { return r.Series(b, "x.csv") }); got != want {
		t.Errorf("got %s", got)
	}
	var points []map[string]any
	got := written(t, func(b *strings.Builder) error { return r.Series(b, "x.json") })
	if err := json.Unmarshal([]byte(got), &points); err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.SplitN(want, "\n", 2)[0], ",")
	if len(points) != 2 || len(points[1]) != len(names) || points[1]["p50_ms"] != 1.5 || points[1]["phase"] != "steady" {
		t.Errorf("%v", points)
	}
	for _, name := range names {
		if _, ok := points[0][name]; !ok {
			t.Errorf("no %s in JSON", name)
		}
	}
	if err := r.Series(new(strings.Builder), "x.txt"); err == nil || !strings.Contains(err.Error(), ".csv or .json") {
		t.Errorf("%v", err)
	}
}

func TestTable(t *testing.T) {
	r := measuredRun(t)
	r.Result.Interrupted, r.Result.Connections = true, 9
	r.Result.Abandoned, r.Result.Unsent, r.Result.ConnectFailures = 3, 2, 1
	r.Result.Errors = map[string]int64{"closed with 1011": 7}
	text := written(t, func(b *strings.Builder) error { return r.Table(b) })
	for _, part := range []string{
		"interrupted", "4 of 9, 1 could not connect, 4 were still connecting", "3 messages without an echo", "2 were due",
		"with 1000", "first echo again", "/a", "closed with 1011", "p99>1h", "nothing measured", "failed", "ok",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestTroubleIsToldFirst(t *testing.T) {
	r := measuredRun(t)
	r.Trouble = errors.New("12 messages <lost>")
	text := written(t, func(b *strings.Builder) error { return r.HTML(b) })
	if !strings.Contains(text, "12 messages &lt;lost&gt;") || !strings.Contains(text, "✗ failed") {
		t.Error("the page does not say what is wrong")
	}
	r.Trouble, r.Verdicts = nil, slices.Clone(r.Verdicts[:1])
	text = written(t, func(b *strings.Builder) error { return r.HTML(b) })
	if strings.Contains(text, "✗") || !strings.Contains(text, "✓ passed") {
		t.Error("the page says that something is wrong")
	}
}
