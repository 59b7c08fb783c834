package api

import "testing"

func TestIsBackend(t *testing.T) {
	for _, c := range []struct {
		name, wanted string
		is           bool
	}{
		{"gpu", "gpu", true},
		{"gpu@10.0.0.1:2700", "gpu", true},
		{"gpu@10.0.0.1:2700", "gpu@10.0.0.1:2700", true},
		{"gpu@10.0.0.1:2700", "gpu@10.0.0.1", false},
		{"gpu-1", "gpu", false},
		{"gpu-1@10.0.0.1:2700", "gpu", false},
		{"gpu", "gpu@10.0.0.1:2700", false},
		{"", "gpu", false},
	} {
		q := SessionQuery{Backend: c.wanted}
		if IsBackend(c.name, c.wanted) != c.is || q.Matches(&Session{Backend: c.name}) != c.is {
			t.Errorf("%q is %q: %v; want %v", c.name, c.wanted, !c.is, c.is)
		}
	}
}
