package pool

import (
	"encoding/json"
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

// Reasons are named in JSON, also where they are part of a value that has no address, and can be read again.
func TestReasonsInJSON(t *testing.T) {
	totals := Totals{Discarded: 3, RetiredIdle: 2, Reasons: Reasons{Cut: 3, Aged: 2}}
	b, err := json.Marshal(totals)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"reasons":{"aged":2,"cut":3}`; !strings.Contains(string(b), want) {
		t.Errorf("%s; want %s", b, want)
	}
	got := Totals{Reasons: Reasons{Lost: 1}} // to be overwritten
	if err := json.Unmarshal(b, &got); err != nil || got != totals {
		t.Errorf("%+v, %v; want %+v", got, err, totals)
	}
	if err := json.Unmarshal([]byte(`{"reasons":[1]}`), &got); err == nil {
		t.Error("read reasons without names")
	}
	counted := make(map[Reason]uint64)
	totals.Reasons.All(func(r Reason, n uint64) { counted[r] = n })
	if len(counted) != reasons || counted[Cut] != 3 || totals.Reasons.Sum() != 5 {
		t.Errorf("All: %v; sum %d", counted, totals.Reasons.Sum())
	}
}
