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
	b.WriteString(`# Settings of the wsbouncer process. The configuration (services, backends, profiles, tenants and keys) is not here, but in the
# database: 'wsbouncer config --help'.
#
# Each setting shows its default. Remove the # in front of a setting to change it. Environment variables override this file, and
# flags override both. 'wsbouncer check --settings FILE' reports errors; docs/reference/settings.md describes the settings.
#
# SIGHUP makes the process read this file again. Settings marked with * change immediately; the others need a restart.
`)
	for i := range table {
		s := &table[i]
		if s.advanced && !table[i-1].advanced {
			b.WriteString("\n# Advanced: the defaults suit nearly every proxy.\n")
		}
		mark := ""
		if s.live {
			mark = " *"
		}
		fmt.Fprintf(&b, "\n# %s (%s, --%s)%s\n# Allowed: %s.\n", capital(s.help), Variable(s.name), s.name, mark, s.value.Allowed())
		if s.unset != "" {
			fmt.Fprintf(&b, "# Default if empty: %s.\n", s.unset)
		}
		if s.deprecated != "" {
			fmt.Fprintf(&b, "# Deprecated: %s.\n", s.deprecated)
		}
		fmt.Fprintf(&b, "#%s: %s\n", s.name, s.yaml())
	}
	return []byte(b.String())
}

// yaml returns the setting's value as YAML.
func (s *setting) yaml() string {
	text := s.value.Text()
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
