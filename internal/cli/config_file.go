package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// merged returns what the configuration becomes when it is made to say what a file says: every entity in the file is as it
// stands there, fields that do not included, which have their default. Others stay, or are removed with prune; tenants and keys that the file
// does not name are removed only with tenants as well.
func merged(now, file *config.Content, prune, tenants bool) config.Content {
	if prune {
		to := file.Clone()
		if !tenants {
			keepTenants(&to, now)
		}
		return to
	}
	to := now.Clone()
	for _, kind := range config.Kinds() {
		for _, name := range file.Names(kind) {
			to.Remove(kind, name)
			to.Set(kind, name, file.Values(kind, name)) // which the file was found to be right about
		}
	}
	return to
}

// keepTenants gives a content the tenants and keys of another one that it does not have.
func keepTenants(to, from *config.Content) {
	for _, kind := range []config.Kind{config.KindTenant, config.KindKey} {
		for _, name := range from.Names(kind) {
			if !to.Has(kind, name) {
				to.Set(kind, name, from.Values(kind, name))
			}
		}
	}
}

// replacing is the plan that replaces the configuration with that of a file.
func replacing(wanted *config.Content, prune, tenants bool) plan {
	return func(now *config.Content) (config.Change, error) {
		before := config.NewContent()
		switch {
		case now != nil:
			before = *now
		case !prune:
			return config.Change{}, fmt.Errorf("the present configuration is invalid, so nothing can be added to it: correct it with 'set' or 'rm' if one thing is invalid, or replace all of it ('wsbouncer config import' or 'wsbouncer config rollback', with --with-tenants)")
		}
		to := merged(&before, wanted, prune, tenants)
		return config.Change{Content: &to}, nil
	}
}

const applyRules = `Services, backends, profiles, tenants and keys in the file become what the file says: fields that the file
omits get their default. Others stay as they are, unless --prune removes them. Tenants and keys stay even then, unless
--with-tenants is given, too.`

func newConfigApplyCommand() *cobra.Command {
	var write writeFlags
	var prune, allowEmpty bool
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Update the configuration from a YAML file",
		Long: `Update the configuration from a YAML file (- for standard input), in one change.

` + applyRules,
		Example: `  wsbouncer config apply config.yaml --dry-run
  wsbouncer config apply config.yaml --prune --why "release 7"`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if write.tenants && !prune {
				return errTenantsAlone
			}
			return applyFile(cmd, &write, args[0], prune, allowEmpty)
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "remove services, backends and profiles that are not in the file")
	addWithTenants(cmd, &write.tenants)
	addAllowEmpty(cmd, &allowEmpty)
	write.add(cmd)
	return cmd
}

func newConfigImportCommand() *cobra.Command {
	var write writeFlags
	var allowEmpty bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Replace the configuration with a YAML file",
		Long: `Replace the configuration with a YAML file (- for standard input), in one change. Services, backends and profiles
that are not in the file are removed, as by 'apply --prune'. Tenants and keys that are not in the file stay, unless
--with-tenants is given.

With --database, the command creates a missing database file: this moves a configuration from one store
to another.`,
		Example: `  wsbouncer config import config.yaml --dry-run
  wsbouncer config export --database config.db | wsbouncer config import - --database postgres://admin@db/wsbouncer`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return applyFile(cmd, &write, args[0], true, allowEmpty)
		},
	}
	addWithTenants(cmd, &write.tenants)
	addAllowEmpty(cmd, &allowEmpty)
	write.add(cmd)
	return cmd
}

func addWithTenants(cmd *cobra.Command, with *bool) {
	cmd.Flags().BoolVar(with, "with-tenants", false, "also remove tenants and API keys that are not in the file")
}

// errTenantsAlone: nothing that is missing in the file is removed without --prune.
var errTenantsAlone = usageError(errors.New("--with-tenants: it removes nothing without --prune: add --prune"))

func addAllowEmpty(cmd *cobra.Command, allow *bool) {
	cmd.Flags().BoolVar(allow, "allow-empty", false, "accept a file without services, backends and profiles")
}

func applyFile(cmd *cobra.Command, write *writeFlags, name string, prune, allowEmpty bool) error {
	wanted, err := readFor(cmd, name, prune)
	if err != nil {
		return err
	}
	if prune && isEmpty(&wanted) && !allowEmpty {
		return invalidError(fmt.Errorf("%s: %w", name, errEmpty))
	}
	return write.run(cmd, !write.dryRun, replacing(&wanted, prune, write.tenants))
}

func newConfigDiffCommand() *cobra.Command {
	var from targetFlags
	var form output
	var prune, tenants bool
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show what 'config apply' would change",
		Long: `Show what 'config apply' of a YAML file (- for standard input) would change; with --prune, what 'config
import' would change. Like diff, it exits with status 0 if there is no difference, 1 if there are
differences, and 2 after an error.`,
		Example: `  wsbouncer config diff config.yaml
  wsbouncer config diff config.yaml --prune --output json`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tenants && !prune {
				return errTenantsAlone
			}
			var edits config.Edits
			wanted, err := readFor(cmd, args[0], prune)
			if err == nil {
				err = from.use(cmd, false, func(t *target) error {
					now, _, err := t.content(cmd.Context())
					if err != nil {
						return err
					}
					if err := t.hasSecrets(cmd.Context(), &now); err != nil {
						return err
					}
					to := merged(&now, &wanted, prune, tenants)
					if err := to.ValidateAfter(&now, config.CheckProfiles); err != nil {
						return listed("what the configuration would become is not valid", err)
					}
					edits = config.Diff(&now, &to)
					return nil
				})
			}
			if err == nil && form.forPrograms() {
				err = form.print(cmd.OutOrStdout(), append(config.Edits{}, edits...))
			}
			switch {
			case err != nil:
				return invalidError(err) // 1 is taken
			case len(edits) == 0:
				return nil
			case !form.forPrograms():
				fmt.Fprintln(cmd.OutOrStdout(), edits)
			}
			return exit{status: 1}
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "include the removal of services, backends and profiles that are not in the file")
	addWithTenants(cmd, &tenants)
	from.add(cmd)
	form.add(cmd, "text", asJSON, asYAML)
	return cmd
}
