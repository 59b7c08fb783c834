package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong in a profile's YAML.
type Problem struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
	Text   string
}

// Error returns the problem the way compilers do, so that editors find the place.
func (p Problem) Error() string { return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text) }

// Problems is everything that is wrong in a file, in the order of the file. [Parse] returns it as its error.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems in the order of the file, each once.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(p)
}

// nearest returns the candidate that a mistyped name most likely stands for, or "" when none is near.
func nearest(name string, candidates []string) string {
	best, distance := "", len(name)/3+2 // one slip in a short name, a few in a long one
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), c); d < distance {
			best, distance = c, d
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

// unknown says that a name is not one of those allowed.
func unknown(what, name string, allowed []string) string {
	text := fmt.Sprintf("unknown %s %q; ", what, name)
	if near := nearest(name, allowed); near != "" {
		text += fmt.Sprintf("did you mean %q? ", near)
	}
	return text + "allowed are " + strings.Join(allowed, ", ")
}
