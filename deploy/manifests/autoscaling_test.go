package manifests

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

// metricName finds the proxy's metrics in a query.
var metricName = regexp.MustCompile(`wsbouncer_[a-z_]+`)

// describes reports whether a page has a metric, with or without labels.
func describes(page, metric string) bool {
	return strings.Contains(page, "`"+metric+"`") || strings.Contains(page, "`"+metric+"{")
}

// checkFleetQuery checks that a query takes the maximum of metrics that there are: each proxy tells the whole fleet's numbers.
func checkFleetQuery(t *testing.T, query string) {
	t.Helper()
	metrics := string(must[[]byte](t)(os.ReadFile("../../docs/reference/metrics.md")))
	names := metricName.FindAllString(query, -1)
	if len(names) == 0 || !strings.HasPrefix(query, "max(") || strings.Contains(query, "sum") {
		t.Errorf("the query %q takes no maximum of a metric", query)
	}
	for _, name := range names {
		if !describes(metrics, name) {
			t.Errorf("the query %q names the metric %s, which does not exist", query, name)
		}
	}
}

// TestScaleByFleet checks the ScaledObject.
func TestScaleByFleet(t *testing.T) {
	objects := decodeFile(t, folder+"/autoscaling-keda.yaml")
	if len(objects) != 1 {
		t.Fatalf("there are %d objects; want 1", len(objects))
	}
	scaler, ok := objects[0].(*keda.ScaledObject)
	if !ok {
		t.Fatalf("it is a %T", objects[0])
	}
	names := targets(t)
	if !slices.Contains(names, scaler.Spec.ScaleTargetRef.Name) {
		t.Errorf("there is no Deployment %s", scaler.Spec.ScaleTargetRef.Name)
	}
	if len(scaler.Spec.Triggers) != 2 {
		t.Fatalf("there are %d triggers; want 2", len(scaler.Spec.Triggers))
	}
	for i, kind := range []autoscaling.MetricTargetType{autoscaling.ValueMetricType, autoscaling.AverageValueMetricType} {
		trigger := &scaler.Spec.Triggers[i]
		if trigger.MetricType != kind {
			t.Errorf("the trigger %s compares the %s; want the %s", trigger.Name, trigger.MetricType, kind)
		}
		checkFleetQuery(t, trigger.Metadata["query"])
	}
}

// TestScaleByAdapter checks that the HorizontalPodAutoscaler asks for metrics that the adapter's rules make.
func TestScaleByAdapter(t *testing.T) {
	const rules = folder + "/prometheus-adapter.yaml"
	var values struct {
		Rules struct {
			External []struct {
				SeriesQuery  string         `json:"seriesQuery"`
				Resources    map[string]any `json:"resources"`
				MetricsQuery string         `json:"metricsQuery"`
			} `json:"external"`
		} `json:"rules"`
	}
	if err := yaml.UnmarshalStrict(must[[]byte](t)(os.ReadFile(rules)), &values); err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, rule := range values.Rules.External {
		checkFleetQuery(t, strings.ReplaceAll(rule.MetricsQuery, "<<.Series>>", rule.SeriesQuery))
		served = append(served, rule.SeriesQuery)
	}
	objects := decodeFile(t, folder+"/autoscaling-hpa.yaml")
	if len(objects) != 1 {
		t.Fatalf("there are %d objects; want 1", len(objects))
	}
	scaler, ok := objects[0].(*autoscaling.HorizontalPodAutoscaler)
	if !ok {
		t.Fatalf("it is a %T", objects[0])
	}
	if name := scaler.Spec.ScaleTargetRef.Name; !slices.Contains(targets(t), name) {
		t.Errorf("there is no Deployment %s", name)
	}
	for _, metric := range scaler.Spec.Metrics {
		if metric.External == nil || !slices.Contains(served, metric.External.Metric.Name) {
			t.Errorf("no rule of the adapter makes the metric %+v", metric.External)
		}
	}
	if n := len(scaler.Spec.Metrics); n != len(served) {
		t.Errorf("%d metrics are asked for, and %d made", n, len(served))
	}
}

// targets returns the names of the servers' Deployments.
func targets(t *testing.T) (names []string) {
	for _, o := range decodeFile(t, folder+"/servers.yaml") {
		if deployment, ok := o.(*apps.Deployment); ok {
			names = append(names, deployment.Name)
		}
	}
	return names
}
