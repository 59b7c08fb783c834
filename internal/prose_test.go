package internal_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A habit is a phrase that pages avoid.
type habit struct {
	phrase  *regexp.Regexp
	fine    *regexp.Regexp // when the phrase is fine, with two words before it; nil for never
	instead string
}

// habits lists the phrases. A space matches the end of a line, too.
var habits = []habit{
	{
		words(`say|says|said|saying`), words(`(?:client|clients|speaker|speakers|people|what was) (?:say|says|said)`),
		"what the thing does: it shows, reports, defines, sends or means",
	},
	{words(`tell|tells|told|telling`), nil, "that it shows, reports or sends, or that the other receives"},
	{words(`nobody|somebody|anybody|whoever`), nil, "who that is: no client, an operator, clients over the limit"},
	{words(`(?:go|goes|going|went) on`), nil, "continue"},
	{words(`any more`), nil, "no longer"},
	{words(`in vain`), nil, "without success"},
	{
		regexp.MustCompile(words(`of (?:its|their|his|her|your|our|my) own`).String() + `(?:[^\w\s]|\s+(?:` + notNouns + `)\b|\s*$)`), nil,
		"its own X",
	},
	{words(`(?:is|are) no \w+`), words(`there (?:is|are) no \w+|(?:is|are) no (?:longer|more|later|less)`), "is not an X"},
	{words(`(?:is|are|was|were) over`), nil, "has ended"},
	{regexp.MustCompile(`(?im)\|[ \t]*(?:the same|likewise|see above)[ \t]*\|`), nil, "what the other cell has"},
}

// notNouns are words that may follow "of its own" when it stands without a noun.
const notNouns = "a|after|and|are|as|at|because|before|but|by|for|from|if|in|instead|is|of|on|or|so|than|that|the|to|when|where|which|while|with|without"

// words returns an expression for words, whatever white space is between them.
func words(of string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(of, " ", `\s+`) + `)\b`)
}

var (
	indentedCode = regexp.MustCompile(`(?m)^ {4}.*$`)
	wordsBefore  = regexp.MustCompile(`(?:\S+\s+){0,2}$`)
)

// prose returns a page with its code and the targets of its links blanked out. Every line stays where it is.
func prose(page string) string {
	for _, code := range []*regexp.Regexp{fencedCode, indentedCode, inlineCode, pageLink} {
		page = code.ReplaceAllStringFunc(page, func(found string) string {
			return strings.Map(func(r rune) rune {
				if r == '\n' {
					return r
				}
				return '`'
			}, found)
		})
	}
	return page
}

// inHabit returns what a page should not have, a line of text for each place.
func inHabit(name, page string) (found []string) {
	page = prose(page)
	for _, h := range habits {
		for _, at := range h.phrase.FindAllStringIndex(page, -1) {
			phrase := page[at[0]:at[1]]
			if h.fine != nil && h.fine.MatchString(wordsBefore.FindString(page[:at[0]])+phrase) {
				continue
			}
			line := 1 + strings.Count(page[:at[0]], "\n")
			found = append(found, fmt.Sprintf("%s:%d: %q: write %s", name, line, strings.Join(strings.Fields(phrase), " "), h.instead))
		}
	}
	return found
}

// guides returns the pages for users and developers by their paths.
func guides(t *testing.T) map[string]string {
	t.Helper()
	all := pages(t)
	maps.DeleteFunc(all, func(name, _ string) bool {
		return !strings.HasPrefix(name, "docs/") && name != "README.md" && name != "CONTRIBUTING.md"
	})
	return all
}

// TestProse: pages have no phrase that makes a reader stumble.
func TestProse(t *testing.T) {
	all := guides(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, problem := range inHabit(name, all[name]) {
			t.Error(problem)
		}
	}
}

// Phrases are found in prose only, also across two lines, and their fine forms are left alone.
func TestInHabit(t *testing.T) {
	page := "# What was said\n\nThe log tells\nit, and goes\non: `nobody says`, [and](#says) there is no\nway, it is no longer so.\n\n    nobody\n\n" +
		"It is no proxy of\nits own. Code of its own package.\n\n| a | the same |\n\n```\nnobody\n```\nIn vain. Clients say so.\n"
	want := []string{
		`a.md:3: "tells": write that it shows, reports or sends, or that the other receives`,
		`a.md:4: "goes on": write continue`,
		`a.md:18: "In vain": write without success`,
		`a.md:10: "of its own.": write its own X`,
		`a.md:10: "is no proxy": write is not an X`,
		`a.md:13: "| the same |": write what the other cell has`,
	}
	got := inHabit("a.md", page)
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wordBudgets are how many words the pages of a group may have together, as `wc -w` counts them without the comments for make docs-check.
var wordBudgets = map[string]int{"Start": 5_350, "Deploy": 9_000, "Operate": 13_400, "Reference": 26_200, "Internals": 12_000}

var (
	comments     = regexp.MustCompile(`(?s)<!--.*?-->`)
	groupHeading = regexp.MustCompile(`^(?:## |\*\*)(\w+)(?:\*\*)?$`)
	listedPage   = regexp.MustCompile(`\]\((\w[^)]*\.md)\)`) // not one outside of docs, which begins with a dot
)

// pageGroups returns the group of each page by its path: the heading or bold line of docs/README.md below which it is listed.
func pageGroups(index string) map[string]string {
	groups := map[string]string{"README.md": "Start", "docs/README.md": "Start"}
	group := ""
	for line := range strings.SplitSeq(index, "\n") {
		if m := groupHeading.FindStringSubmatch(line); m != nil {
			group = m[1]
		}
		for _, m := range listedPage.FindAllStringSubmatch(line, -1) {
			groups["docs/"+m[1]] = group
		}
	}
	return groups
}

// TestWords: a group of pages has no more words than its budget.
func TestWords(t *testing.T) {
	all := guides(t)
	counts, sums := map[string][]string{}, map[string]int{}
	for name, group := range pageGroups(all["docs/README.md"]) {
		count := len(strings.Fields(comments.ReplaceAllString(all[name], "")))
		counts[group], sums[group] = append(counts[group], fmt.Sprintf("%6d %s", count, name)), sums[group]+count
	}
	for group := range sums {
		if wordBudgets[group] == 0 {
			t.Errorf("docs/README.md has the group %q, which has no budget of words: add it to wordBudgets", group)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(wordBudgets)) {
		budget := wordBudgets[group]
		t.Logf("%s: %d words, %d allowed", group, sums[group], budget)
		switch {
		case sums[group] == 0:
			t.Errorf("docs/README.md lists no page in the group %s", group)
		case sums[group] > budget:
			slices.Sort(counts[group])
			t.Errorf("the pages of the group %s have %d words, %d more than allowed (%d): shorten them, or move what stands elsewhere\n%s",
				group, sums[group], sums[group]-budget, budget, strings.Join(counts[group], "\n"))
		}
	}
}
