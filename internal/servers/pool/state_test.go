package pool

import (
	"maps"
	"strings"
	"testing"
)

// Names are read in configurations and written to statistics and logs, so each value has one, and only one has it.
func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	check := func(kind, name string) {
		t.Helper()
		if key := kind + name; name == "" || seen[key] || strings.ToLower(name) != name {
			t.Errorf("%s %q is no name of its own", kind, name)
		} else {
			seen[key] = true
		}
	}
	for s := Dialing; s <= Gone; s++ {
		check("state", s.String())
	}
	for r := range Reason(reasons) {
		check("reason", r.String())
	}
	for m := Enabled; m <= Disabled; m++ {
		check("mode", m.String())
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q): %v, %v", m, got, err)
		}
	}
	for b := LeastLoaded; b <= Hash; b++ {
		check("balance", b.String())
		if got, err := ParseBalance(b.String()); got != b || err != nil {
			t.Errorf("ParseBalance(%q): %v, %v", b, got, err)
		}
		if got := BalanceNames()[b]; got != b.String() {
			t.Errorf("BalanceNames: %q; want %q", got, b)
		}
	}
}

// Who misspells a name is told which there are.
func TestUnknownNames(t *testing.T) {
	if _, err := ParseMode("off"); err == nil || !strings.Contains(err.Error(), "enabled, draining, disabled") {
		t.Errorf("ParseMode: %v", err)
	}
	if _, err := ParseBalance("fair"); err == nil || !strings.Contains(err.Error(), "least-loaded, round-robin") {
		t.Errorf("ParseBalance: %v", err)
	}
}

// Reasons have names, and add up.
func TestReasons(t *testing.T) {
	r := Reasons{Cut: 3, Aged: 2}
	if got := r.Named(); !maps.Equal(got, map[string]uint64{"cut": 3, "aged": 2}) {
		t.Errorf("Named: %v", got)
	}
	counted := make(map[Reason]uint64)
	r.All(func(r Reason, n uint64) { counted[r] = n })
	if len(counted) != reasons || counted[Cut] != 3 || r.Sum() != 5 {
		t.Errorf("All: %v; sum %d", counted, r.Sum())
	}
}
