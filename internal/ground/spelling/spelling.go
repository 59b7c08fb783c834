// Package spelling finds the name that a mistyped one most likely stands for, and words the error about it.
package spelling

import (
	"errors"
	"fmt"
	"strings"
)

// Nearest returns the known name that a mistyped one most likely stands for, or "" when none is near. People get the first letter right: a name
// that begins with another one is near only after a single slip.
func Nearest(name string, known []string) string {
	if near := Near(name, known); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Near is [Nearest], but returns all names that are equally near if a single slip leads to each.
func Near(name string, known []string) (near []string) {
	distance := len(name)/3 + 1 // one slip in a short name, a few in a long one
	add := func(k string, d int) {
		if d < distance {
			near = near[:0]
		}
		near, distance = append(near, k), d
	}
	for _, k := range known {
		lower, to := strings.ToLower(name), strings.ToLower(k)
		if len(name) >= 4 && strings.HasPrefix(k, lower) { // drain for draining
			if distance >= 1 {
				add(k, 1)
			}
			continue
		}
		if d := len(k) - len(name); d > distance || -d > distance {
			continue
		}
		d := editDistance(lower, to)
		if d <= distance && (d <= 1 && len(name) > 1 || lower != "" && to != "" && lower[0] == to[0]) {
			add(k, d)
		}
	}
	if distance > 1 && len(near) > 1 {
		return near[:1]
	}
	return near
}

// editDistance counts the slips between a and b: letters to insert, delete or replace, and neighbours to exchange (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
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
