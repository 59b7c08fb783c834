package metrics

import (
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// proxyStates are the states of proxies.
var proxyStates = []string{api.ProxyStarting, api.ProxyServing, api.ProxyDraining, api.ProxyUnseen}

// unseenAfter is after how many seconds without an exchange a proxy is suspected of being dead.
const unseenAfter = 3

// ofFleet returns the metrics of the proxies that share servers' places with this one. A proxy without a ledger has none of them.
func ofFleet() []family {
	of := func(read func(f *api.Fleet, put put)) func(*Snapshot, put) {
		return func(s *Snapshot, put put) {
			if s.Fleet != nil {
				read(s.Fleet, put)
			}
		}
	}
	return []family{
		gauge("proxy_info", "Always 1, with the proxy's name and id.", of(func(f *api.Fleet, put put) {
			if p := f.Self(); p != nil {
				put(1, p.Name, p.ID)
			}
		}), "name", "id"),
		gauge("fleet_proxies", "Proxies in the ledger: starting, serving, draining, or unseen for 3 s.",
			of(func(f *api.Fleet, put put) {
				n := make(map[string]int)
				for i := range f.Proxies {
					if p := &f.Proxies[i]; seesOthers(f) && p.SeenSeconds > unseenAfter {
						n[api.ProxyUnseen]++
					} else {
						n[p.State]++
					}
				}
				for _, state := range proxyStates {
					put(float64(n[state]), state)
				}
			}), "state"),
		gauge("fleet_unseen_seconds", "Time since another proxy last reached the ledger, unless this one cannot.", of(func(f *api.Fleet, put put) {
			for i := range f.Proxies {
				if p := &f.Proxies[i]; !p.Self && seesOthers(f) {
					put(p.SeenSeconds, p.Name, p.ID)
				}
			}
		}), "proxy", "id"),
		gauge("fleet_same_name", "1 while another serving proxy has this one's name.", of(func(f *api.Fleet, put put) {
			put(toFloat(sharesName(f)))
		})),
		gauge("fleet_ledger_reached", "1 while the ledger of grants works. At 0, no places move, or caps are not shared.",
			of(func(f *api.Fleet, put put) {
				put(toFloat(f.Problem == "" && f.Mode != api.FleetWhole && f.Mode != api.FleetWaiting))
			})),
		gauge("fleet_frozen",
			"1 while no places are granted, because proxies have yet to report theirs.",
			of(func(f *api.Fleet, put put) { put(toFloat(f.Frozen)) })),
		gauge("fleet_exchange_seconds", "Duration of the last exchange with the ledger.", of(func(f *api.Fleet, put put) { put(f.ExchangeSeconds) })),
	}
}

// seesOthers reports whether this proxy reaches the ledger: otherwise it sees no other proxy, however well they do.
func seesOthers(f *api.Fleet) bool { return f.Problem == "" }

// sharesName reports whether another proxy that serves and is seen has the name of this one.
func sharesName(f *api.Fleet) bool {
	me := f.Self()
	if me == nil || me.State == api.ProxyDraining {
		return false
	}
	return slices.ContainsFunc(f.Proxies, func(p api.Proxy) bool {
		return p.ID != me.ID && p.Name == me.Name && p.State != api.ProxyDraining && p.SeenSeconds <= unseenAfter
	})
}
