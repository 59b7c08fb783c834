package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

func newConfigHistoryCommand() *cobra.Command {
	var from targetFlags
	var form listFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show who changed what, and when",
		Long: `Show the latest changes, newest first: version, time, author, and what changed.
'wsbouncer config rollback VERSION' restores a version.`,
		Example: "  wsbouncer config history --limit 5",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError(fmt.Errorf("--limit: invalid number \"%d\": use a whole number from 1", limit))
			}
			return from.use(cmd, false, func(t *target) error {
				return form.run(cmd, func(io.Writer) (*rows, error) {
					revisions, err := t.History(cmd.Context(), limit)
					if err != nil {
						return nil, err
					}
					return historyRows(revisions), nil
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of changes to show")
	from.add(cmd)
	form.add(cmd)
	return cmd
}

// historyRows has a row for each difference, the first of a change with what is common to all. Why it was made comes first.
func historyRows(revisions []config.Revision) *rows {
	all := &rows{heads: []string{"VERSION", "WHEN", "WHO", "WHAT"}, all: append([]config.Revision{}, revisions...)}
	for _, r := range revisions {
		all.names = append(all.names, r.Version)
		head := []string{r.Version, r.At.UTC().Format(time.RFC3339), r.Who}
		var lines []string
		if r.Why != "" {
			lines = append(lines, fmt.Sprintf("%q", r.Why))
		}
		for _, edit := range r.Edits {
			lines = append(lines, edit.String())
		}
		if len(lines) == 0 {
			lines = []string{"(nothing that is known)"}
		}
		for _, line := range lines {
			all.cells = append(all.cells, append(head, line))
			head = []string{" ", " ", " "}
		}
	}
	return all
}

func newConfigRollbackCommand() *cobra.Command {
	var write writeFlags
	cmd := &cobra.Command{
		Use:   "rollback VERSION",
		Short: "Restore an older version of the configuration",
		Long: `Restore an older version of the configuration ('wsbouncer config history' lists the versions). This is a
change like any other: it has its own version, and you can roll it back. Tenants and API keys stay as they are now, so that
no key that was revoked works again, unless --with-tenants is given.`,
		Example: `  wsbouncer config rollback 42 --dry-run
  wsbouncer config rollback 42 --why "the new server is too slow"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(fmt.Errorf("%s takes one version, but got %d", cmd.CommandPath(), len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return write.use(cmd, false, func(t *target) error {
				older, err := olderContent(cmd.Context(), t, args[0])
				if err != nil {
					return err
				}
				_, err = write.write(cmd, t, func(now *config.Content) (config.Change, error) {
					if now != nil && !write.tenants {
						older.Tenants, older.Keys = now.Tenants, now.Keys
					}
					return config.Change{Content: &older, Why: "roll back to version " + args[0]}, nil
				})
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&write.tenants, "with-tenants", false, "also restore the tenants and API keys of that version")
	write.add(cmd)
	return cmd
}

// olderContent returns what the configuration said at a version.
func olderContent(ctx context.Context, t *target, version string) (config.Content, error) {
	content, err := t.At(ctx, version)
	if errors.Is(err, config.ErrNoVersion) {
		return content, fmt.Errorf("%w: 'wsbouncer config history' lists the versions", err)
	}
	return content, listed("version "+version+" would not be valid today", err)
}
