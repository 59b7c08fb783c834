package settings

import "maps"

// Change is a changed setting.
type Change struct {
	Name    string // of the setting
	Was, Is string // as they may be shown
	Source  string // of the new value; empty for the default
	Live    bool   // whether it changes at run time; otherwise it needs a restart
}

// Reload compares the settings in force with newly loaded ones. It returns the settings that are in force from now on: settings that
// can change at run time are new, and all others stay, so that the next Reload reports them again.
func (l *Loaded) Reload(now *Loaded) (inForce *Loaded, changes []Change) {
	inForce = &Loaded{Settings: l.Settings, File: now.File, Tokens: l.Tokens, sources: maps.Clone(l.sources)}
	before, after := rows(&l.Settings), rows(&now.Settings)
	for i, s := range rows(&inForce.Settings) {
		was, is := before[i].value.Text(), after[i].value.Text()
		newToken := s.token != nil && *s.token(&l.Tokens) != *s.token(&now.Tokens)
		if was == is && !newToken {
			continue
		}
		c := Change{s.name, before[i].shown(), after[i].shown(), now.Source(s.name), s.live}
		if was == is {
			c.Is += " (changed)"
		}
		changes = append(changes, c)
		if !s.live {
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
