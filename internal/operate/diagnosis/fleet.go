package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// frozenLong is how many seconds grants may be frozen before that is a failure: the living proxies need five to say what they hold.
const frozenLong = 30

// unseen is after how many seconds a proxy is not seen: it makes an exchange about once a second.
const unseen = 3

// ofFleet reports what keeps servers' caps from being shared, and which proxies are not as they should be.
func ofFleet(facts *Facts, found *findings) {
	f := facts.Stats.Fleet
	if f == nil {
		return
	}
	advice, about := "", subject{what: "fleet"}
	if f.Advice != "" {
		advice = "; " + f.Advice
	}
	ago := func(seconds float64) time.Time { return facts.Now.Add(-time.Duration(seconds * float64(time.Second))) }
	switch {
	case f.Mode == api.FleetWhole:
		found.add(FleetUnshared, about, "caps are not shared, so servers may see more connections than their caps: %s%s", f.Problem, advice).Cure = commandOnStore(f.Ledger)
	case f.Mode == api.FleetWaiting:
		found.add(FleetWaiting, about, "the ledger has not answered yet, so this proxy has no places: %s%s", f.Problem, advice).Cure = commandOnStore(f.Ledger)
	case f.Problem != "" && f.Mode == api.FleetAlone && sameDatabase(facts.Stats) && facts.Stats.Configuration.State == "stale":
		// No other proxy wants places, and ofConfiguration names the outage.
	case f.Problem != "":
		reason := cmp.Or(facts.Recent.LedgerReason, f.Problem)
		p := found.add(FleetUnreachable, about, "the ledger has not been reached for %s, so no proxy gets more places: %s%s", figures.Seconds(f.SinceSeconds), reason, advice)
		if p.Since, p.Cure = ago(f.SinceSeconds), commandOnStore(f.Ledger); f.Mode == api.FleetAlone {
			p.Level, p.Hurts = api.LevelWarning, api.HurtsOperator // it has all places
			p.Text = fmt.Sprintf("the ledger has not been reached for %s, and this proxy, which is alone, keeps all places: %s%s", figures.Seconds(f.SinceSeconds), reason, advice)
		} else if c := &facts.Stats.Configuration; sameDatabase(facts.Stats) && c.State == "stale" {
			p.Text += fmt.Sprintf(". Version %s of the configuration stays in force, and changes wait", c.Version)
		}
	}
	if f.Frozen {
		p := found.add(FleetFrozen, about, "frozen for %s: %s", figures.Seconds(f.FrozenSeconds), f.FrozenWhy)
		p.Since, p.Cure = ago(f.FrozenSeconds), "wsbouncer proxy ls"
		if f.FrozenSeconds > frozenLong {
			p.Level = api.LevelFailure
		}
	}
	for i := range f.Proxies {
		p := &f.Proxies[i]
		if p.Problem == "" {
			continue
		}
		text, cure := p.Problem, "wsbouncer proxy show "+p.Name
		if p.Places > 0 && p.SeenSeconds > unseen {
			text += ": it holds " + figures.Plural(p.Places, "place")
			cure = "wsbouncer proxy forget " + p.Name
		}
		about := subject{what: "proxy " + p.Name}
		k := slices.IndexFunc(found.all, func(o api.Problem) bool { return o.Kind == string(FleetProxy) && o.What == about.what })
		switch {
		case k < 0:
			found.add(FleetProxy, about, "%s", text).Cure = cure
		case found.all[k].Text != text: // two that have one name are one problem
			found.all[k].Text += "; another one: " + text
		}
	}
}

// OfMissing returns the problems of proxies that could not be asked for their part of an answer about the whole fleet, which no proxy knows by
// itself. They are not among those that the ledger told of.
func OfMissing(f *api.Fleet, now time.Time) []api.Problem {
	var found findings
	for i := range f.Missing {
		m := &f.Missing[i]
		p := found.add(FleetProxyMissing, subject{what: "proxy " + m.Name}, "%s", m.Why)
		p.Cure, p.Since = "wsbouncer proxy show "+m.Name, now
		k := slices.IndexFunc(f.Proxies, func(p api.Proxy) bool { return p.ID == m.ID })
		switch {
		case k < 0:
		case f.Proxies[k].SeenSeconds <= unseen:
			p.Level, p.Hurts = api.LevelWarning, api.HurtsOperator // it serves, or has just ended, as after an upgrade
		default:
			p.Since = now.Add(-time.Duration(f.Proxies[k].SeenSeconds * float64(time.Second)))
		}
	}
	return found.all
}

// Places says how a server's places are shared, such as "4 of 16 granted to this proxy, 12 to proxy-b"; empty if they are not. It names the
// proxies that have most.
func Places(b *api.Backend) string {
	p := b.Places
	switch {
	case p == nil:
		return ""
	case len(b.Proxies) == 0:
		return strings.Join(append([]string{fmt.Sprintf("%d of %d granted to this proxy", p.Grant, p.Cap)}, holders(p.Others)...), ", ")
	}
	all := make([]api.PlaceHolder, len(b.Proxies)) // of a whole fleet
	for i, one := range b.Proxies {
		all[i] = api.PlaceHolder{Name: one.Proxy, Places: one.Limit}
	}
	text := fmt.Sprintf("%d of %d granted", p.Granted, p.Cap)
	if names := holders(all); len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

// holders says how many places each proxy has, those with the most first, and how many all others have; nothing of those without.
func holders(all []api.PlaceHolder) (texts []string) {
	const most = 3
	all = slices.DeleteFunc(slices.Clone(all), func(h api.PlaceHolder) bool { return h.Places == 0 })
	slices.SortStableFunc(all, func(a, b api.PlaceHolder) int { return cmp.Compare(b.Places, a.Places) })
	sum := 0
	for i, h := range all {
		if i < most {
			texts = append(texts, fmt.Sprintf("%d to %s", h.Places, h.Name))
		} else {
			sum += h.Places
		}
	}
	if more := len(all) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d to %d more", sum, more))
	}
	return texts
}

// placesInUse says how the places of a service's backends are shared, if the clients that wait do so because this proxy has no more of them;
// empty if they do not.
func placesInUse(s *api.Stats, v *api.Service) string {
	const most = 3
	var all []string
	for i := range s.Backends {
		b := &s.Backends[i]
		if b.Service != v.Name || !b.TakesSessions() {
			continue
		}
		if b.Places == nil || !s.Fleet.Shares() || b.Leased+b.Resetting < b.Limit {
			return "" // they wait for something else
		}
		all = append(all, b.Name+": "+Places(b))
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more backends", more))
	}
	return strings.Join(all, "; ")
}
