package settings

import (
	"maps"
	"slices"
)

// Change is a changed setting.
type Change struct {
	Name    string // of the setting
	Was, Is string // as they may be shown
	Source  string // of the new value; empty for the default
	Live    bool   // whether it has changed at run time; otherwise it needs a restart
}

// Reload compares the settings in force with newly loaded ones. It returns the settings that are in force from now on: settings that
// can change at run time are new, and all others stay, so that the next Reload reports them again. What listeners present and ask for stays, too,
// if one that runs is not among the new ones, and items name their listeners: it must not lose what is meant for it, such as that it asks for clients'
// certificates.
func (l *Loaded) Reload(now *Loaded) (inForce *Loaded, changes []Change) {
	inForce = &Loaded{Settings: l.Settings, File: now.File, Tokens: l.Tokens, sources: maps.Clone(l.sources)}
	moved := slices.ContainsFunc(l.TLSListen, func(address string) bool { return !slices.Contains(now.TLSListen, address) }) &&
		(l.namesListeners() || now.namesListeners())
	before, after := rows(&l.Settings), rows(&now.Settings)
	for i, s := range rows(&inForce.Settings) {
		was, is := before[i].value.Text(), after[i].value.Text()
		newToken := s.token != nil && *s.token(&l.Tokens) != *s.token(&now.Tokens)
		if was == is && !newToken {
			continue
		}
		live := s.live && !(moved && slices.Contains(perListener, s.name))
		c := Change{s.name, before[i].shown(), after[i].shown(), now.Source(s.name), live}
		if was == is {
			c.Is += " (changed)"
		}
		changes = append(changes, c)
		if !live {
			continue
		}
		if err := s.value.Set(is); err != nil {
			panic(err) // now has accepted this value
		}
		if newToken {
			*s.token(&inForce.Tokens) = *s.token(&now.Tokens)
		}
		inForce.sources[s.name] = now.Source(s.name)
	}
	return inForce, changes
}
