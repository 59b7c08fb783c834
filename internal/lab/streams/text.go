package streams

import "github.com/wsbouncer/wsbouncer/internal/protocol/speaker"

// Alike returns the share of words that two texts have in common, from 0 to 1: one less the smallest number of words that must be inserted, removed or
// replaced to turn one into the other, by the words of the longer one. Case and punctuation do not count.
func Alike(a, b string) float64 {
	x, y := speaker.Words(a), speaker.Words(b)
	longer := max(len(x), len(y))
	if longer == 0 {
		return 1
	}
	row := make([]int, len(y)+1) // the distances of the words of a so far to all beginnings of b
	for j := range row {
		row[j] = j
	}
	for i, word := range x {
		before := row[0]
		row[0] = i + 1
		for j := range y {
			replaced := before
			if word != y[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return 1 - float64(row[len(y)])/float64(longer)
}
