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

// groupFlags has the command's help show its flags in groups; those that are in none come before the last group.
func groupFlags(cmd *cobra.Command, groups ...flagGroup) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		return printUsage(cmd, slices.Insert(slices.Clone(groups), len(groups)-1, otherFlags(cmd, groups...)), "")
	})
}

// shortenHelp has the command's help show only some flags, and all of them if it is asked for with --help-all.
func shortenHelp(cmd *cobra.Command, usual []string) {
	all := false
	cmd.Flags().BoolFunc("help-all", "show the help with all flags", func(string) error {
		all = true
		return pflag.ErrHelp
	})
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		group := flagGroup{"Flags", newFlagSet()}
		for _, name := range append(slices.Clone(usual), "help-all") {
			group.flags.AddFlag(cmd.Flags().Lookup(name))
		}
		others := otherFlags(cmd, group)
		if all {
			return printUsage(cmd, []flagGroup{group, others}, "")
		}
		n := 0
		others.flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				n++
			}
		})
		return printUsage(cmd, []flagGroup{group}, fmt.Sprintf("\n%d more flags: %s --help-all\n", n, cmd.CommandPath()))
	})
}

// otherFlags returns the flags of a command that are in none of the groups.
func otherFlags(cmd *cobra.Command, groups ...flagGroup) flagGroup {
	others := flagGroup{"Others", newFlagSet()}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.ContainsFunc(groups, func(g flagGroup) bool { return g.flags.Lookup(f.Name) != nil }) {
			others.flags.AddFlag(f)
		}
	})
	return others
}

// printUsage prints the usage of a command whose flags are in groups, and more below it.
func printUsage(cmd *cobra.Command, groups []flagGroup, more string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	columns := helpColumns(cmd.Root().OutOrStdout()) // for help, cmd's own is a buffer
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(columns))
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String()+more)
	return err
}
