package services

import (
	"reflect"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// ledgerOf returns a ledger in which this proxy, a, shares a server with b, c and the nameless d.
func ledgerOf(url string, own fleet.Grant) *Ledger {
	own.Proxy = "a"
	return &Ledger{
		Self: "a",
		Accounts: []fleet.Account{{Server: config.ServerOf(url), Grants: []fleet.Grant{
			own,
			{Proxy: "b", Places: 2, Claim: fleet.Claim{Cap: 8, Needs: 5, Waiting: 3, Waited: 7}},
			{Proxy: "c", Claim: fleet.Claim{Cap: 9, Needs: 1, Waiting: 0, Waited: 9}},
			{Proxy: "d", Places: 3, Claim: fleet.Claim{Cap: 8, Needs: 3}},
		}}},
		Members: []fleet.Member{{ID: "a", Name: "proxy-a"}, {ID: "b", Name: "proxy-b"}, {ID: "c", Name: "proxy-c"}},
	}
}

// The statistics tell how a server is shared, and what the service's clients need at all proxies. What this proxy itself needs is known
// better than the ledger knows it.
func TestStatsOfFleet(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	a := startServer(t, 8)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 8, func(b *config.Backend) { b.Warm = 1 })
	})
	r.grant(a.URL(), 2)
	r.services.SetLedger(ledgerOf(a.URL(), fleet.Grant{Places: 3, Claim: fleet.Claim{Cap: 8, Needs: 8, Waiting: 8, Waited: 99}}))
	r.join("/stt")
	got := r.backend("a").Places
	want := &api.Places{Grant: 2, Granted: 8, Cap: 8, Needs: 10, Others: []api.PlaceHolder{
		{ID: "d", Name: "d", Places: 3, Needs: 3}, {ID: "b", Name: "proxy-b", Places: 2, Needs: 5},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the places are %+v; want %+v", got, want)
	}
	service := r.stats().Services[0]
	if want := (api.ServiceDemand{Needs: 10, Capacity: 8, Waiting: 3, OldestSeconds: 7}); service.Fleet != want || service.Utilisation != 1.25 {
		t.Errorf("the demand is %+v, utilisation %v; want %+v", service.Fleet, service.Utilisation, want)
	}
	r.services.SetLedger(nil)
	r.services.SetGrants(nil)
	if b := r.backend("a"); b.Places != nil || b.Limit != 8 {
		t.Errorf("without a fleet the backend has %+v, limit %d", b.Places, b.Limit)
	}
	service = r.stats().Services[0]
	if want := (api.ServiceDemand{Needs: 1, Capacity: 8}); service.Fleet != want {
		t.Errorf("without a fleet the demand is %+v; want %+v", service.Fleet, want)
	}
}

// Without a place, a proxy is ready if one is granted when a client waits: while the ledger answers.
func TestReadyWithoutPlaces(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	a := startServer(t, 4)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 4, nil)
	})
	r.awaitUnready("service stt: no place granted at "+a.URL(), "the ledger of the fleet has not answered yet")
	r.services.SetLedger(&Ledger{Self: "a", Trouble: "the database is away"})
	r.awaitUnready("the database is away")
	r.services.SetLedger(&Ledger{Self: "a"})
	r.awaitReady()
	r.services.SetLedger(&Ledger{Self: "a", Trouble: "the database is away"})
	r.awaitUnready("the database is away") // the service has never had a place, so its clients would all be refused
}

// What a service has served counts, too: a proxy that serves without the ledger stays ready when its places are gone.
func TestReadyAfterServing(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	a := startServer(t, 4)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "a", "stt", a.URL(), 4, nil)
	})
	r.services.SetLedger(&Ledger{Self: "a", Trouble: "the database is away"})
	r.grant(a.URL(), 1) // grant-without-database
	wstest.Eventually(t, "the place is used", func() bool { return r.backend("a").Idle == 1 })
	r.awaitReady()
	r.grant(a.URL(), 0)
	r.services.SetLedger(&Ledger{Self: "a", Trouble: "the database is away"})
	wstest.Eventually(t, "the place is given back", func() bool { return r.backend("a").Idle+r.backend("a").Retiring == 0 })
	r.awaitReady()
}
