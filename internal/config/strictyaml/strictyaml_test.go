package strictyaml

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "nothing",
		"# only this\n":             "nothing",
		"a: 1\n":                    "mapping",
		"a: 1\n---\nb: 2\n":         ":2: a second YAML document: use only one",
		"a: [\n":                    ":1: invalid YAML: did not find expected node content",
		"a: 1\n\xff: 2\n":           ":2: invalid UTF-8: YAML must be UTF-8",
		"a:\n\tb: 1\n":              ":2: invalid YAML: a tab: indent with spaces",
		"\ta: 1\n":                  ":1: invalid YAML: a tab: indent with spaces",
		"a:\n  b: 1\n\tc: 2\n":      ":3: invalid YAML: a tab: indent with spaces",
		"a:\n  b: 1\n\n\tc: 2\n":    ":4: invalid YAML: a tab: indent with spaces",
		"a:\n  b:\n  \tc: 1\n":      ":3: invalid YAML: a tab: indent with spaces",
		"a: |\n  x\n\ty\n":          ":3: invalid YAML: a tab: indent with spaces",
		"a:\n  - x\n\t- y\n":        ":3: invalid YAML: a tab: indent with spaces",
		"a:\n-\tb: 1\n\tc: 2\n":     ":2: invalid YAML: a tab: indent with spaces",
		"a: |\n  x\n  \ty\nb: @d\n": ":4: invalid YAML: found character that cannot start any token", // tabs in a text are fine
		strings.Repeat("x", 65):     ": the file has 65 bytes: use at most 64",
	} {
		root, where, err := Parse([]byte(text), 64)
		got := "nothing"
		switch {
		case err != nil:
			got = fmt.Sprintf(":%s: %v", strings.TrimPrefix(where, ":"), err)
			got = strings.Replace(got, "::", ":", 1)
		case root != nil && root.Kind == yaml.MappingNode:
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
	root, _, err := Parse([]byte(text), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	bad := func(n *yaml.Node, text string) { problems = append(problems, Place("f", n)+": "+text) }
	for _, e := range Mapping(root, "of keys to values", bad) {
		if list, ok := List(e.Value, bad); ok {
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
		{"a: {b: c}\nd: x\n", "d=x", []string{"f:1:4: expected a single value: use text or a number"}},
		{"a: x\na: y\n", "a=x", []string{`f:2:1: "a" is defined twice`}},
		{"[a]: x\n", "", []string{"f:1:1: invalid key: use text"}},
		{"a: &x 1\nb: *x\nc: &y [1]\nd: !!str 1\ne: [*x]\n", "", []string{
			"f:1:4: anchors, aliases and tags are not supported", "f:2:4: anchors", "f:3:4: anchors", "f:4:4: anchors", "f:5:5: anchors",
		}},
		{"- a\n", "", []string{"f:1:1: expected a mapping of keys to values"}},
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
