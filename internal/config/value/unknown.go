package value

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// Unknown says that a name is not one of those there are, and which one was probably meant.
func Unknown(what, name string, known []string) string {
	text := fmt.Sprintf("there is no %s %q; ", what, name)
	if near := spelling.Nearest(name, known); near != "" {
		text += fmt.Sprintf("did you mean %q? ", near)
	}
	const most = 40 // names of things that an operator made can be thousands
	switch {
	case len(known) == 0:
		return text + "there is none"
	case len(known) > most:
		return text + fmt.Sprintf("allowed are %s, and %d others", strings.Join(known[:most], ", "), len(known)-most)
	}
	return text + "allowed are " + strings.Join(known, ", ")
}
