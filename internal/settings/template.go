package settings

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// Template returns a file of settings that says nothing: each setting with what it is, its default, and what is allowed, as
// comments. Defaults are comments, too, so that a newer version's hold when they change.
func Template() []byte {
	var b strings.Builder
	b.WriteString(`# Settings of wsbouncer's process. What it serves is not here, but in the database (wsbouncer service, wsbouncer backend).
#
# Each setting stands here with its default. Remove the # before it to change it. Environment variables win over this file, and
# flags over both. 'wsbouncer check --config FILE' says what is wrong, and docs/settings.md more of each.
#
# A process that gets the signal SIGHUP reads this file again. Settings marked with * change then; others need a restart.
`)
	defaults := Defaults()
	for i := range table {
		s := &table[i]
		mark := ""
		if s.live {
			mark = " *"
		}
		fmt.Fprintf(&b, "\n# %s (%s, --%s)%s\n# Allowed: %s.\n", capital(s.help), Variable(s.name), s.name, mark, s.value(&defaults).Allowed())
		if s.unset != "" {
			fmt.Fprintf(&b, "# If it is empty: %s.\n", s.unset)
		}
		fmt.Fprintf(&b, "#%s: %s\n", s.name, s.yaml(&defaults))
	}
	return []byte(b.String())
}

// yaml returns the setting's value as YAML.
func (s *setting) yaml(of *Settings) string {
	text := s.text(of)
	if s.isList() {
		quoted := config.ListOf(text)
		for i := range quoted {
			quoted[i] = strconv.Quote(quoted[i])
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	if text == "" {
		return `""`
	}
	return text
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
