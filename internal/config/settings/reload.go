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
	for i := range table {
		s := &table[i]
		was, is := s.text(&l.Settings), s.text(&now.Settings)
		secret := tokenOf(s.name)
		newToken := secret != nil && *secret.is(&l.Tokens) != *secret.is(&now.Tokens)
		if was == is && !newToken {
			continue
		}
		c := Change{s.name, s.shown(&l.Settings), s.shown(&now.Settings), now.Source(s.name), s.live}
		if was == is {
			c.Is += " (changed)"
		}
		changes = append(changes, c)
		if !s.live {
			continue
		}
		if err := s.value(&inForce.Settings).Set(is); err != nil {
			panic(err) // now has accepted this value
		}
		if newToken {
			*secret.is(&inForce.Tokens) = *secret.is(&now.Tokens)
		}
		inForce.sources[s.name] = now.Source(s.name)
	}
	return inForce, changes
}
