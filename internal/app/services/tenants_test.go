package services

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

func putTenant(c *config.Content, name string, share float64, guaranteed map[string]string) {
	t := config.NewTenant()
	t.Share, t.Guaranteed = share, guaranteed
	c.Tenants[name] = t
}

// Shares and guarantees change while clients wait and sessions run, and the statistics show who uses what.
func TestTenantsChangeLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve("gpu-1", startServer(t, 3).URL(), 3)
	r.apply(func(c *config.Content) {
		putTenant(c, "gold", 2, map[string]string{"stt": "1", "elsewhere": "7"})
		putTenant(c, config.DefaultTenant, 0.5, nil)
	})
	group := r.services.services["stt"].group
	var leased []*backend.Conn
	defer func() {
		for _, conn := range leased {
			conn.ReturnUnused()
		}
	}()
	acquire := func(tenant string) *pool.Waiter[*backend.Conn] {
		t.Helper()
		w := &pool.Waiter[*backend.Conn]{Tenant: tenant}
		switch conn, ok, err := group.Acquire(w); {
		case err != nil:
			t.Fatal(err)
		case ok:
			leased = append(leased, conn)
			return nil
		}
		return w
	}
	if acquire("small") != nil || acquire("other\n") != nil {
		t.Fatal("there is no connection")
	}
	w := acquire("small")
	if w == nil {
		t.Fatal("a guaranteed place was given to another tenant")
	}
	used := func(sessions, waiting, guaranteed int) []api.TenantService {
		return []api.TenantService{{Service: "stt", Sessions: sessions, Waiting: waiting, Guaranteed: guaranteed, Kept: guaranteed}}
	}
	want := []api.Tenant{
		{Name: "default", Share: 0.5},
		{Name: "gold", Share: 2, Services: used(0, 0, 1)},
		{Name: "small", Unconfigured: true, Share: 0.5, Sessions: 1, Waiting: 1, Totals: api.TenantTotals{Sessions: 1, Queued: 1}, Services: used(1, 1, 0)},
		{Name: "other\ufffd", Unconfigured: true, Share: 0.5, Sessions: 1, Totals: api.TenantTotals{Sessions: 1}, Services: used(1, 0, 0)},
	}
	stats := r.stats()
	if !reflect.DeepEqual(stats.Tenants, want) {
		t.Errorf("tenants %+v;\nwant    %+v", stats.Tenants, want)
	}
	if want := (api.OtherTenants{Count: 2, Sessions: 2, Waiting: 1, Totals: api.TenantTotals{Sessions: 2, Queued: 1}}); stats.OtherTenants != want {
		t.Errorf("others %+v; want %+v", stats.OtherTenants, want)
	}

	r.apply(func(c *config.Content) {
		delete(c.Tenants, "gold")
		putTenant(c, "small", 4, nil)
	})
	select {
	case conn := <-w.Ready():
		leased = append(leased, conn)
	default:
		t.Error("the place is still kept, though it is no longer guaranteed to anyone")
	}
	stats = r.stats()
	if got := stats.Tenant("small"); got == nil || got.Unconfigured || got.Share != 4 || got.Sessions != 2 {
		t.Errorf("small: %+v", got)
	}
	if stats.Tenant("gold") != nil {
		t.Error("gold is still listed")
	}
}

// The statistics list a bounded number of tenants that are not configured, those with the most.
func TestFewOtherTenantsAreListed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putTenant(c, "idle", 1, nil)
	})
	group := r.services.services["stt"].group
	for i := range maxOtherTenants + 50 {
		for range 1 + i/(maxOtherTenants+49) { // the last one has two
			w := &pool.Waiter[*backend.Conn]{Tenant: fmt.Sprintf("tenant-%03d", i)}
			if _, _, err := group.Acquire(w); err != nil {
				t.Fatal(err)
			}
			defer group.Leave(w, pool.TurnedAway)
		}
	}
	stats := r.stats()
	if len(stats.Tenants) != 1+maxOtherTenants || stats.Tenants[0].Name != "idle" || stats.Tenants[1].Name != "tenant-149" {
		t.Errorf("%d tenants are listed, first %+v", len(stats.Tenants), stats.Tenants[:2])
	}
	if want := maxOtherTenants + 50; stats.OtherTenants.Count != want || stats.OtherTenants.Waiting != want+1 {
		t.Errorf("others: %+v", stats.OtherTenants)
	}
}
