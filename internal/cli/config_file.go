package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// merged returns what the configuration becomes when it is made to say what a file says: every entity in the file is as it
// stands there, fields that do not included, which have their default. Others stay, or are removed with prune.
func merged(now, file *config.Content, prune bool) config.Content {
	if prune {
		return file.Clone()
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

// replacing is the plan that replaces the configuration with that of a file.
func replacing(wanted *config.Content, prune bool) plan {
	return func(now *config.Content) (config.Change, error) {
		before := config.NewContent()
		switch {
		case now != nil:
			before = *now
		case !prune:
			return config.Change{}, fmt.Errorf("the present configuration is invalid, so nothing can be added to it: replace it (--prune, or import), or use 'wsbouncer config rollback'")
		}
		to := merged(&before, wanted, prune)
		return config.Change{Content: &to}, nil
	}
}

const applyRules = `Services, backends and profiles in the file become what the file says: fields that the file omits get
their default. Others stay as they are, unless --prune removes them.`

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
			return applyFile(cmd, &write, args[0], prune, allowEmpty)
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "remove entities that are not in the file")
	addAllowEmpty(cmd, &allowEmpty)
	write.add(cmd)
	return cmd
}

func newConfigImportCommand() *cobra.Command {
	var write writeFlags
	var allowEmpty bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Replace the whole configuration with a YAML file",
		Long: `Replace the whole configuration with a YAML file (- for standard input), in one change. Entities that are
not in the file are removed, as by 'apply --prune'.

With --database, the command creates a missing database file: this moves a configuration from one store
to another.`,
		Example: `  wsbouncer config import config.yaml --dry-run
  wsbouncer config export --database config.db | wsbouncer config import - --database postgres://admin@db/wsbouncer`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return applyFile(cmd, &write, args[0], true, allowEmpty)
		},
	}
	addAllowEmpty(cmd, &allowEmpty)
	write.add(cmd)
	return cmd
}

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
	return write.run(cmd, true, replacing(&wanted, prune))
}

func newConfigDiffCommand() *cobra.Command {
	var from targetFlags
	var form output
	var prune bool
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
			var edits config.Edits
			wanted, err := readFor(cmd, args[0], prune)
			if err == nil {
				err = from.use(cmd, false, func(t *target) error {
					now, _, err := t.content(cmd.Context())
					if err != nil {
						return err
					}
					to := merged(&now, &wanted, prune)
					if err := to.Validate(config.CheckProfiles); err != nil {
						return listed("what the configuration would become is not valid", err)
					}
					edits = config.Diff(&now, &to)
					return nil
				})
			}
			if err == nil && form.forPrograms() {
				err = printJSON(cmd.OutOrStdout(), append(config.Edits{}, edits...))
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
	cmd.Flags().BoolVar(&prune, "prune", false, "include the removal of entities that are not in the file")
	from.add(cmd)
	form.add(cmd, "lines", asJSON)
	return cmd
}
