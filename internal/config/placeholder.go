package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// errPlaceholder: what is shown instead of a secret is no value.
var errPlaceholder = errors.New(secret.Hidden + " stands for a secret, so this was exported without the right to see secrets: export it with the operators' token or over the admin socket")

// isPlaceholder reports whether a text is, or has as one of its words, what is shown instead of a secret.
func isPlaceholder(text string) bool { return slices.Contains(strings.Fields(text), secret.Hidden) }

// refusePlaceholders refuses what is shown instead of secrets where a change would store it instead of these.
func (c *Content) refusePlaceholders(before *Content, problems *Problems) {
	for _, kind := range Kinds() {
		for _, name := range c.Names(kind) {
			if before.Has(kind, name) && tables[kind].same(before, c, name) {
				continue
			}
			values, old := c.Values(kind, name), before.Values(kind, name)
			for _, f := range Fields(kind) {
				text := values[f.Name]
				switch {
				case text == old[f.Name] || !strings.Contains(text, "hidden"):
				case f.IsMap:
					was := entriesOf(old[f.Name])
					entries := entriesOf(text)
					for _, key := range sortedKeys(entries) {
						if mayHide(kind, f.Name, key) && isPlaceholder(entries[key]) && entries[key] != was[key] {
							problems.add(kind, name, f.Name+"."+key, "%v", errPlaceholder)
						}
					}
				case mayHide(kind, f.Name, ""):
					if part := secret.Placeholder(text); part != "" {
						problems.add(kind, name, f.Name, "%s: %v", part, errPlaceholder)
					}
				}
			}
		}
	}
}
