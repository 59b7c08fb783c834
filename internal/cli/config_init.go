package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
)

// newConfigInitCommand returns the command that writes a file of settings.
func newConfigInitCommand() *cobra.Command {
	var path string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a settings file that explains every setting of the process",
		Long: `Write a YAML file for 'wsbouncer serve --settings FILE': every setting of the process with its
meaning, its default, and what is allowed. All settings are commented out: as long as a
setting is a comment, it follows the default, even if a newer version changes that.

The configuration (services, backends, profiles, tenants and keys) is in the database instead.`,
		Example: `  wsbouncer config init
  wsbouncer config init --file /etc/wsbouncer/wsbouncer.yaml
  wsbouncer config init --file - | less`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "-" {
				_, err := cmd.OutOrStdout().Write(settings.Template())
				return err
			}
			if err := writeTemplate(path, force); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", path)
			return err
		},
	}
	cmd.Flags().StringVar(&path, "file", "wsbouncer.yaml", "file to write; - for standard output")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return cmd
}

// writeTemplate writes the file, readable by its owner and group only, since a database's password may come into it.
func writeTemplate(path string, force bool) error {
	if _, err := fileowner.Follow(path); err != nil {
		return err
	}
	if force {
		return os.WriteFile(path, settings.Template(), 0o640)
	}
	err := writeNew(path, settings.Template())
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists: use --force to overwrite it", path)
	}
	return err
}
