package cli

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestEveryFlagTypeIsExplained makes sure that a bad value of any flag is answered with what is allowed.
func TestEveryFlagTypeIsExplained(t *testing.T) {
	for _, cmd := range newRootCommand().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch kind := f.Value.Type(); kind {
			case "string", "stringArray", "stringSlice", "size", "func", "form", "name=value": // take anything, or explain themselves
			default:
				if allowedValues[kind].use == "" {
					t.Errorf("%s --%s: nothing is said about type %s", cmd.Name(), f.Name, kind)
				}
			}
		})
	}
}
