package services

import (
	"slices"
	"testing"
)

// The servers that are left have room together for the sessions of any one of them.
func TestStandby(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all  []refuge
		want []int
	}{
		"none":            {nil, []int{}},
		"one":             {[]refuge{{5, true}}, []int{0}},
		"two":             {[]refuge{{5, true}, {2, true}}, []int{2, 5}},
		"three":           {[]refuge{{5, true}, {2, true}, {0, true}}, []int{1, 3, 3}},
		"one is drained":  {[]refuge{{5, false}, {2, true}, {0, true}}, []int{0, 3, 3}},
		"all are drained": {[]refuge{{5, false}, {2, false}}, []int{0, 0}},
	} {
		if got := standbyOf(c.all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}
