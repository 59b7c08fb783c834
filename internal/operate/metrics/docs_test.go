package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// TestDocs holds docs/reference/metrics.md against the code: its tables have every metric once, with its type and labels, and name no
// other; and it names no metric in its text and queries that there is not.
func TestDocs(t *testing.T) {
	text := document(t)
	rows := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `(wsbouncer_\\w+)` \\| (\\w+) \\| *([^|]*?) *\\| (.*) \\|$")
	for _, found := range row.FindAllStringSubmatch(text, -1) {
		name, labels := found[1], strings.ReplaceAll(found[3], "`", "")
		if _, twice := rows[name]; twice {
			t.Errorf("%s is described twice", name)
		}
		if found[4] == "" {
			t.Errorf("%s has no meaning", name)
		}
		rows[name] = found[2] + " by " + labels
	}
	all := Names()
	for _, f := range families() {
		want := f.kindName() + " by " + strings.Join(f.labels, ", ")
		if got, ok := rows[f.name]; !ok {
			t.Errorf("%s is missing", f.name)
		} else if got != want {
			t.Errorf("%s is said to be a %s; it is a %s", f.name, got, want)
		}
	}
	for name := range rows {
		if !all[name] {
			t.Errorf("%s is described, and does not exist", name)
		}
	}
	for _, name := range regexp.MustCompile(`wsbouncer_\w+`).FindAllString(text, -1) {
		if !all[name] {
			t.Errorf("%s is named, and does not exist", name)
		}
	}
}

// TestDocsNameValues: what the labels state, reason and direction can be is said in the document.
func TestDocsNameValues(t *testing.T) {
	text := document(t)
	server := serve(t, func() Snapshot { return busy() })
	for name, f := range scrape(t, server) {
		for _, m := range f.Metric {
			for _, label := range m.Label {
				if fixedLabel(label) && !strings.Contains(text, "`"+label.GetValue()+"`") {
					t.Errorf("%s can have the %s %s, which is not in the document", name, label.GetName(), label.GetValue())
				}
			}
		}
	}
	for _, class := range meter.Classes() {
		if !strings.Contains(text, "\n| `"+class.String()+"` | ") {
			t.Errorf("class %s is not in the document", class)
		}
	}
	_, text, _ = strings.Cut(text, "### Reasons")
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]* \\|$")
	var reasons []string
	for _, found := range row.FindAllStringSubmatch(text, -1) {
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

func document(t *testing.T) string {
	text, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
