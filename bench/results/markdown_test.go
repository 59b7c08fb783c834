package results

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// hasLines fails if a text lacks one of these lines.
func hasLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in:\n%s", want, text)
		}
	}
}

func TestReportNamesEveryRival(t *testing.T) {
	measured := fixture()
	measured.Scenarios[0].Cells[0].Rounds[0]["nginx"].Values["others"] = 0.25
	text := measured.Markdown([]Drawing{{File: "a.svg", Title: "A plot"}})
	hasLines(t, text,
		"- Date: 2026-01-02 03:04 UTC; it took 1m30s", "- Commit: v0.1.0-3-gabc",
		"- Machine: 2 processors (A processor), 8 GiB, Linux 6.1, Debian, go1.26",
		"- Everything else on the machine used 0.25 processors (median of all runs; maximum 0.25); trust the numbers only if this is near 0",
		"|  | wsbouncer | c-relay | nginx | haproxy | caddy | python |",
		"| CPU per round trip, 500 sessions, µs | 20.0 (10.0–40.0) | 1.00 | 2.00 | 0.50, failed in 1 of 2 | skipped | 5.00 * |",
		"| ... 9,000 sessions | 22.0 (11.0–48.0) | 0.91 | 2.00 | - | - | - |",
		"| CPU per round trip: at most haproxy's, at every session count and size | undecided | worst 2.000 x at 500 x 1 KiB; limit 1.000; not measured: 9000 x 1 KiB: no numbers |",
		"![A plot](img/a.svg)")
	hasLines(t, measured.Tables(),
		"- caddy: skipped: not installed",
		"- nginx: 1.2",
		"| CPU per round trip: at most haproxy's, at every session count and size | undecided | worst 2.000 x at 500 x 1 KiB; limit 1.000; not measured: 9000 x 1 KiB: no numbers | undecided at 500 x 1 KiB: +100.0 % |",
		"- CPU per round trip: at most nginx's, at every session count and size: worst 0.500 (0.250–0.667) x at 500 x 1 KiB; limit 1.000",
		"| rival | 500 x 1 KiB | 9000 x 1 KiB |",
		"| nginx | 2.00 (1.50–4.00) | 2.00 (1.04–4.00) |",
		"| wsbouncer | 20.0 (10.0–40.0) | 22.0 (11.0–48.0) |",
		"| haproxy | 0.50, failed in 1 of 2 | - |",
		"| caddy | skipped | - |",
		"- haproxy, failed with 500 x 1 KiB: no / luck",
		"- caddy, skipped: not installed",
		"- * python with 500 x 1 KiB: it answered 4000 of 10000 messages/s")
	if strings.Contains(text, "did not measure the whole plan") {
		t.Error("the whole plan is said not to be whole")
	}
	r := fixture()
	r.Plan = "quick"
	if !strings.Contains(r.Markdown(nil), "did not measure the whole plan (quick)") {
		t.Error("a part of the plan is not said to be one")
	}
}

// The base's numbers are marked as those of others are where it could not carry the load.
func TestOverloadedBaseIsMarked(t *testing.T) {
	r := fixture()
	c := &r.Scenarios[0].Cells[0]
	c.Rounds[0][ours] = Run{Values: c.Rounds[0][ours].Values, Overload: "it answered 9000 of 10000 messages/s"}
	hasLines(t, r.Markdown(nil), "| CPU per round trip, 500 sessions, µs | 20.0 (10.0–40.0) * | 1.00 | 2.00 | 0.50, failed in 1 of 2 | skipped | 5.00 * |",
		"| ... 9,000 sessions | 22.0 (11.0–48.0) | 0.91 | 2.00 | - | - | - |")
	for _, round := range c.Rounds {
		round["nginx"] = Run{Values: round["nginx"].Values, Overload: "it answered 8000 of 10000 messages/s"}
	}
	got, err := r.InReadme(numbersBegin + numbersEnd)
	if err != nil {
		t.Fatal(err)
	}
	hasLines(t, got, "| CPU per 1 KiB round trip, 500 to 9,000 sessions | 20.0 to 22.0 µs * | 2.00 * | 0.50 | - |",
		"An asterisk: the program could not carry all of these loads.")
	if plain, _ := fixture().InReadme(numbersBegin + numbersEnd); strings.Contains(plain, "asterisk") {
		t.Errorf("without an overload:\n%s", plain)
	}
}

func TestBetterNeedsEveryRound(t *testing.T) {
	better := fixture()
	for _, round := range better.Scenarios[0].Cells[0].Rounds {
		round["haproxy"] = Run{Values: map[string]float64{"cpu_us": round[ours].Values["cpu_us"] / 2}}
	}
	got, floors := better.better()
	if want := []string{"haproxy: `relay` CPU, µs (500 x 1 KiB) 0.50"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if none, _ := fixture().better(); none != nil { // of one round
		t.Errorf("%q", none)
	}
	// A variant of ours is no rival.
	variant := better
	for _, round := range variant.Scenarios[0].Cells[0].Rounds {
		round["wsbouncer-one-shot"] = Run{Values: map[string]float64{"cpu_us": 1}}
	}
	variant.Scenarios[0].Rivals = append(variant.Scenarios[0].Rivals, "wsbouncer-one-shot")
	if same, _ := variant.better(); !reflect.DeepEqual(same, got) {
		t.Errorf("with a variant: %q", same)
	}
	// At 500 sessions it was dearer in one round.
	if want := []string{"c-relay: `relay` CPU, µs (9000 x 1 KiB) 0.91"}; !reflect.DeepEqual(floors, want) {
		t.Errorf("floors: %q, want %q", floors, want)
	}
	r := fixture()
	r.Scenarios[0].Metrics[0].Higher = true
	more, _ := r.better()
	if got := strings.Join(more, "\n"); !strings.Contains(got, "nginx") || strings.Contains(got, "python") {
		t.Errorf("where more is better: %s", got)
	}
}

func TestOneLoadMakesOneTable(t *testing.T) {
	r := fixture()
	s := &r.Scenarios[0]
	s.Cells = s.Cells[:1]
	s.Failed = "at last"
	hasLines(t, r.Tables(), "| rival | CPU, µs | / wsbouncer |", "| nginx | 60.0 (20.0–80.0) | 2.00 (1.50–4.00) |", "It failed: at last")
}

func TestJSONKeepsEverything(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	text, err := fixture().JSON()
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, fixture()) {
		t.Errorf("%+v", got)
	}
}

func TestDrawingsLeaveOutWhatTheyCannotShow(t *testing.T) {
	r := fixture()
	byFile := map[string]Drawing{}
	drawings, err := r.Drawings()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drawings {
		byFile[d.File] = d
	}
	cpu := byFile["cpu-per-round-trip.svg"]
	if !strings.Contains(cpu.SVG, ">nginx<") || !strings.Contains(cpu.SVG, ">python, overloaded<") || !strings.Contains(cpu.SVG, ">caddy, no numbers<") {
		t.Error(cpu.SVG)
	}
	if _, ok := byFile["memory-per-session.svg"]; ok {
		t.Error("there is a drawing of what was not measured")
	}
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	WriteTable(&b, []string{"a", "b"}, [][]string{{"1", "2|3"}, {"skipped"}})
	if want := "| a | b |\n| --- | --- |\n| 1 | 2/3 |\n| skipped |  |\n"; b.String() != want {
		t.Errorf("got %s", b.String())
	}
}

func TestNumbersInReadme(t *testing.T) {
	r := fixture()
	few := "# A\n\n" + numbersBegin + "old\n" + numbersEnd + "\nEnd.\n"
	got, err := r.InReadme(few)
	if err != nil {
		t.Fatal(err)
	}
	hasLines(t, got, "# A", "From `make bench` (2026-01-02, commit v0.1.0-3-gabc), with all programs on 2 processors. Rivals' numbers are medians of",
		"| CPU per 1 KiB round trip, 500 to 9,000 sessions | 20.0 to 22.0 µs | 2.00 | 0.50 | - |", "End.")
	if strings.Contains(got, "old") || strings.Contains(got, "TLS") {
		t.Errorf("it has numbers that the report has not:\n%s", got)
	}
	if again, err := r.InReadme(got); err != nil || again != got {
		t.Errorf("the second time: %v\n%s", err, again)
	}
	if _, err := r.InReadme("# A\n"); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(numbersBegin)) {
		t.Errorf("a README without a place for the numbers: %v", err)
	}
}

func TestFeaturesAreOnThePage(t *testing.T) {
	r := fixture()
	r.Scenarios = append(r.Scenarios, Scenario{
		Name: featureScenario, Title: "What features cost", Base: ours, Rivals: []string{ours, "everything"},
		Metrics: []Metric{{Key: "cpu_us", Title: "CPU, µs", Digits: 1, Ratio: true}, {Key: "others"}},
		Cells:   []Cell{cell(500, "cpu_us", map[string][]float64{ours: {10, 20}, "everything": {11, 23}})},
	})
	hasLines(t, r.Markdown(nil), "| 500 x 1 KiB | CPU, µs |", "| `wsbouncer` | 15.0 (10.0–20.0) |", "| `everything` | 1.12 (1.10–1.15) |")
	if v := find(t, r, "Everything on"); v.Verdict != met {
		t.Errorf("%+v", v)
	}
}
