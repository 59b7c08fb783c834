package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config/state"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
)

func newMigrateCommand() *cobra.Command {
	var database, proxyRole, adminRole string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update the schema of a database",
		Long: `Create the schema of a database, or update it to the version of this program. Concurrent migrations wait
for one another; a second one changes nothing.

The proxy and the commands update SQLite databases when they open them. For PostgreSQL, migrate needs a role
that owns the schema; the proxy's role should not own it (docs/reference/configuration.md). With --proxy-role
and --admin-role, migrate gives roles that exist the rights that they need, also in an up-to-date schema.`,
		Example: `  wsbouncer migrate --database postgres://wsbouncer_owner@db.example.org/wsbouncer --proxy-role wsbouncer_proxy`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if database = cmp.Or(database, os.Getenv(databaseVariable)); database == "" {
				database = state.Database(state.Directories()[0])
				if path, missing := stores.Missing(database); missing {
					return usageError(fmt.Errorf("--database: the value is missing (or set %s), since this machine has no database at %s: use %s",
						databaseVariable, path, stores.Allowed))
				}
			}
			if err := stores.Check(database); err != nil {
				return usageError(fmt.Errorf("--database: %w", err))
			}
			for _, name := range []string{"proxy-role", "admin-role"} {
				if cmd.Flags().Changed(name) && !stores.PostgreSQL(database) {
					return usageError(fmt.Errorf("--%s works only with a PostgreSQL database, and %s is none", name, stores.Redact(database)))
				}
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
			if err == nil && proxyRole+adminRole != "" {
				if err = stores.Grant(cmd.Context(), database, proxyRole, adminRole); err != nil {
					err = fmt.Errorf("--database: %w", err)
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&database, "database", "", "database: "+stores.Allowed+" (or "+databaseVariable+")")
	cmd.Flags().StringVar(&proxyRole, "proxy-role", "", "PostgreSQL role of proxies, which gets the rights to read the configuration and to write places and usage")
	cmd.Flags().StringVar(&adminRole, "admin-role", "", "PostgreSQL role of commands, which gets the rights to change the configuration")
	return cmd
}
