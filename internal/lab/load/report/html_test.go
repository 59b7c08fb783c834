package report

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// parse reads a page, which must be well-formed, and returns its elements by their names, and its text.
func parse(t *testing.T, text string) (elements map[string][]xml.StartElement, said string) {
	t.Helper()
	_, body, ok := strings.Cut(text, "<!doctype html>")
	if !ok {
		t.Fatal("no doctype")
	}
	d := xml.NewDecoder(strings.NewReader(body))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
	elements = make(map[string][]xml.StartElement)
	var words strings.Builder
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("at %d: %v", d.InputOffset(), err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			elements[token.Name.Local] = append(elements[token.Name.Local], token.Copy())
		case xml.EndElement:
			depth--
		case xml.CharData:
			words.Write(token)
		}
	}
	if depth != 0 {
		t.Errorf("%d elements are not closed", depth)
	}
	return elements, words.String()
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// checkPage checks what holds for each page.
func checkPage(t *testing.T, r *Report) (elements map[string][]xml.StartElement, said string) {
	t.Helper()
	text := written(t, func(b *strings.Builder) error { return r.HTML(b) })
	elements, said = parse(t, text)
	for _, name := range []string{"script", "link", "img", "iframe", "object", "embed"} {
		if len(elements[name]) > 0 {
			t.Errorf("the page has the element %s", name)
		}
	}
	for name, all := range elements {
		for _, e := range all {
			for _, a := range []string{"src", "href", "srcset", "style", "onclick"} {
				if attribute(e, a) != "" {
					t.Errorf("<%s> has the attribute %s", name, a)
				}
			}
		}
	}
	if style := text[strings.Index(text, "<style>"):strings.Index(text, "</style>")]; strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Error("the style needs another file")
	}
	if bad := regexp.MustCompile(`NaN|Inf|%!|ZgotmplZ`).FindString(text); bad != "" {
		t.Errorf("the page holds %q", bad)
	}
	number := regexp.MustCompile(`-?[0-9.]+`)
	for _, path := range elements["path"] {
		for i, n := range number.FindAllString(attribute(path, "d"), -1) {
			if strings.HasPrefix(n, "-") || len(n) > 6 {
				t.Errorf("number %d of a path is %s", i, n)
			}
		}
	}
	for _, svg := range elements["svg"] {
		if attribute(svg, "aria-hidden") == "" && (attribute(svg, "role") != "img" || attribute(svg, "aria-labelledby") == "") {
			t.Error("a plot is not named for those who cannot see it")
		}
	}
	return elements, said
}

func TestHTMLShowsTheRun(t *testing.T) {
	r := measuredRun(t)
	elements, said := checkPage(t, r)
	if n := len(elements["figure"]); n != 5 {
		t.Errorf("%d plots", n)
	}
	if n := strings.Count(said, "steady): "); n == 0 {
		t.Error("no plot tells its numbers")
	}
	for _, part := range []string{
		"Messages per second", "Latency over time", "Distribution of times", "Open connections", "Sessions per second",
		"p99>1h", "nothing measured", "session-length", "50ms", "v1.2.3", "2 January 2026", "first echo again", "Authorization, X-Y",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
	if strings.Contains(said, "secret") {
		t.Error("the value of a header is told")
	}
}

func TestHTMLEscapes(t *testing.T) {
	r := measuredRun(t)
	const evil = `ws://h/?a=<script>alert("1")</script>&b='"`
	r.Result.Targets = []load.TargetResult{{URL: evil}, {URL: "ws://other/"}}
	r.Result.Errors = map[string]int64{"<b>no</b>": 2}
	r.Options.Subprotocol = `"><i>`
	elements, said := checkPage(t, r)
	if len(elements["b"]) != len(r.tiles()) || len(elements["i"]) != 0 {
		t.Error("text has become elements")
	}
	for _, part := range []string{evil, "<b>no</b>", `"><i>`} {
		if !strings.Contains(said, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
}

func TestHTMLOfLittleAndOfMuch(t *testing.T) {
	point := func(i int) load.Point {
		return load.Point{
			Start: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second, Phase: load.Steady, Active: 5, Sent: 10, Received: 10,
			P50: time.Millisecond, P90: time.Millisecond, P99: time.Millisecond, Max: time.Millisecond,
		}
	}
	for name, c := range map[string]struct {
		change  func(*Report)
		figures int
		said    string
	}{
		"nothing":   {func(r *Report) { r.Result = &load.Result{} }, 0, "Nothing was measured"},
		"one point": {func(r *Report) { r.Result.Series = []load.Point{point(0)} }, 5, "0 s to 1 s (steady)"},
		"gap": {func(r *Report) {
			r.Result.Series = []load.Point{point(0), {Start: time.Second, End: 2 * time.Second}, point(2)}
		}, 5, "connecting"},
		"points galore": {func(r *Report) {
			for i := range 4000 {
				r.Result.Series = append(r.Result.Series, point(i))
			}
		}, 5, "1:00:00"},
		"audio": {func(r *Report) {
			r.Result.Series = []load.Point{point(0)}
			r.Result.Speech = &load.Speech{Texts: []string{"a"}, Same: 3, Other: 1, Alike: 0.875}
		}, 5, "3 of 4 as of a session alone; 87.5 % of the words alike"},
	} {
		t.Run(name, func(t *testing.T) {
			r := measuredRun(t)
			r.Result.Series = nil
			c.change(r)
			elements, said := checkPage(t, r)
			if n := len(elements["figure"]); n != c.figures {
				t.Errorf("%d plots, want %d", n, c.figures)
			}
			if name == "points galore" {
				if n := len(elements["rect"]); n > 10 || !strings.Contains(said, "--series") {
					t.Errorf("%d elements for 4000 points", n)
				}
			} else if !strings.Contains(said, c.said) {
				t.Errorf("the page does not say %q", c.said)
			}
		})
	}
}
