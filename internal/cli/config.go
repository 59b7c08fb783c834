package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/file"
	"github.com/wsbouncer/wsbouncer/internal/ground/fileowner"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newConfigCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "config",
		Short: "Show, export, import, compare and roll back the configuration, and show its history; write a settings file",
		Long: `The configuration is all services, backends, profiles, tenants and API keys. It has a version, and a history
of who changed what.

  export   prints it as YAML                  diff      shows what apply would change
  apply    updates it from a file             import    replaces all of it with a file
  history  shows who changed what             rollback  restores an older version

The settings of the process (addresses, limits, the database) are not part of it: they are in a
settings file, which init writes.`,
		Example: `  wsbouncer config export --file config.yaml
  wsbouncer config diff config.yaml
  wsbouncer config apply config.yaml --why "gpu-2 is back"
  wsbouncer config history
  wsbouncer config rollback 42`,
	},
		newConfigShowCommand(), newConfigExportCommand(),
		newConfigDiffCommand(), newConfigApplyCommand(), newConfigImportCommand(),
		newConfigHistoryCommand(), newConfigRollbackCommand(), newConfigInitCommand(),
	)
}

func newConfigShowCommand() *cobra.Command {
	var from targetFlags
	var form output
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration",
		Long: `Show the version, the latest change, and tables of services, backends, profiles, tenants and keys.

--output json and yaml print all fields. All hide values that may be secret; 'wsbouncer config export' prints them.`,
		Example: "  wsbouncer config show",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.use(cmd, false, func(t *target) error {
				v, err := t.view(cmd.Context(), cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				content, version := v.Content, v.Version
				now := t.running(cmd.Context(), cmd.ErrOrStderr())
				out := cmd.OutOrStdout()
				if form.forPrograms() {
					all := func(kind config.Kind, now *api.Stats) []json.RawMessage {
						return forPrograms(&content, kind, content.Names(kind), now)
					}
					shown := map[string]any{
						"version": version, "services": all(config.KindService, now), "backends": all(config.KindBackend, now),
						"profiles": all(config.KindProfile, nil), "tenants": all(config.KindTenant, nil), "keys": all(config.KindKey, nil),
					}
					if v.Stale != nil {
						shown["stale"] = v.Stale
					}
					return form.print(out, shown)
				}
				fmt.Fprintf(out, "Version %s of %s", version, t.name)
				if v.Stale != nil {
					fmt.Fprint(out, ", which is in force")
				} else if latest, err := t.History(cmd.Context(), 1); err == nil && len(latest) == 1 {
					fmt.Fprintf(out, ", changed by %s at %s", latest[0].Who, latest[0].At.UTC().Format(time.RFC3339))
				}
				fmt.Fprintln(out)
				return showContent(out, &content, now)
			})
		},
	}
	from.add(cmd)
	from.addLocal(cmd)
	form.add(cmd, "table", asJSON, asYAML)
	return cmd
}

// showContent prints a table for each kind of entity.
func showContent(out io.Writer, content *config.Content, now *api.Stats) error {
	if len(content.Services) > 0 {
		fmt.Fprintln(out, "\nServices")
		if err := serviceRows(content, now).print(out, new(output)); err != nil {
			return err
		}
	}
	if len(content.Backends) > 0 {
		fmt.Fprintln(out, "\nBackends")
		if err := backendRows(content, content.Names(config.KindBackend), now).print(out, new(output)); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		title string
		kind  config.Kind
	}{{"Profiles", config.KindProfile}, {"Tenants", config.KindTenant}, {"Keys", config.KindKey}} {
		if names := content.Names(list.kind); len(names) > 0 {
			fmt.Fprintf(out, "\n%s: %s\n", list.title, strings.Join(names, ", "))
		}
	}
	if len(content.Services)+len(content.Backends)+len(content.Profiles)+len(content.Tenants)+len(content.Keys) == 0 {
		fmt.Fprintln(out, "The configuration is empty: add a service with 'wsbouncer service add NAME'.")
	}
	return nil
}

func newConfigExportCommand() *cobra.Command {
	var from targetFlags
	var to, version string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the configuration as YAML",
		Long: `Print the configuration as YAML, in the format that 'apply', 'import', 'diff' and the file store read: every
value that differs from the default, in a stable order. The output includes the values of headers.`,
		Example: `  wsbouncer config export --file config.yaml
  wsbouncer config export --version 42 | wsbouncer config diff -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.use(cmd, false, func(t *target) error {
				var content config.Content
				var err error
				if version != "" {
					content, err = t.At(cmd.Context(), version)
				} else {
					content, _, err = t.content(cmd.Context())
				}
				if err != nil {
					return err
				}
				if err := t.hasSecrets(cmd.Context(), &content); err != nil {
					return err
				}
				text := file.Encode(&content)
				if to == "" || to == "-" {
					_, err = cmd.OutOrStdout().Write(text)
					return err
				}
				if _, err = fileowner.Follow(to); err == nil {
					err = os.WriteFile(to, text, 0o640)
				}
				if err != nil {
					return fmt.Errorf("--file: %w", err)
				}
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Written to %s\n", to)
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&to, "file", "f", "", "write to this file (default: standard output)")
	cmd.Flags().StringVar(&version, "version", "", "print this version (default: the current one)")
	from.add(cmd)
	return cmd
}

// readInput reads a file, or standard input for "-".
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, invalidError(err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, file.MaxFile+1))
	if err == nil && len(data) > file.MaxFile {
		err = fmt.Errorf("%s: the file has more than %d bytes", name, file.MaxFile)
	}
	return data, err
}

// readFor reads a configuration from a file: a whole one, or a part to merge into the present one.
func readFor(cmd *cobra.Command, name string, all bool) (config.Content, error) {
	data, err := readInput(cmd, name)
	if err != nil {
		return config.Content{}, err
	}
	if name == "-" {
		name = "standard input"
	}
	var content config.Content
	if all {
		content, err = file.Decode(name, data, config.CheckProfiles)
	} else {
		content, err = file.DecodePart(name, data)
	}
	return content, invalidError(listed("the file is not valid", err))
}

// oneFile checks that a command got one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(fmt.Errorf("%s takes one YAML file, or - for standard input, but got %d", cmd.CommandPath(), len(args)))
	}
	return nil
}

// errEmpty: an empty file would remove everything.
var errEmpty = errors.New("the file has no services, backends or profiles, so everything would be removed: use --allow-empty if this is intended")

// isEmpty reports whether a content has no entities.
func isEmpty(content *config.Content) bool {
	return len(content.Services)+len(content.Backends)+len(content.Profiles) == 0
}
