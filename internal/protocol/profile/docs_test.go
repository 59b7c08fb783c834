package profile

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documentation returns docs/reference/write-a-profile.md and profiles.md.
func documentation(t *testing.T) string {
	t.Helper()
	text := ""
	for _, page := range []string{"write-a-profile", "profiles"} {
		b, err := os.ReadFile("../../../docs/reference/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text
}

// braces finds the first alternatives of a name such as capacity.{total,used}.url.
var braces = regexp.MustCompile(`^(.*?)\{(.*?)\}(.*)$`)

// expand returns the names that a name with alternatives stands for.
func expand(name string) []string {
	m := braces.FindStringSubmatch(name)
	if m == nil {
		return []string{name}
	}
	var names []string
	for alternative := range strings.SplitSeq(m[2], ",") {
		names = append(names, expand(m[1]+alternative+m[3])...)
	}
	return names
}

// documentedKey is an item of a list: a key in backquotes, and its value and default in parentheses.
var documentedKey = regexp.MustCompile("(?ms)^- `([^`]+)` \\((.*?)\\): ")

// documentedKeys returns the value and the default of each key in the lists of a part of the documentation.
func documentedKeys(t *testing.T, part string) map[string][2]string {
	t.Helper()
	keys := make(map[string][2]string)
	for _, item := range documentedKey.FindAllStringSubmatch(part, -1) {
		value, usual, _ := strings.Cut(strings.ReplaceAll(item[2], "\n ", ""), "; default ")
		for _, key := range expand(item[1]) {
			if _, twice := keys[key]; twice {
				t.Errorf("docs/reference/write-a-profile.md: the key %s is listed twice", key)
			}
			keys[key] = [2]string{value, usual}
		}
	}
	return keys
}

// section returns what a heading of the documentation has below it, up to the next heading of its rank.
func section(t *testing.T, doc, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/reference/write-a-profile.md has no heading %q", heading)
	}
	part, _, _ := strings.Cut(rest, "\n"+strings.Fields(heading)[0]+" ")
	return part
}

// tableBelow returns the rows of the first table below a heading, by the names in backquotes in their first cell.
func tableBelow(t *testing.T, doc, heading string) map[string][]string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("the documentation has no heading %q", heading)
	}
	rows := make(map[string][]string)
	for line := range strings.SplitSeq(rest, "\n") {
		switch {
		case strings.HasPrefix(line, "| `"):
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			for name := range strings.SplitSeq(strings.Trim(cells[0], "`"), "`, `") {
				if rows[name] != nil {
					t.Errorf("%s: %s is listed twice", heading, name)
				}
				rows[name] = cells
			}
		case len(rows) > 0 && !strings.HasPrefix(line, "|"), strings.HasPrefix(line, "#"):
			return rows
		}
	}
	return rows
}

// unheard is an unknown key and an unknown value.
const unheard = "unheard-of-in-profiles"

// allowedAt returns what the reader allows at a path of keys. It finds out by giving the reader an unknown key, where it reads a mapping,
// or an unknown word.
func allowedAt(path, what string) []string {
	value := unheard
	if what == "key" {
		value = "{" + unheard + ": 1}"
	}
	yaml := "profiles: {p: "
	if path != "" {
		for key := range strings.SplitSeq(path, ".") {
			yaml += "{" + key + ": "
		}
		value += strings.Repeat("}", strings.Count(path, ".")+1)
	}
	_, err := Parse("", []byte(yaml+value+"}"))
	var problems Problems
	errors.As(err, &problems)
	for _, p := range problems {
		if list, ok := strings.CutPrefix(p.Text, fmt.Sprintf("unknown %s %q: use ", what, unheard)); ok {
			return strings.Split(strings.TrimPrefix(list, "one of "), ", ")
		}
	}
	return nil
}

// readerKeys are the keys that the reader knows, by path: of profiles, of messages and of matchers.
type readerKeys struct{ profile, message, matcher map[string][]string }

// collect asks the reader for the keys below a path, and for the words that each of them allows.
func (k *readerKeys) collect(path string) {
	for _, key := range allowedAt(path, "key") {
		below := strings.TrimPrefix(path+"."+key, ".")
		switch inside := allowedAt(below, "key"); {
		case slices.Contains(inside, "contains"):
			k.profile[below] = nil
			for _, m := range inside {
				k.matcher[m] = allowedAt(below+"."+m, "value")
				for _, payload := range allowedAt(below+"."+m, "key") {
					k.matcher[m+"."+payload] = nil
				}
			}
		case slices.Contains(inside, "zeros"):
			k.profile[below] = nil
			for _, m := range inside {
				k.message[m] = nil
			}
		case inside != nil:
			k.collect(below)
		default:
			k.profile[below] = allowedAt(below, "value")
		}
	}
}

// Every key and word that the reader knows is in the documentation, and no other.
func TestDocumentedKeys(t *testing.T) {
	doc := documentation(t)
	keys := readerKeys{make(map[string][]string), make(map[string][]string), make(map[string][]string)}
	keys.collect("")
	ofProfiles, _, _ := strings.Cut(doc, "\n### Messages\n")
	for _, c := range []struct {
		what  string
		part  string
		want  map[string][]string
		least int // so that a reader whose errors are worded in another way does not pass
	}{
		{"key", ofProfiles, keys.profile, len(new(spec).fields())},
		{"kind of messages", section(t, doc, "### Messages"), keys.message, 3},
		{"kind of matchers", section(t, doc, "### Matchers"), keys.matcher, len(messageKeys) + len(refusalKeys) + 1},
	} {
		listed := documentedKeys(t, c.part)
		if len(c.want) < c.least {
			t.Fatalf("the reader was found to know %d times a %s; it must be %d at least", len(c.want), c.what, c.least)
		}
		for key, words := range c.want {
			item, ok := listed[key]
			if !ok {
				t.Errorf("docs/reference/write-a-profile.md: the %s %s is missing", c.what, key)
				continue
			}
			for _, word := range words {
				if !strings.Contains(item[0], "`"+word+"`") {
					t.Errorf("docs/reference/write-a-profile.md: the %s %s: the word %s is missing", c.what, key, word)
				}
			}
		}
		for key := range listed {
			if _, known := c.want[key]; !known {
				t.Errorf("docs/reference/write-a-profile.md: the reader does not know the %s %s", c.what, key)
			}
		}
	}
	for key, words := range map[string][]string{ // that some words were found at all
		"reuse": reuseNames, "unsafe": riskNames, "predial": predialNames, "early": earlyNames,
	} {
		if !slices.Equal(keys.profile[key], words) {
			t.Errorf("%s: the reader was found to allow %v; want %v", key, keys.profile[key], words)
		}
	}
}

// The documentation has the defaults that are in force.
func TestDocumentedDefaults(t *testing.T) {
	part, _, _ := strings.Cut(documentation(t), "\n### Messages\n")
	keys := documentedKeys(t, part)
	s := newSpec()
	for key, value := range map[string]string{
		"reuse": "`" + s.reuse.String() + "`", "predial": "`" + s.predial.String() + "`", "early": "`" + s.early.String() + "`",
		"end.timeout": durationText(s.end.timeout), "reset.settle": fmt.Sprint(int(s.reset.settle)), "reset.timeout": durationText(s.reset.timeout),
		"timeouts.greeting": durationText(s.timeouts.greeting), "timeouts.ready": durationText(s.timeouts.ready),
		"limits.message": fmt.Sprintf("%dKiB", s.limits.Message>>10), "limits.greeting": fmt.Sprintf("%dKiB", s.limits.Greeting>>10),
		"variant.max": fmt.Sprint(s.variant.max),
	} {
		if usual := keys[key][1]; usual != value {
			t.Errorf("docs/reference/write-a-profile.md: the default of %s is %q; want %s", key, usual, value)
		}
	}
}

// The table of built-in profiles has each of them, with what is in force.
func TestDocumentedBuiltIn(t *testing.T) {
	rows := tableBelow(t, documentation(t), "## Built-in profiles")
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		force := "off"
		if p.Declared == OneShot {
			force = "-"
		} else if p.Reuse == p.Declared {
			force = "yes"
		}
		ahead := map[Predial]string{PredialIdle: "yes", PredialCostsSlot: "costs a slot", PredialNever: "no", PredialWithKey: "with a key"}[p.Predial]
		if row := rows[name]; len(row) != 5 || row[1] != p.Declared.String() || row[2] != force || row[3] != ahead {
			t.Errorf("docs/reference/profiles.md: the row of %s is %q; want class %v, in force %s, dialed ahead %s", name, row, p.Declared, force, ahead)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/reference/profiles.md: there is no built-in profile %s", name)
	}
}

// The page that helps to choose a profile has the verdict of each that is not never.
func TestDocumentedVerdicts(t *testing.T) {
	b, err := os.ReadFile("../../../docs/choose-a-profile.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableBelow(t, string(b), "## What happens when a server dies?")
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		want := p.Failover().Verdict
		if row, found := rows[name]; found != (want != Never) || found && (len(row) != 3 || row[1] != want.String()) {
			t.Errorf("docs/choose-a-profile.md: the row of %s is %q; want the verdict %s, and no row for never", name, row, want)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/choose-a-profile.md: there is no built-in profile %s", name)
	}
}

// The documentation's example can be read.
func TestDocumentedExample(t *testing.T) {
	examples := regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindAllStringSubmatch(documentation(t), -1)
	if len(examples) != 1 {
		t.Fatalf("docs/reference/write-a-profile.md has %d examples; want one", len(examples))
	}
	if _, err := Parse("my-profiles.yaml", []byte(examples[0][1])); err != nil {
		t.Error(err)
	}
}
