package diagnosis

import (
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// frozenLong is how many seconds grants may be frozen before that is a failure: the living proxies need five to say what they hold.
const frozenLong = 30

// unseen is after how many seconds a proxy is not seen: it makes an exchange about once a second.
const unseen = 3

// ofFleet tells what keeps servers' caps from being shared, and which proxies are not as they should be.
func ofFleet(f *api.Fleet, add func(Level, string, time.Time, string, ...any)) {
	if f == nil {
		return
	}
	advice := ""
	if f.Advice != "" {
		advice = "; " + f.Advice
	}
	switch {
	case f.Mode == api.FleetWhole:
		add(Failure, "fleet", time.Time{}, "caps are not shared, so servers may see more connections than their caps: %s%s", f.Problem, advice)
	case f.Mode == api.FleetWaiting:
		add(Failure, "fleet", time.Time{}, "the ledger has not answered yet, so this proxy has no places: %s%s", f.Problem, advice)
	case f.Problem != "":
		add(Failure, "fleet", time.Time{}, "the ledger has not been reached for %s, so no proxy gets more places: %s%s", figures.Seconds(f.SinceSeconds), f.Problem, advice)
	}
	if f.Frozen {
		level := Warning
		if f.FrozenSeconds > frozenLong {
			level = Failure
		}
		add(level, "fleet", time.Time{}, "frozen for %s: %s", figures.Seconds(f.FrozenSeconds), f.FrozenWhy)
	}
	told := make(map[string]bool)
	for i := range f.Missing {
		m := &f.Missing[i]
		told[m.ID] = true
		level := Failure
		if slices.ContainsFunc(f.Proxies, func(p api.Proxy) bool { return p.ID == m.ID && p.SeenSeconds <= unseen }) {
			level = Warning // it serves, or has just ended, as after an upgrade
		}
		add(level, "proxy "+m.Name, time.Time{}, "%s", m.Why)
	}
	for i := range f.Proxies {
		p := &f.Proxies[i]
		if p.Problem == "" || told[p.ID] || told[p.Name+p.Problem] {
			continue
		}
		told[p.Name+p.Problem] = true // two that have one name are one problem
		text := p.Problem
		if p.Places > 0 && p.SeenSeconds > unseen {
			text += ": it holds " + figures.Plural(p.Places, "place")
		}
		add(Warning, "proxy "+p.Name, time.Time{}, "%s", text)
	}
}
