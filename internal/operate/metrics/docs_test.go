package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

var (
	heading = regexp.MustCompile("^#+ (.*)")
	shared  = regexp.MustCompile("have the labels? (`[a-z]+`(?: and `[a-z]+`)*)")
	item    = regexp.MustCompile("^- `(wsbouncer_[a-z_]+)(?:\\{([a-z_,]+)\\})?`: (.*)")
)

// TestDocs holds docs/reference/metrics.md against the code: it has every metric once, with its labels and its help text, and names no metric
// that there is not. Labels that all metrics of a section have stand in its introduction. Its output is what should stand there.
func TestDocs(t *testing.T) {
	type entry struct{ section, labels, help string }
	text, entries := document(t), make(map[string]entry)
	var section string
	var common []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if found := heading.FindStringSubmatch(line); found != nil {
			section, common = found[1], nil
		}
		if found := shared.FindStringSubmatch(line); found != nil {
			common = strings.Split(strings.ReplaceAll(found[1], "`", ""), " and ")
		}
		if found := item.FindStringSubmatch(line); found != nil {
			labels := common
			if found[2] != "" {
				labels = slices.Concat(common, strings.Split(found[2], ","))
			}
			if _, twice := entries[found[1]]; twice {
				t.Errorf("%s is described twice", found[1])
			}
			entries[found[1]] = entry{section, strings.Join(labels, ","), found[3]}
		}
	}
	all := Names()
	for _, f := range families() {
		got, want := entries[f.name], strings.Join(f.labels, ",")
		if got.labels != want || got.help != f.help {
			t.Errorf("%s has the labels %q, not %q, or not this line:\n- `%s{LABELS}`: %s", f.name, got.labels, want, f.name, f.help)
		}
		kind := "gauge"
		switch {
		case got.section == "Histograms":
			kind = "histogram"
		case strings.HasSuffix(f.name, "_total"):
			kind = "counter"
		}
		if kind != f.kindName() {
			t.Errorf("%s is a %s; by its name and section, it is a %s", f.name, f.kindName(), kind)
		}
	}
	for _, name := range regexp.MustCompile(`wsbouncer_\w+`).FindAllString(text, -1) {
		if !all[name] {
			t.Errorf("%s is named, and does not exist", name)
		}
	}
}

// TestDocsNameValues: what the labels state, reason and direction can be is said in the help text of the metric, or in the document.
func TestDocsNameValues(t *testing.T) {
	text := document(t)
	helps := make(map[string]string)
	for _, f := range families() {
		helps[f.name] = f.help
	}
	server := serve(t, func() Snapshot { return busy() })
	for name, f := range scrape(t, server) {
		for _, m := range f.Metric {
			for _, label := range m.Label {
				value := regexp.MustCompile(`\b` + regexp.QuoteMeta(label.GetValue()) + `\b`)
				if fixedLabel(label) && !value.MatchString(helps[name]) && !strings.Contains(text, "`"+label.GetValue()+"`") {
					t.Errorf("%s can have the %s %s, which is not in the document", name, label.GetName(), label.GetValue())
				}
			}
		}
	}
	for _, class := range meter.Classes() {
		if !strings.Contains(text, "\n- `"+class.String()+"`: ") {
			t.Errorf("class %s is not in the document", class)
		}
	}
	_, text, _ = strings.Cut(text, "### Reasons")
	text, _, _ = strings.Cut(text, "\n## ")
	var reasons []string
	for _, found := range regexp.MustCompile("(?m)^- `([a-z_]+)`: ").FindAllStringSubmatch(text, -1) {
		reasons = append(reasons, found[1])
	}
	var want []string
	pool.Reasons{}.All(func(r pool.Reason, _ uint64) { want = append(want, r.String()) })
	if !slices.Equal(reasons, want) {
		t.Errorf("the reasons are %v; the code has %v", reasons, want)
	}
}

// fixedLabel reports whether the label's values are from a list in the code.
func fixedLabel(label *dto.LabelPair) bool {
	return slices.Contains([]string{"state", "reason", "direction", "by", "class"}, label.GetName())
}

// document returns the page, with each item of a list on one line.
func document(t *testing.T) string {
	text, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("\r\n  ", " ", "\n  ", " ", "\r\n", "\n").Replace(string(text))
}

// kindName returns counter, gauge or histogram.
func (f *family) kindName() string {
	switch {
	case f.distributions != nil:
		return "histogram"
	case f.kind == prometheus.CounterValue:
		return "counter"
	}
	return "gauge"
}
