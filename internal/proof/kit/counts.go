package kit

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Sum returns the sum of counts.
func Sum[K comparable](counts map[K]int) (n int) {
	for _, m := range counts {
		n += m
	}
	return n
}

// Tallied returns counts by kind as text, sorted by kind and without zeros; "-" for none.
func Tallied[K cmp.Ordered, N int | uint64](counts map[K]N) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if counts[kind] > 0 {
			all = append(all, fmt.Sprintf("%v: %d", kind, counts[kind]))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

// Draw returns the index of one of several shares, each with a probability in proportion. Their sum must be positive.
func Draw(dice *rand.Rand, shares []int) (i int) {
	sum := 0
	for _, share := range shares {
		sum += share
	}
	for n := dice.IntN(sum); n >= shares[i]; i++ {
		n -= shares[i]
	}
	return i
}
