package profile

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/strictyaml"
)

// Capacity is where servers publish how many sessions they take at once, and how many they have. It is immutable.
type Capacity struct {
	Every time.Duration // between two readings
	Total Published     // sessions that the server takes at once
	Used  Published     // sessions that it has now, whoever their clients are
}

// Published is a number that servers publish over HTTP, in JSON or as a metric of Prometheus. It is immutable.
type Published struct {
	// URL is a path, or :PORT/PATH for another port of the server's host; empty for a number that servers do not publish.
	URL string

	item   string   // of a list of objects, the one whose member of this name is the path of the server's URL; empty for no list
	path   jsonPath // to the number
	metric string   // instead of both
}

// defaultEvery is the time between two readings: a stranger's sessions count within twice that.
const defaultEvery = 10 * time.Second

// Capacity returns where servers publish their capacity.
func (p *Profile) Capacity() *Capacity { return &p.spec.capacity }

// Known reports whether servers publish anything.
func (c *Capacity) Known() bool { return c.Total.URL != "" || c.Used.URL != "" }

// Item returns the field that names an item of a list, which must be the path of the server's URL; empty where what is published is in no list.
func (p *Published) Item() string { return p.item }

// Find returns what is published in a JSON document that [json.Unmarshal] has read, by a server whose URL has this path; nil for nothing.
func (p *Published) Find(document any, path string) any {
	if p.item != "" {
		list, _ := document.([]any)
		document = nil
		for _, item := range list {
			if object, ok := item.(map[string]any); ok && object[p.item] == path {
				document = object
				break
			}
		}
	}
	for _, s := range p.path {
		switch within := document.(type) {
		case map[string]any:
			document = within[s.key]
		case []any:
			if s.index < 0 || s.index >= len(within) {
				return nil
			}
			document = within[s.index]
		default:
			return nil
		}
	}
	return document
}

func (c *Capacity) fields() []field {
	usual := newSpec().capacity
	return []field{
		{"every", durationAt(&c.Every).check(func(r *reader, n *strictyaml.Node) {
			if c.Every < time.Second {
				r.problem(placeOf(n), "invalid duration %q: ask the server at most once a second: use 1s or more", n.Value)
			}
		})},
		{"total", sectionAt(&c.Total, usual.Total, (*Published).fields).inline()},
		{"used", sectionAt(&c.Used, usual.Used, (*Published).fields).inline()},
	}
}

func (p *Published) fields() []field {
	return []field{
		{"url", textAt(&p.URL).check(func(r *reader, n *strictyaml.Node) {
			if !isPublishedURL(p.URL) {
				r.problem(placeOf(n), "invalid URL %q: use a path such as /metrics, or :9991/metrics for another port of the server's host", p.URL)
			}
		})},
		{"item", textAt(&p.item)},
		{"json", pathAt(&p.path, parsePath)},
		{"metric", textAt(&p.metric).check(func(r *reader, n *strictyaml.Node) {
			if !metricForm.MatchString(p.metric) {
				r.problem(placeOf(n), "invalid metric %q: use a name, or one with labels, such as requests or requests{kind=\"stream\"}", p.metric)
			}
		})},
	}
}

var (
	metricForm = regexp.MustCompile(`^[a-zA-Z_:][\w:]*(\{\w+="[^"\\]*"(,\w+="[^"\\]*")*\})?$`)
	labelForm  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// Metric returns the name of the metric of Prometheus that is the number, and labels that it must have; no name for a number in JSON.
func (p *Published) Metric() (name string, labels map[string]string) {
	name, rest, _ := strings.Cut(p.metric, "{")
	labels = make(map[string]string)
	for _, l := range labelForm.FindAllStringSubmatch(rest, -1) {
		labels[l[1]] = l[2]
	}
	return name, labels
}

// isPublishedURL reports whether a text is a path, or a port and a path.
func isPublishedURL(text string) bool {
	if port, path, ok := strings.Cut(strings.TrimPrefix(text, ":"), "/"); ok && strings.HasPrefix(text, ":") {
		n, err := strconv.ParseUint(port, 10, 16)
		return err == nil && n > 0 && isPublishedURL("/"+path)
	}
	return strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' })
}

// checkCapacity checks that each number has a place, and that the place is one.
func (r *reader) checkCapacity(s *spec) {
	for key, p := range map[string]*Published{"total": &s.capacity.Total, "used": &s.capacity.Used} {
		at := s.place("capacity."+key, "capacity")
		switch isJSON, isMetric := len(p.path) > 0, p.metric != ""; {
		case p.URL == "" && !isJSON && !isMetric && p.item == "":
		case p.URL == "":
			r.problem(at, "capacity.%s: set url to the path at which servers publish it", key)
		case isJSON == isMetric:
			r.problem(at, "capacity.%s: set either json, to the path to the number, or metric, to the name of a metric of Prometheus", key)
		case p.item != "" && isMetric:
			r.problem(at, "capacity.%s: item chooses one of a list in JSON: remove it, or use json", key)
		}
	}
	if at, own := s.own["capacity.every"]; own && !s.capacity.Known() {
		r.problem(at, "capacity.every does nothing without capacity.total or capacity.used: set one, such as total: {url: /status, json: slots}")
	}
}
