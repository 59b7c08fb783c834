package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/settings"
)

// newConfigInitCommand returns the command that writes a file of settings.
func newConfigInitCommand() *cobra.Command {
	var path string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a file with every setting of the process, explained",
		Long: `Write a YAML file for 'wsbouncer serve --config FILE': every setting of the process with
what it is, its default, and what is allowed. All are comments: a setting that stays one
has the default, also when a newer version has another.

Services, backends and profiles are not in it. They are in the database.`,
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
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

// writeTemplate writes the file, readable by its owner and group only, since a database's password may come into it.
func writeTemplate(path string, force bool) (err error) {
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, how, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists: use --force to overwrite it", path)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(settings.Template())
	return err
}
