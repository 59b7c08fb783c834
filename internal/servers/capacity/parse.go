package capacity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// most is the largest number of sessions that a server may publish: a larger one is a mistake.
const most = 100_000

// parse returns a number that a server publishes in an answer. path is that of the server's URL. The number must be whole, at least least, and at
// most [most].
func parse(p *profile.Published, body []byte, path string, least int) (int, error) {
	name, labels := p.Metric()
	n, err := metric(body, name, labels)
	if name == "" {
		n, err = number(p, body, path)
	}
	switch {
	case err != nil:
		return 0, err
	case math.IsNaN(n) || n != math.Trunc(n) || n < float64(least) || n > most:
		return 0, fmt.Errorf("%v is not a whole number from %d to %d", n, least, most)
	}
	return int(n), nil
}

// number returns a number in JSON. Some servers write it as a text.
func number(p *profile.Published, body []byte, path string) (float64, error) {
	var document any
	if err := json.Unmarshal(body, &document); err != nil {
		return 0, fmt.Errorf("the answer is not JSON: %w", err)
	}
	switch found := p.Find(document, path).(type) {
	case float64:
		return found, nil
	case string:
		n, err := strconv.ParseFloat(found, 64)
		if err != nil {
			return 0, fmt.Errorf("%.40q is not a number", found)
		}
		return n, nil
	case nil:
		if item := p.Item(); item != "" {
			return 0, fmt.Errorf("the number is not in the answer, in an item whose %s is %.80q, the path of the server's URL", item, path)
		}
		return 0, errors.New("the number is not in the answer")
	}
	return 0, errors.New("what is there is not a number")
}

// metric returns the sum of the gauges or counters of that name that have these labels, in the text format of Prometheus.
func metric(body []byte, name string, labels map[string]string) (sum float64, err error) {
	if name == "" {
		return 0, nil
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("the answer is not in the text format of Prometheus: %w", err)
	}
	any := false
	for _, m := range families[name].GetMetric() {
		if !has(m, labels) {
			continue
		}
		any = true
		switch {
		case m.Gauge != nil:
			sum += m.Gauge.GetValue()
		case m.Counter != nil:
			sum += m.Counter.GetValue()
		case m.Untyped != nil:
			sum += m.Untyped.GetValue()
		default:
			return 0, fmt.Errorf("the metric %s is not a number", name)
		}
	}
	if !any {
		return 0, fmt.Errorf("the metric %s is not in the answer", name)
	}
	return sum, nil
}

// has reports whether a metric has these labels.
func has(m *dto.Metric, labels map[string]string) bool {
	n := 0
	for _, l := range m.GetLabel() {
		if value, ok := labels[l.GetName()]; ok && value == l.GetValue() {
			n++
		}
	}
	return n == len(labels)
}
