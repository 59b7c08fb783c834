package fleet_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/proof/explore"
)

// long makes the tests explore what takes minutes.
var long = flag.Bool("long", false, "explore what takes minutes")

// TestEveryState explores small worlds as a whole. `make fleet-model` explores larger ones.
func TestEveryState(t *testing.T) {
	for _, test := range []struct {
		name string
		o    explore.Options
	}{
		{"losses", explore.Options{Proxies: 2, Cap: 2, Faults: explore.Faults{Losses: 1}, Live: 20}},
		{"crash and restart", explore.Options{Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Crashes: 1, Restarts: 1}, Live: 20}},
		{"failover", explore.Options{Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Databases: 1, Lost: 1}, Live: 50}},
		{"forgotten", explore.Options{Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Forgets: 1}, Live: 20}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := explore.Explore(test.o)
			t.Log(r)
			if r.Wrong != "" || !r.Complete {
				t.Error("the exploration did not end well")
			}
			test.o.Workers, test.o.Live = 2, 0
			if again := explore.Explore(test.o); again.States != r.States || again.Steps != r.Steps {
				t.Errorf("two workers see %d states and take %d steps, one %d and %d", again.States, again.Steps, r.States, r.Steps)
			}
		})
	}
}

// TestEveryGuardIsNeeded leaves out each guard in turn: the exploration must find what it is for. With -long, it must do so with proxies that are
// not interchangeable, too, and must find nothing while the guard is there: among all states, or for 20 s.
func TestEveryGuardIsNeeded(t *testing.T) {
	options := map[string]explore.Options{
		"sequence": {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Delays: 1}},
		"departed": {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 2, Delays: 1, Forgets: 1}},
		"identity": {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Databases: 1, Lost: 1}},
		"stranger": {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 2, Databases: 2}},
		"join":     {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 3, Databases: 1, Cuts: 1, Delays: 1, Lost: 2}},
		"beats":    {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 3, Cuts: 1, Timeouts: 1, Delays: 1}},
		"lease":    {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Databases: 1, Lost: 2}},
		"missing":  {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 2, Databases: 1, Cuts: 1, Lost: 1}},
		"others":   {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 2, Databases: 1, Cuts: 1, Lost: 3}},
		"frozen":   {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Databases: 1, Lost: 1}},
		"returned": {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 3, Databases: 1, Forgets: 1, Cuts: 1, Lost: 3}},
		"forget":   {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 4, Databases: 1, Forgets: 2, Cuts: 1, Lost: 3}},
		"free":     {Proxies: 2, Cap: 1},
		"used":     {Proxies: 2, Cap: 1},
		"granted":  {Proxies: 2, Cap: 2, Faults: explore.Faults{Losses: 2}},
		"forgot":   {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Forgets: 1}},
		"timeout":  {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 2, Cuts: 1, Timeouts: 1}},
		"answered": {Proxies: 2, Cap: 1, Faults: explore.Faults{Total: 1, Answers: 1}},
	}
	names := fleet.Guards()
	slices.Sort(names)
	orders := []bool{false}
	if *long {
		orders = []bool{false, true}
	}
	for _, name := range names {
		if name == "lent" { // TestLendingIsExact leaves it out
			continue
		}
		for _, ordered := range orders {
			t.Run(fmt.Sprintf("%s ordered=%v", name, ordered), func(t *testing.T) {
				var r *explore.Result
				o := options[name]
				o.Ordered, o.Most = ordered, 500000
				fleet.WithoutGuard(name, func() { r = explore.Explore(o) })
				t.Log(r)
				if r.Wrong == "" {
					t.Error("nothing is found without it")
				}
				if !*long {
					return
				}
				o.Most, o.For = 0, 20*time.Second
				if r = explore.Explore(o); r.Wrong != "" {
					t.Errorf("something is found with it: %v", r)
				}
				t.Log("with it:", r)
			})
		}
	}
}
