package spelling

import (
	"errors"
	"fmt"
	"strings"
)

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
