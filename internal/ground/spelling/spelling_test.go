package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"connections", "connection-max-age", "warm", "weight"}
	for name, want := range map[string]string{
		"conections": "connections", "wram": "warm", "Weight": "weight", "wieght": "weight", "frobnicate": "", "x": "",
		"onnections": "connections", "awrm": "warm", "freight": "", "varmed": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("nearest to %q is %q; it should be %q", name, got, want)
		}
	}
}

// Names that a single slip leads to are all near.
func TestNear(t *testing.T) {
	known := []string{"serve", "service", "session", "settings"}
	for name, want := range map[string]string{"servce": "serve service", "serv": "serve service", "sevice": "service", "sesson": "session", "zzz": ""} {
		if got := strings.Join(Near(name, known), " "); got != want {
			t.Errorf("near %q are %q; they should be %q", name, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	many := strings.Split(strings.Repeat("n", maxListed+1), "")
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"wram", []string{"warm", "weight"}, `unknown field "wram": did you mean "warm"? Use one of warm, weight`},
		{"zzz", []string{"warm", "weight"}, `unknown field "zzz": use one of warm, weight`},
		{"wram", []string{"warm"}, `unknown field "wram": did you mean "warm"?`},
		{"zzz", []string{"warm"}, `unknown field "zzz": use warm`},
		{"zzz", nil, `unknown field "zzz": none exists`},
		{"zzz", many, `unknown field "zzz": use one of n` + strings.Repeat(", n", maxListed-1) + " and 1 more"},
	} {
		if got := Unknown("field", c.name, c.known).Error(); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
}
