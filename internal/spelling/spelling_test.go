package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"connections", "connection-max-age", "warm", "weight"}
	for name, want := range map[string]string{
		"conections": "connections", "wram": "warm", "Weight": "weight", "wieght": "weight", "frobnicate": "", "x": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("nearest to %q is %q; it should be %q", name, got, want)
		}
	}
}
