package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/profile"
)

func newProfileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Show what the proxy knows of servers' message protocols",
		Long: `A profile says what the proxy must know of a server's message protocol: what the server
says first, when it is ready or full, how a session ends, and what makes its connection
fit for the next one. 'wsbouncer serve --profile NAME' uses one. Some are built in; your
own are written in YAML and usually start from one of those (docs/profiles.md).`,
		Example: `  wsbouncer profile ls
  wsbouncer profile show vosk

  # One of your own, with all that it inherits
  wsbouncer profile show mine --profile-file my-profiles.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfileListCommand(), newProfileShowCommand())
	return cmd
}

func newProfileListCommand() *cobra.Command {
	var files []string
	var output string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the profiles",
		Long: `List the profiles, built-in ones first: how connections are proven fit for the next
session, whether they are dialed before there is a client, and what each is for.

one-shot: they are not, and each serves one session. With another class in brackets that
is off, the profile describes a way of reuse that is not proven and that you have not
accepted ('wsbouncer profile show NAME' says why).`,
		Example: `  wsbouncer profile ls
  wsbouncer profile ls --profile-file my-profiles.yaml --output json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := app.Profiles(files)
			if err != nil {
				return err
			}
			switch output {
			case "table":
				return listProfiles(cmd.OutOrStdout(), all)
			case "json":
				return profilesJSON(cmd.OutOrStdout(), all)
			}
			return usageError(fmt.Errorf("--output: %q is not table or json", output))
		},
	}
	addProfileFiles(cmd, &files)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table for people or json for machines")
	return cmd
}

func addProfileFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "profile-file", nil, "YAML file with profiles of your own (repeat for several)")
}

func listProfiles(out io.Writer, all []*profile.Profile) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tREUSE\tDIALED AHEAD\tWHAT FOR")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, reuseOf(p), predialOf(p), p.Summary)
	}
	return w.Flush()
}

// reuseOf names the way of reuse that is in force, and the one that could be.
func reuseOf(p *profile.Profile) string {
	if p.Reuse != p.Declared {
		return fmt.Sprintf("%s (%s is off)", p.Reuse, p.Declared)
	}
	return p.Reuse.String()
}

func predialOf(p *profile.Profile) string {
	switch p.Predial {
	case profile.PredialNever:
		return "no"
	case profile.PredialCostsSlot:
		return "yes, costs a slot"
	}
	return "yes"
}

func profilesJSON(out io.Writer, all []*profile.Profile) error {
	type row struct {
		Name     string `json:"name"`
		Reuse    string `json:"reuse"`
		Declared string `json:"declared"`
		Reason   string `json:"reason,omitempty"`
		Predial  string `json:"predial"`
		From     string `json:"from,omitempty"`
		Summary  string `json:"summary"`
		Source   string `json:"source"`
	}
	rows := []row{}
	for _, p := range all {
		rows = append(rows, row{
			p.Name, p.Reuse.String(), p.Declared.String(), p.Reason, p.Predial.String(), p.From(), p.Summary, p.Source(),
		})
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

func newProfileShowCommand() *cobra.Command {
	var files []string
	var effective bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a profile as YAML",
		Long: `Print a profile as YAML. A built-in one is shown as it was written, with the source of
each fact; one of a file, or any with --effective, with everything that it inherits and
without comments. When its way of reuse is off, the last line says why.`,
		Example: `  wsbouncer profile show vosk
  wsbouncer profile show mine --profile-file my-profiles.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError(fmt.Errorf("%s takes the name of one profile, but got %d", cmd.CommandPath(), len(args)))
			}
			return nil
		},
		ValidArgs: profile.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := app.FindProfile(args[0], files)
			if err != nil {
				return err
			}
			text := profile.BuiltInYAML(p.Name)
			if builtIn, _ := profile.Named(p.Name); effective || builtIn != p {
				text = p.YAML()
			}
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return err
			}
			if p.Reuse == profile.OneShot && p.Declared != profile.OneShot {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "# Connections serve one session each: %s\n", p.Reason)
			}
			return err
		},
	}
	addProfileFiles(cmd, &files)
	cmd.Flags().BoolVar(&effective, "effective", false, "print a built-in one as one of a file, without comments")
	return cmd
}
