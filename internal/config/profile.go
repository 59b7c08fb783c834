package config

import (
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// Profile is a message protocol as a user describes it. Its name is its key in [Content].
type Profile struct {
	// YAML is the profile as it was written: what stands behind its name in a file of profiles.
	YAML string
}

func (p *Profile) fields() []field {
	return []field{
		{"yaml", "", "the profile, as docs/reference/write-a-profile.md describes it", value.NewCanonical(&p.YAML, "YAML", readYAML)},
	}
}

// readYAML returns a text of YAML without the indentation that all of it has, and with one line's end at its end.
func readYAML(text string) (string, error) {
	text = canonicalYAML(text)
	return text, checkYAML(text)
}

func canonicalYAML(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	indent, begin, end := -1, 0, 0
	for i, line := range lines {
		trimmed := strings.TrimLeft(line, " ")
		if strings.TrimSpace(trimmed) == "" {
			if end == 0 {
				begin = i + 1
			}
			continue
		}
		end = i + 1
		if indent < 0 && !strings.HasPrefix(trimmed, "#") {
			indent = len(line) - len(trimmed)
		}
	}
	if end == 0 {
		return ""
	}
	var b strings.Builder
	for _, line := range lines[begin:end] {
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		b.WriteString(line[min(spaces, max(indent, 0)):] + "\n")
	}
	return b.String()
}
