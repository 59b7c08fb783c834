package file

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Encode returns a configuration as YAML that [Decode] reads: everything that is not the default, in a stable order.
func Encode(content *config.Content) []byte {
	var b strings.Builder
	b.WriteString("# Services, backends, profiles, tenants and keys of wsbouncer. Fields that are missing here have their defaults. Commands that\n" +
		"# change the configuration rewrite this file, and keep only the comments in profiles.\n")
	empty := true
	for _, s := range sections {
		names := content.Names(s.kind)
		if len(names) == 0 {
			continue
		}
		empty = false
		if s.kind == config.KindProfile {
			b.WriteString("\n" + string(content.ProfilesYAML()))
			continue
		}
		b.WriteString("\n" + s.key + ":\n")
		for _, name := range names {
			writeEntity(&b, s.kind, name, content.Values(s.kind, name))
		}
	}
	if empty { // a store takes a file that says nothing for one that was lost
		b.WriteString("\nservices: {}\n")
	}
	return []byte(b.String())
}

func writeEntity(b *strings.Builder, kind config.Kind, name string, values config.Values) {
	if len(values) == 0 {
		b.WriteString("  " + quote(name) + ": {}\n")
		return
	}
	b.WriteString("  " + quote(name) + ":\n")
	for _, f := range config.Fields(kind) {
		text, ok := values[f.Name]
		switch {
		case !ok:
		case f.IsMap:
			b.WriteString("    " + f.Name + ":\n")
			entries := config.MapOf(text)
			for _, key := range slices.Sorted(maps.Keys(entries)) {
				b.WriteString("      " + quote(key) + ": " + quote(entries[key]) + "\n")
			}
		case f.IsList:
			b.WriteString("    " + f.Name + ":\n")
			for _, item := range config.ListOf(text) {
				b.WriteString("      - " + quote(item) + "\n")
			}
		default:
			b.WriteString("    " + f.Name + ": " + quote(text) + "\n")
		}
	}
}

// plain are texts that need no quotes, whatever the reader of YAML: no colon before a space, no indicator.
var plain = regexp.MustCompile(`^[A-Za-z0-9/.][A-Za-z0-9/._+@=?&~%-]*(:[A-Za-z0-9/._+@=?&~%-]+)*$`)

// words mean something else than themselves without quotes, to some readers of YAML.
var words = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf"}

func quote(text string) string {
	if plain.MatchString(text) && (!slices.Contains(words, strings.ToLower(text)) || text == "true" || text == "false") {
		return text
	}
	return strconv.Quote(text) // whose escapes YAML knows, too
}
