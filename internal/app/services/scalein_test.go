package services

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func TestSortForScaleIn(t *testing.T) {
	t.Parallel()
	in := func(name, state string, usable bool, sessions int, remaining float64) api.BackendInUse {
		return api.BackendInUse{Name: name, State: state, Usable: usable, Sessions: sessions, RemainingSeconds: remaining}
	}
	all := []api.BackendInUse{
		in("many short ones", "enabled", true, 9, 30),
		in("one long one", "enabled", true, 1, 500),
		in("does not work", "enabled", false, 1, 900),
		in("few short ones", "enabled", true, 2, 8),
		in("drains", "draining", true, 4, 9000),
		in("more short ones", "enabled", true, 3, 8),
	}
	SortForScaleIn(all)
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	if want := []string{"drains", "does not work", "few short ones", "more short ones", "many short ones", "one long one"}; !slices.Equal(names, want) {
		t.Errorf("the order is %q; want %q", names, want)
	}
}

// A session is expected to last on for as long as others of its service have, and those of other proxies count, too.
func TestBackendsInUse(t *testing.T) {
	t.Parallel()
	r, _ := newFleetRig(t)
	a, b := startServer(t, 8), startServer(t, 8)
	r.apply(func(c *config.Content) {
		putService(c, "stt", nil)
		putBackend(c, "b", "stt", b.URL(), 8, nil)
		putBackend(c, "a", "stt", a.URL(), 8, nil)
	})
	r.services.SetLedger(ledgerOf(a.URL(), fleet.Grant{}))
	r.services.mu.Lock()
	for range 4 { // 15 s to 30 s
		r.services.services["stt"].members["b"].meter.Session.Observe(20 * time.Second)
	}
	r.services.mu.Unlock()
	got := r.services.Backends(map[string][]time.Duration{"b": {0, 24 * time.Second}})
	elsewhere := 0.0 // of 22.5 s that each session lasts on average, half remains, and a little more since the long ones are met more often
	for i := range got {
		if got[i].Name == "a" {
			elsewhere = got[i].LongestSeconds
		}
	}
	if elsewhere < 22.5/2 || elsewhere > 12 {
		t.Errorf("sessions of other proxies last on for %v s", elsewhere)
	}
	want := []api.BackendInUse{
		{Name: "a", Service: "stt", URL: a.URL(), State: "enabled", Usable: true, SessionsElsewhere: 6, RemainingSeconds: 6 * elsewhere, LongestSeconds: elsewhere},
		{Name: "b", Service: "stt", URL: b.URL(), State: "enabled", Usable: true, Sessions: 2, RemainingSeconds: 22.5 + 3, LongestSeconds: 22.5},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the backends are %+v;\nwant %+v", got, want)
	}
}
