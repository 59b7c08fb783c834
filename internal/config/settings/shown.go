package settings

import "strings"

// Shown is a setting as people may see it.
type Shown struct {
	Name    string
	Value   string // without secrets; those of a list are separated by commas; empty for none
	Default string // its value, or words
	Source  string // file:line:column, a variable or a flag; empty for the default
	Live    bool   // whether it changes at run time
}

// Shown returns all settings as they are in force; database says that the configuration is in one, see [Settings.InUse].
func (l *Loaded) Shown(database bool) []Shown {
	inUse := l.InUse(database)
	now := rows(&inUse)
	all := make([]Shown, len(table))
	for i := range table {
		standard := &table[i]
		all[i] = Shown{standard.name, now[i].text(), standard.text(), l.Source(standard.name), standard.live}
		if all[i].Default == "" {
			all[i].Default = standard.unset
		}
	}
	return all
}

// KindOf returns which kind of source a source is: "flag", "environment", "file", or "default" for an empty one.
func KindOf(source string) string {
	switch {
	case source == "":
		return "default"
	case strings.HasPrefix(source, "--"):
		return "flag"
	case strings.Contains(source, ":"): // a place in the file
		return "file"
	}
	return "environment"
}
