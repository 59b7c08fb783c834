package settings

import (
	"errors"
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
// if one that runs is not among the new ones, and items name their listeners or have none: it must not lose what is meant for it, such as that it asks
// for clients' certificates. Settings that only fit others which need a restart wait for it with them.
func (l *Loaded) Reload(now *Loaded) (inForce *Loaded, changes []Change) {
	var waiting, tokens []string
	for _, s := range table {
		if s.token != nil {
			tokens = append(tokens, s.name)
		}
	}
	if slices.ContainsFunc(l.TLSListen, func(address string) bool { return !slices.Contains(now.TLSListen, address) }) &&
		(len(now.TLSListen) == 0 || l.namesListeners() || now.namesListeners()) {
		waiting = perListener
	}
	for _, more := range [][]string{nil, perListener, tokens} {
		waiting = slices.Concat(waiting, more)
		if inForce, changes = l.merge(now, waiting); inForce.check() == nil {
			return inForce, changes
		}
	}
	return l.merge(now, Names())
}

// check returns what is wrong with settings, some of which are of before a reload and others of after it.
func (l *Loaded) check() error {
	err := l.Check()
	for _, row := range rows(&l.Settings) {
		if row.token != nil && l.guessable(*row.token(&l.Tokens)) {
			err = errors.Join(err, shortToken(*row.token(&l.Tokens)))
		}
	}
	return err
}

// merge returns the settings of now that can change at run time, without those that wait for a restart, and all others of before.
func (l *Loaded) merge(now *Loaded, waiting []string) (inForce *Loaded, changes []Change) {
	inForce = &Loaded{Settings: l.Settings, File: now.File, Tokens: l.Tokens, sources: maps.Clone(l.sources)}
	before, after := rows(&l.Settings), rows(&now.Settings)
	for i, s := range rows(&inForce.Settings) {
		was, is := before[i].value.Text(), after[i].value.Text()
		newToken := s.token != nil && *s.token(&l.Tokens) != *s.token(&now.Tokens)
		if was == is && !newToken {
			continue
		}
		live := s.live && !slices.Contains(waiting, s.name)
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
