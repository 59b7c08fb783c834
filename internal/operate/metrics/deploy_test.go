package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.yaml.in/yaml/v3"
)

// metricName finds the metrics that an expression names: ours, and those of the process.
var metricName = regexp.MustCompile(`\b(?:wsbouncer|process|go)_\w+`)

// checkNames reports metrics of an expression that do not exist, and an expression without any.
func checkNames(t *testing.T, where, expression string) {
	t.Helper()
	names := metricName.FindAllString(expression, -1)
	if len(names) == 0 {
		t.Errorf("%s names no metric: %s", where, expression)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !Names()[name] || !strings.HasPrefix(name, prefix) && !ofTheProcess(t)[name] {
			t.Errorf("%s names %s, which does not exist", where, name)
		}
	}
}

// ofTheProcess returns the metrics of the process and of the Go runtime on Linux.
func ofTheProcess(t *testing.T) map[string]bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system has other metrics of a process")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, f := range families {
		names[f.GetName()] = true
	}
	return names
}

// runbook finds a section of docs/runbooks.md, with the severity of its alert and a command.
var runbook = regexp.MustCompile(`(?m)^## (Wsbouncer\w+)\n\n(Warning|Critical): (?:[^\n]+\n)+\n    \S`)

// TestAlertRules: the rules name metrics that exist, and each has a severity, texts, a section in runbooks.md to which its runbook_url leads, and a
// test that promtool runs (make test-alerts).
func TestAlertRules(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	read(t, "prometheus/alerts.yaml", func(b []byte) error { return yaml.Unmarshal(b, &rules) })
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string      `yaml:"alertname"`
				Expected []yaml.Node `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
			Input []struct{ Series string } `yaml:"input_series"`
		}
	}
	read(t, "prometheus/alerts_test.yaml", func(b []byte) error { return yaml.Unmarshal(b, &tests) })
	fires, stays := make(map[string]bool), make(map[string]bool)
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			stays[a.Name] = stays[a.Name] || len(a.Expected) == 0
		}
		for _, in := range test.Input {
			checkNames(t, "a series of alerts_test.yaml", in.Series)
		}
	}
	explained := make(map[string]string) // the severity of each alert in runbooks.md
	read(t, "../docs/runbooks.md", func(b []byte) error {
		for _, section := range runbook.FindAllStringSubmatch(string(b), -1) {
			explained[section[1]] = strings.ToLower(section[2])
		}
		return nil
	})
	seen := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			seen++
			checkNames(t, rule.Alert, rule.Expr)
			if got := explained[rule.Alert]; got != rule.Labels["severity"] {
				t.Errorf("docs/runbooks.md explains %s with the severity %q; it is %q", rule.Alert, got, rule.Labels["severity"])
			}
			want := "https://github.com/wsbouncer/wsbouncer/blob/main/docs/runbooks.md#" + strings.ToLower(rule.Alert)
			if got := rule.Annotations["runbook_url"]; got != want {
				t.Errorf("%s has the runbook_url %q; want %q", rule.Alert, got, want)
			}
			if severity := rule.Labels["severity"]; severity != "warning" && severity != "critical" {
				t.Errorf("%s has the severity %q", rule.Alert, severity)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s does not say what it is about", rule.Alert)
			}
			if !fires[rule.Alert] || !stays[rule.Alert] {
				t.Errorf("%s needs a test in which it fires, and one in which it does not", rule.Alert)
			}
		}
	}
	if seen == 0 || len(explained) != seen {
		t.Errorf("there are %d rules, and %d in docs/runbooks.md", seen, len(explained))
	}
}

// TestGrafanaDashboard: every query names metrics that exist, every panel says what it shows, and no two lie on one another.
func TestGrafanaDashboard(t *testing.T) {
	type query struct{ Expr, RefID string }
	var dashboard struct {
		Title      string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct{ List []struct{ Name, Expr string } }
		Panels      []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  struct{ X, Y, W, H int }
			Targets                  []query
		}
	}
	read(t, "grafana/wsbouncer.json", func(b []byte) error { return json.Unmarshal(b, &dashboard) })
	variables := map[string]bool{"$__rate_interval": true, "$__range": true}
	for _, v := range dashboard.Templating.List {
		variables["$"+v.Name] = true
		if v.Definition != "" {
			checkNames(t, "variable "+v.Name, v.Definition)
		}
	}
	for _, a := range dashboard.Annotations.List {
		checkNames(t, "annotation "+a.Name, a.Expr)
	}
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: the id %d is used twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || !strings.HasSuffix(p.Description, ".") || len(p.Targets) == 0 {
			t.Errorf("panel %d, %s: %q with %d queries", p.ID, p.Title, p.Description, len(p.Targets))
		}
		for _, q := range p.Targets {
			checkNames(t, fmt.Sprintf("%s, query %s", p.Title, q.RefID), q.Expr)
			for _, v := range regexp.MustCompile(`\$\w+`).FindAllString(q.Expr, -1) {
				if !variables[v] {
					t.Errorf("%s uses %s, which is no variable", p.Title, v)
				}
			}
		}
	}
}

// read reads a file of deploy.
func read(t *testing.T, path string, parse func([]byte) error) {
	t.Helper()
	b, err := os.ReadFile("../../../deploy/" + path)
	if err == nil {
		err = parse(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}
