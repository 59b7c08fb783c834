// Package fleettest is the contract that every store of a fleet's ledger passes.
package fleettest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Place is where a test's stores keep their ledger. Each test gets a new one.
type Place struct {
	// Open opens one more store of the ledger. The test closes it.
	Open func(t testing.TB) fleet.Store
	// Restart makes the database another process with the same content; nil if there is no such thing.
	Restart func(t testing.TB)
}

// Run runs the contract's tests, or only those with the given names.
func Run(t *testing.T, newPlace func(t *testing.T) Place, only ...string) {
	tests := map[string]func(*testing.T, Place){
		"Alone":              alone,
		"Cap":                capHolds,
		"Release":            release,
		"Sequence":           sequence,
		"Quiet":              quiet,
		"Members":            members,
		"Leave":              leave,
		"Forget":             forget,
		"Dead":               dead,
		"Emptied":            emptied,
		"Concurrent":         concurrent,
		"Changed":            changed,
		"Restart":            restart,
		"ForgetAfterRestart": forgetAfterRestart,
		"Reopen":             reopen,
		"Closed":             closed,
		"BadReport":          badReport,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { tests[name](t, newPlace(t)) })
	}
}

// proxy is one that makes exchanges by hand.
type proxy struct {
	t        testing.TB
	store    fleet.Store
	id       fleet.ID
	sequence uint64
	epoch    fleet.Epoch
	version  int64
	sessions int
}

func id(n int) fleet.ID { return fleet.ID(fmt.Sprintf("%016x", n)) }

func join(t testing.TB, p Place, n int) *proxy {
	t.Helper()
	s := p.Open(t)
	t.Cleanup(func() { _ = s.Close() })
	return &proxy{t: t, store: s, id: id(n)}
}

// report returns the proxy's next report, which is whole if the proxy has no epoch.
func (p *proxy) report(claims map[string]fleet.Claim) *fleet.Report {
	p.sequence++
	return &fleet.Report{
		ID: p.id, Sequence: p.sequence, Epoch: p.epoch, Version: p.version, Full: p.epoch == "", Claims: claims,
		About: fleet.Member{
			Name: "proxy-" + string(p.id[14:]), Version: "1.0", Schema: 10, Address: "http://127.0.0.1:1", Host: "h", Instance: "i",
			Started: time.Unix(1000, 0), State: fleet.Serving, Sessions: p.sessions, Config: "7",
		},
	}
}

func (p *proxy) try(r *fleet.Report) (*fleet.Answer, error) {
	a, err := p.store.Exchange(p.t.Context(), r)
	if err == nil && !a.Stale {
		p.epoch, p.version = a.Epoch, a.Version
	}
	return a, err
}

func (p *proxy) exchange(r *fleet.Report) *fleet.Answer {
	p.t.Helper()
	a, err := p.try(r)
	if err != nil {
		p.t.Fatalf("proxy %s: exchange %d: %v", p.id, r.Sequence, err)
	}
	return a
}

// claim makes an exchange with one claim, and returns the places that the ledger has for the proxy then.
func (p *proxy) claim(server string, c fleet.Claim) int {
	p.t.Helper()
	a := p.exchange(p.report(map[string]fleet.Claim{server: c}))
	return places(a.Accounts, server, p.id)
}

// heartbeat makes an exchange without claims.
func (p *proxy) heartbeat() *fleet.Answer {
	p.t.Helper()
	return p.exchange(p.report(nil))
}

// places returns what a proxy has at a server.
func places(accounts []fleet.Account, server string, id fleet.ID) int {
	for _, a := range accounts {
		if a.Server != server {
			continue
		}
		for _, g := range a.Grants {
			if g.Proxy == id {
				return g.Places
			}
		}
	}
	return 0
}

func ledger(t testing.TB, s fleet.Store) *fleet.Ledger {
	t.Helper()
	l, err := s.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// accounts returns those of all servers, by server.
func accounts(t testing.TB, s fleet.Store) (all []fleet.Account) {
	t.Helper()
	l := ledger(t, s)
	for _, server := range slices.Sorted(maps.Keys(l.Accounts)) {
		all = append(all, *l.Accounts[server])
	}
	return all
}

func member(t testing.TB, s fleet.Store, id fleet.ID) (fleet.Member, bool) {
	t.Helper()
	m := ledger(t, s).Members[id]
	if m == nil {
		return fleet.Member{}, false
	}
	return *m, true
}
