// Package spelling finds the name that a mistyped one most likely stands for, and words the error about it.
package spelling

import "strings"

// Nearest returns the known name that a mistyped one most likely stands for, or "" when none is near.
func Nearest(name string, known []string) string {
	best, distance := "", len(name)/3+2 // one slip in a short name, a few in a long one
	for _, k := range known {
		if len(name) >= 4 && strings.HasPrefix(k, strings.ToLower(name)) { // drain for draining
			if distance > 1 {
				best, distance = k, 1
			}
			continue
		}
		if d := len(k) - len(name); d >= distance || -d >= distance {
			continue
		}
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the letters to insert, delete or replace to make b of a (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
