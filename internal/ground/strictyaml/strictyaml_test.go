package strictyaml

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "nothing",
		"# only this\n":             "nothing",
		"a: 1\n":                    "mapping",
		"a: 1\n---\nb: 2\n":         ":2: a second YAML document begins here: use only one",
		"a: [\n":                    ":1: invalid YAML: did not find expected node content",
		"a: 1\n\xff: 2\n":           ":2: invalid UTF-8: YAML must be UTF-8",
		"a:\n\tb: 1\n":              ":2: a tab: indent YAML with spaces",
		"\ta: 1\n":                  ":1: a tab: indent YAML with spaces",
		"a:\n  b: 1\n\tc: 2\n":      ":3: a tab: indent YAML with spaces",
		"a:\n  b: 1\n\n\tc: 2\n":    ":4: a tab: indent YAML with spaces",
		"a:\n  b:\n  \tc: 1\n":      ":3: a tab: indent YAML with spaces",
		"a: |\n  x\n\ty\n":          ":3: a tab: indent YAML with spaces",
		"a:\n  - x\n\t- y\n":        ":3: a tab: indent YAML with spaces",
		"a:\n-\tb: 1\n\tc: 2\n":     ":2: a tab: indent YAML with spaces",
		"a: |\n  x\n  \ty\nb: @d\n": ":4: invalid YAML: found character that cannot start any token", // tabs in a text are fine
		strings.Repeat("x", 65):     ": the file has 65 bytes: use at most 64",
	} {
		root, err := Parse([]byte(text), 64)
		got := "nothing"
		switch {
		case err != nil:
			got = err.Place("") + ": " + err.Text
		case KindOf(root) == Mapping:
			got = "mapping"
		}
		if got != want {
			t.Errorf("%q: %s; it should be %s", text, got, want)
		}
	}
}

// walk reads the values of a mapping as lists, and returns them with what is wrong.
func walk(t *testing.T, text string) (values, problems []string) {
	t.Helper()
	root, err := Parse([]byte(text), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r := Reader{Report: func(n *Node, text string) { problems = append(problems, Place("f", n)+": "+text) }}
	for _, e := range r.Entries(root, "keys") {
		if list, ok := r.Texts(e.Value); ok {
			values = append(values, e.Key.Value+"="+strings.Join(list, "+"))
		}
	}
	return values, problems
}

func TestWalk(t *testing.T) {
	for _, c := range []struct {
		text, values string
		problems     []string
	}{
		{"a: x\nb: [1, 2]\nc:\nd: ~\ne: ''\nf:\n- y\n", "a=x b=1+2 c= d= e= f=y", nil},
		{"a: {b: c}\nd: x\n", "d=x", []string{"f:1:4: found a mapping; expected text or a number"}},
		{"a: x\na: y\n", "a=x", []string{`f:2:1: "a" is defined twice`}},
		{"[a]: x\n", "", []string{"f:1:1: found a list; expected a key"}},
		{"a: &x 1\nb: *x\nc: &y [1]\nd: !!str 1\ne: [*x]\n", "", []string{
			"f:1:4: anchors, aliases and tags are not supported: write the value out", "f:2:4: anchors", "f:3:4: anchors", "f:4:4: anchors", "f:5:5: anchors",
		}},
		{"<<: {a: b}\n", "", []string{"f:1:1: merge keys are not supported: write the keys out"}},
		{"- a\n", "", []string{"f:1:1: found a list; expected keys"}},
	} {
		values, problems := walk(t, c.text)
		if got := strings.Join(values, " "); got != c.values {
			t.Errorf("%q has %q; it should be %q", c.text, got, c.values)
		}
		if !slices.EqualFunc(problems, c.problems, strings.HasPrefix) {
			t.Errorf("%q: problems %q; they should be %q", c.text, problems, c.problems)
		}
	}
}
