package config

import (
	"slices"
	"strings"
)

// Shown returns the fields of an entity that differ from their defaults, as they may be shown to anybody: the values of headers
// that are no references, and parameters in URLs whose names look like secrets, are hidden.
func (c *Content) Shown(kind Kind, name string) Values {
	values := c.Values(kind, name)
	for _, f := range Fields(kind) {
		text, ok := values[f.Name]
		switch {
		case !ok:
		case f.IsMap:
			entries := entriesOf(text)
			for key, text := range entries {
				entries[key] = show(kind, f.Name, key, text)
			}
			values[f.Name] = MapText(entries)
		default:
			values[f.Name] = show(kind, f.Name, "", text)
		}
	}
	return values
}

// NewShownSnapshot is [NewSnapshot] for a content that may have been read without the right to see secrets: what is shown instead of a secret is
// not judged. It must not be stored.
func NewShownSnapshot(version string, content *Content, check ProfileCheck) (*Snapshot, error) {
	problems := slices.DeleteFunc(content.problems(check), func(p Problem) bool { return content.hides(&p) })
	if err := problems.err(); err != nil {
		return nil, err
	}
	return newSnapshot(version, content), nil
}

// hides reports whether a problem is that a field has not its value, but what is shown instead of a secret. The hash of a key is not shown at all.
func (c *Content) hides(p *Problem) bool {
	field, _, _ := strings.Cut(p.Field, ".")
	if p.Kind == "" || field == "" || !c.Has(p.Kind, p.Name) {
		return false
	}
	text := c.Values(p.Kind, p.Name)[field]
	return p.Kind == KindKey && field == "hash" && text == "" || strings.Contains(text, "hidden") && mayHide(p.Kind, field, "")
}

// ValidateAfter is [Content.Validate] for what a change has made of a content: it leaves out the problems that this had before, such as those of what is
// shown instead of secrets.
func (c *Content) ValidateAfter(before *Content, check ProfileCheck) error {
	had := before.problems(check)
	return slices.DeleteFunc(c.problems(check), func(p Problem) bool { return slices.Contains(had, p) }).err()
}
