package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is some of a command's flags, which help shows together.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// helpWidth is how many columns the help of commands with many flags takes, at most: a terminal may be narrower.
const helpWidth = 120

// groupFlags has the command's help show its flags in groups; those that are in none come before the last group.
func groupFlags(cmd *cobra.Command, groups ...flagGroup) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		others := newFlagSet()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, g := range groups {
				if g.flags.Lookup(f.Name) != nil {
					return
				}
			}
			others.AddFlag(f)
		})
		width := helpWidth
		if out := cmd.Root().OutOrStdout(); isTerminal(out) { // for help, cmd's own is a buffer
			columns, _ := terminalSize(out)
			width = min(width, columns)
		}
		for _, g := range slices.Insert(slices.Clone(groups), len(groups)-1, flagGroup{"Others", others}) {
			fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(width))
		}
		_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
		return err
	})
}
