package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
)

func newMigrateCommand() *cobra.Command {
	var database string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update the schema of a database",
		Long: `Create the schema of a database, or update it to the version of this program. Concurrent migrations wait
for one another; a second one changes nothing.

The proxy and the commands update SQLite databases when they open them. For PostgreSQL, migrate needs a role
that owns the schema; the proxy's role should not own it (docs/reference/configuration.md).`,
		Example: `  wsbouncer migrate --database postgres://wsbouncer_owner@db.example.org/wsbouncer`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if database == "" {
				database = os.Getenv(databaseVariable)
			}
			if database == "" {
				database = state.Database(state.Directory())
				if path, missing := stores.Missing(database); missing {
					return usageError(fmt.Errorf("--database: the value is missing (or set %s), since this machine has no database at %s: use %s",
						databaseVariable, path, stores.Allowed))
				}
			}
			if err := stores.Check(database); err != nil {
				return usageError(fmt.Errorf("--database: %w", err))
			}
			from, to, err := stores.Migrate(cmd.Context(), database)
			switch shown := stores.Redact(database); {
			case errors.Is(err, stores.ErrNoSchema):
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Nothing to do: %v\n", err)
			case err != nil:
				err = fmt.Errorf("--database: %w", err)
			case from == to:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: the schema already has version %d\n", shown, to)
			case from == 0:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: created the schema, version %d\n", shown, to)
			default:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: migrated the schema from version %d to version %d\n", shown, from, to)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&database, "database", "", "database: "+stores.Allowed+" (or "+databaseVariable+")")
	return cmd
}
