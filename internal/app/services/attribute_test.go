package services

import (
	"slices"
	"testing"
)

func TestAttribute(t *testing.T) {
	t.Parallel()
	works := func(size, limit, needs, others int) candidate {
		return candidate{size: size, weight: 1, limit: limit, usable: true, needs: needs, others: others}
	}
	down := candidate{size: 8, weight: 1}
	heavy := works(8, 0, 0, 0)
	heavy.weight = 3
	for _, c := range []struct {
		name    string
		waiting int
		servers []candidate
		want    []int
	}{
		{"evenly", 4, []candidate{works(8, 0, 0, 0), works(8, 0, 0, 0)}, []int{2, 2}},
		{"by size", 3, []candidate{works(8, 0, 0, 0), works(16, 0, 0, 0)}, []int{1, 2}},
		{"by weight", 4, []candidate{heavy, works(8, 0, 0, 0)}, []int{3, 1}},
		{"first what is granted", 3, []candidate{works(8, 0, 0, 0), works(8, 6, 4, 0)}, []int{1, 2}},
		{"where others leave room", 2, []candidate{works(8, 2, 2, 6), works(8, 6, 6, 0)}, []int{0, 2}},
		{"not where it does not work", 2, []candidate{down, works(4, 4, 4, 0)}, []int{0, 2}},
		{"unless none does", 2, []candidate{down, down}, []int{1, 1}},
		{"beyond the caps", 30, []candidate{works(8, 0, 0, 0), works(8, 0, 0, 0)}, []int{15, 15}},
		{"very many", 100_000, []candidate{works(8, 0, 0, 0), works(8, 0, 0, 0)}, []int{50_000, 50_000}},
		{"no client", 0, []candidate{works(8, 0, 0, 0)}, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			attribute(c.waiting, c.servers)
			var got []int
			for i := range c.servers {
				got = append(got, c.servers[i].attributed)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("dealt out %v; want %v", got, c.want)
			}
		})
	}
}
