package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// deprecated is the annotation of a flag that says what to use instead.
const deprecated = "deprecated"

// deprecate marks a flag that a later version removes: it works as before, the help leaves it out, and a warning on standard error
// says what to use instead. (pflag's own mark would have cobra print that on standard output, among the results.) Call it
// where the command is made. Settings of the process have a mark of their own, in package settings.
func deprecate(cmd *cobra.Command, flag, instead string) {
	for _, err := range []error{
		cmd.Flags().SetAnnotation(flag, deprecated, []string{instead}),
		cmd.Flags().MarkHidden(flag),
	} {
		if err != nil {
			panic(err) // the command has no such flag
		}
	}
}

// warnOfDeprecated warns of each deprecated flag that was given, and of flags that were given in a deprecated form.
func warnOfDeprecated(cmd *cobra.Command) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, instead := range f.Annotations[deprecated] {
			fmt.Fprintf(cmd.ErrOrStderr(), "Warning: --%s is deprecated: %s\n", f.Name, instead)
		}
		if v, ok := f.Value.(interface{ oldForm() string }); ok && v.oldForm() != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "Warning: --%s: %s\n", f.Name, v.oldForm())
		}
	})
}
