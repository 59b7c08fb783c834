package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// completionTimeout is how long a user who pressed the tab key waits for the names of what there is. Tests change it.
var completionTimeout = time.Second

// completing has shells complete one of these names, or several, instead of a command's arguments.
func completing(several bool, names func(cmd *cobra.Command) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return fitting(names(cmd), args, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNames has shells complete the names of one entity, or of several.
func completeNames(kind config.Kind, several bool) cobra.CompletionFunc {
	return completing(several, func(cmd *cobra.Command) []string { return storedNames(cmd, kind) })
}

// completeProfiles has shells complete the names of profiles, those that are built in as well.
var completeProfiles = completing(false, func(cmd *cobra.Command) []string {
	return append(profile.Names(), storedNames(cmd, config.KindProfile)...)
})

// completeRunning has shells complete names that a running proxy knows. Messages are not read while a word is completed.
func completeRunning(several bool, names func(ctx context.Context, proxy *client.Client) []string) cobra.CompletionFunc {
	return completing(several, func(cmd *cobra.Command) (all []string) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		from := proxyFlags{adminFlagsOf(cmd)}
		_ = from.use(func(proxy *client.Client) error {
			all = names(ctx, proxy)
			return nil
		})
		return all
	})
}

// fitting returns the names that begin with what was typed so far, without those that were given already.
func fitting(names, given []string, word string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) || slices.Contains(given, name) })
}

// completeFlag has shells complete the value of a flag that names an entity.
func completeFlag(cmd *cobra.Command, flag string, kind config.Kind) {
	complete := completeNames(kind, false)
	if kind == config.KindProfile {
		complete = completeProfiles
	}
	completeFlagBy(cmd, flag, func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(cmd, nil, word) // whatever arguments there are
	})
}

// completeWords has shells complete the value of a flag that takes one of a few words.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	completeFlagBy(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlagBy(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // there is no such flag, or it was done already
	}
}

// storedNames returns the names that the configuration has, which the command's flags or the environment name. Messages are not read
// while a word is completed: there are no names if nothing answers in time.
func storedNames(cmd *cobra.Command, kind config.Kind) []string {
	from := targetFlagsOf(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	t, err := from.openFor(ctx, false, config.Options{Profiles: config.CheckProfiles, ReadOnly: true})
	if err != nil {
		return nil
	}
	defer t.Close()
	v, err := t.look(ctx)
	if err != nil {
		return nil
	}
	return v.Content.Names(kind)
}
