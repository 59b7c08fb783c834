package configtest

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// explained has the values that docs/reference/configuration.md explains once, below "Values".
	explained = strings.NewReplacer(
		"a number for each second, minute or hour, such as 10/s, 100/m or 1000/h; 0 for no limit", "a rate",
		"a size for each second, minute or hour, such as 64KiB/s or 10MiB/m; 0 for no limit", "a rate of bytes",
		"a duration of audio for each day or month (UTC), such as 10h/day or 300h/month; 0 for no limit", "a quota",
		", which may contain {tenant}, {subject}, {key}, {method}, {client}", "",
		"sizes such as 4096, 512KiB or 16MiB", "a size", "0 to 2147483647", "a number")
	usual = regexp.MustCompile(`; (?:0 for (?:no limit|never|none)|empty for (?:none|any))$`) // explained there, too
	span  = regexp.MustCompile(`^(\d\S*) to (\d[^\s,]*)`)
)

// Meaning returns how the reference shows the help text of a field or a setting: without what "Values" explains once.
func Meaning(help string) string { return usual.ReplaceAllString(help, "") }

// Documented returns how the reference shows the values of a field or a setting: what is allowed, and the default in bold, unless it is
// empty.
func Documented(standard, allowed string) string {
	allowed = span.ReplaceAllString(explained.Replace(allowed), "${1}–${2}")
	if standard == "" {
		return allowed
	}
	bold := "**" + strings.ReplaceAll(standard, "*", `\*`) + "**"
	if values := strings.Split(allowed, ", "); slices.Contains(values, standard) {
		values[slices.Index(values, standard)] = bold
		return strings.Join(values, ", ")
	}
	return bold + ", " + strings.TrimSuffix(allowed, ", or "+standard)
}
