package settings

import "maps"

// Change is a setting that is not what it was.
type Change struct {
	Name    string // of the setting
	Was, Is string // as they may be shown
	Source  string // where it is said now; empty if nowhere, so that it is the default
	Live    bool   // whether it can change while the process runs; otherwise a restart is needed
}

// Reload compares the settings in force with what the sources say now. It returns those that are in force from now on: what can
// change while the process runs is new, and everything else is as it was, so that it is told again at the next time.
func (l *Loaded) Reload(now *Loaded) (inForce *Loaded, changes []Change) {
	inForce = &Loaded{Settings: l.Settings, File: now.File, Token: l.Token, sources: maps.Clone(l.sources)}
	for i := range table {
		s := &table[i]
		was, is := s.text(&l.Settings), s.text(&now.Settings)
		newToken := s.name == "admin-token" && l.Token != now.Token
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
			inForce.Token = now.Token
		}
		inForce.sources[s.name] = now.Source(s.name)
	}
	return inForce, changes
}
