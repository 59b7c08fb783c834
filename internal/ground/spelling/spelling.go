// Package spelling finds the name that a mistyped one most likely stands for, and words the error about it.
package spelling

import (
	"errors"
	"fmt"
	"strings"
)

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

// maxListed is how many names an error lists: an operator may have defined thousands.
const maxListed = 40

// Unknown returns the error for a name that is not among the known ones. It suggests the nearest one and lists them. what says
// what it names, such as profile.
func Unknown(what, name string, known []string) error {
	return UnknownNear(what, name, Nearest(name, known), known)
}

// UnknownNear is [Unknown] with a suggestion of the caller's own; near is empty for none.
func UnknownNear(what, name, near string, known []string) error {
	text := fmt.Sprintf("unknown %s %q: ", what, name)
	switch {
	case len(known) == 0:
		return errors.New(text + "none exists")
	case near != "" && len(known) == 1:
		return fmt.Errorf("%sdid you mean %q?", text, near)
	case near != "":
		return fmt.Errorf("%sdid you mean %q? Use %s", text, near, OneOf(known))
	}
	return errors.New(text + "use " + OneOf(known))
}

// OneOf returns the names as an error suggests them: "one of a, b, c", or "a" if there is only one.
func OneOf(names []string) string {
	switch {
	case len(names) == 0:
		return "the name of an existing one"
	case len(names) == 1:
		return names[0]
	case len(names) > maxListed:
		return fmt.Sprintf("one of %s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return "one of " + strings.Join(names, ", ")
}
