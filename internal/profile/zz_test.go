package profile

import "testing"

func TestZZ(t *testing.T) {
	for _, s := range scenes {
		for _, n := range s.nasty {
			p := s.profile(t, "")
			served, reused := 0, 0
			for seed := range uint64(25) {
				w := s.run(p, n, seed+100, 200000)
				if w.wrong != "" {
					t.Fatal(s.name, n, seed, w.wrong)
				}
				served += w.served
				reused += w.reused
			}
			t.Log(s.name, n, served, reused)
		}
	}
}
