// Package peers makes the proxies of a fleet known to each other, and lets one of them answer for all: it asks the admin APIs of the
// others, each with a time-out, and says what it could not learn. It never touches a session, and keeps nothing but connections.
package peers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// clashAfter is how long a proxy must have run before its name is another's, too: at the end of an upgrade, the ledger says for a moment that
// the process before it still serves.
const clashAfter = 10 * time.Second

// Ledger is this proxy's connection to the ledger, such as its [agent.Agent]. Its methods may be called from any goroutine.
type Ledger interface {
	// Status returns what this proxy knows of the fleet. It waits for nothing.
	Status() *agent.Status
	// Forget removes a proxy that an operator declares dead.
	Forget(ctx context.Context, id fleet.ID) error
}

// View is what one proxy knows of the fleet at one instant. It is not changed.
type View agent.Status

// member returns what is known of a proxy; nil for an unknown one.
func (v *View) member(id fleet.ID) *fleet.Member {
	for i := range v.Members {
		if v.Members[i].ID == id {
			return &v.Members[i]
		}
	}
	return nil
}

// label returns what people call a proxy: its name, with the beginning of its id if another has the name, too.
func (v *View) label(id fleet.ID) string {
	m := v.member(id)
	if m == nil {
		return string(id)
	}
	for i := range v.Members {
		if other := &v.Members[i]; other.Name == m.Name && other.ID != id {
			return fmt.Sprintf("%s (%.4s)", m.Name, id)
		}
	}
	return m.Name
}

// Reachable reports whether another proxy can bring clients to this one: at its address, if it has a token for proofs, or, if it has an admin socket, from
// the same state directory.
func (v *View) Reachable(token, socket bool) bool {
	self := v.member(v.Self)
	return self != nil && slices.ContainsFunc(v.Members, func(m fleet.Member) bool {
		isNear := m.Host != "" && m.Host == self.Host && m.Instance == self.Instance
		return m.ID != self.ID && m.State != fleet.Draining && (token && unusable(&m, self) == "" || socket && isNear)
	})
}

// Shown returns the view as the admin API shows it.
func (v *View) Shown(now time.Time) api.Fleet {
	f := api.Fleet{
		Mode: cmp.Or(string(v.Mode), api.FleetOff), Ledger: v.Ledger, Problem: v.Problem, Advice: v.Advice, Frozen: v.Frozen,
		ExchangeSeconds: v.Took.Seconds(), Proxies: []api.Proxy{},
	}
	if v.Problem != "" {
		f.SinceSeconds = now.Sub(v.Lost).Seconds()
	}
	if v.Frozen {
		f.FrozenWhy, f.FrozenSeconds = (*agent.Status)(v).Line(), now.Sub(v.FrozenSince).Seconds()
	}
	places := make(map[fleet.ID]int)
	for i := range v.Accounts {
		for _, g := range v.Accounts[i].Grants {
			places[g.Proxy] += g.Places
		}
	}
	names := make(map[string]int) // how many that serve have it: in an upgrade, the one that starts or drains has the other one's
	for i := range v.Members {
		if m := &v.Members[i]; m.State == fleet.Serving && v.Unseen[m.ID] <= fleet.Unseen && now.Sub(m.Started) >= clashAfter {
			names[m.Name]++
		}
	}
	for i := range v.Members {
		m := &v.Members[i]
		p := api.Proxy{
			ID: string(m.ID), Name: m.Name, Self: m.ID == v.Self, Version: m.Version, Address: m.Address, Host: shortened(m.Host),
			State: string(m.State), AgeSeconds: max(now.Sub(m.Started).Seconds(), 0), Sessions: m.Sessions, Configuration: m.Config,
			Places: places[m.ID],
		}
		if !p.Self {
			p.SeenSeconds = v.Unseen[m.ID].Seconds()
		}
		switch {
		case !p.Self && v.Unseen[m.ID] > fleet.Unseen && v.Problem != "": // this proxy sees no other
		case !p.Self && v.Unseen[m.ID] > fleet.Unseen:
			p.State, p.Problem = api.ProxyUnseen, notSeen(v.Unseen[m.ID])
		case names[m.Name] > 1 && m.State == fleet.Serving:
			p.Problem = "another proxy has the same name: give each its own with --proxy-name"
		}
		f.Proxies = append(f.Proxies, p)
	}
	slices.SortFunc(f.Proxies, func(a, b api.Proxy) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return f
}

// Grants returns what a proxy has of each server, by server.
func (v *View) Grants(id fleet.ID) []api.ProxyGrant {
	var all []api.ProxyGrant
	for i := range v.Accounts {
		for _, g := range v.Accounts[i].Grants {
			if g.Proxy == id {
				all = append(all, api.ProxyGrant{Server: secret.URL(v.Accounts[i].Server), Places: g.Places, Needs: g.Claim.Needs, Wants: g.Claim.Wants})
			}
		}
	}
	slices.SortFunc(all, func(a, b api.ProxyGrant) int { return cmp.Compare(a.Server, b.Server) })
	return all
}

// notSeen says for how long a proxy was not seen.
func notSeen(d time.Duration) string { return fmt.Sprintf("not seen for %.0f s", d.Seconds()) }

// shortened returns the beginning of a host's identity: enough to see which proxies share a host.
func shortened(host string) string { return host[:min(len(host), 8)] }
