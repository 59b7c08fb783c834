package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

func newProfileCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "profile",
		Short: "List, show, add and remove profiles of message protocols",
		Long: `A profile describes a server's message protocol: what the server says first, when it is
ready or full, how a session ends, and what makes a connection fit for the next one. A
service names its profile. Some profiles are built in; write your own in YAML, usually
starting from a built-in one (docs/reference/write-a-profile.md).`,
		Example: `  wsbouncer profile ls
  wsbouncer profile show vosk

  # A profile of your own, from a file and in the configuration
  wsbouncer profile show mine --profile-file my-profiles.yaml
  wsbouncer profile add mine --file my-profiles.yaml`,
	},
		newProfileListCommand(), newProfileShowCommand(), newProfileVerifyCommand(),
		newProfileWriteCommand(config.Add), newProfileWriteCommand(config.Set),
		newRemoveCommand(config.KindProfile, "Remove profiles that no service uses.", "  wsbouncer profile rm mine", ""),
	)
}

func newProfileListCommand() *cobra.Command {
	var from profileSources
	var form listFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the profiles",
		Long: `List the profiles: built-in ones, then those in files, then those in the configuration. REUSE
says how the proxy proves that a connection is fit for the next session, DIALED AHEAD whether it
dials before a client comes, FAILOVER how well a session continues on another server when its own
dies: full (its client sees none of it), visible, or never.

With one-shot, a connection serves one session. If the column adds that another class is off, the
profile describes a way of reuse that is not proven and that you have not accepted ('wsbouncer
profile show NAME' says why).`,
		Example: `  wsbouncer profile ls
  wsbouncer profile ls --profile-file my-profiles.yaml --output json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return form.run(cmd, func(messages io.Writer) (*rows, error) {
				all, _, err := from.load(cmd, messages)
				if err != nil {
					return nil, err
				}
				return profileRows(all), nil
			})
		},
	}
	from.add(cmd)
	form.add(cmd)
	return cmd
}

func addProfileFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVar(files, "profile-file", nil, "YAML file with profiles of your own (repeat for several)")
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
	case profile.PredialWithKey:
		return "if the backend sets the key"
	case profile.PredialCostsSlot:
		return "yes, costs a slot"
	}
	return "yes"
}

func profileRows(all []*profile.Profile) *rows {
	type row struct {
		Name     string `json:"name"`
		Reuse    string `json:"reuse"`
		Declared string `json:"declared"`
		Reason   string `json:"reason,omitempty"`
		Predial  string `json:"predial"`
		Failover string `json:"failover"`
		Why      string `json:"failover_why,omitempty"`
		From     string `json:"from,omitempty"`
		Summary  string `json:"summary"`
		Source   string `json:"source"`
	}
	forPrograms := []row{}
	r := &rows{heads: []string{"NAME", "REUSE", "DIALED AHEAD", "FAILOVER", "SUMMARY", "FROM", "SOURCE"}, wide: 2}
	for _, p := range all {
		r.names = append(r.names, p.Name)
		r.cells = append(r.cells, []string{p.Name, reuseOf(p), predialOf(p), p.Failover().Verdict.String(), p.Summary, p.From(), p.Source()})
		forPrograms = append(forPrograms, row{
			p.Name, p.Reuse.String(), p.Declared.String(), p.Reason, p.Predial.String(), p.Failover().Verdict.String(), p.Failover().Why,
			p.From(), p.Summary, p.Source(),
		})
	}
	r.all = forPrograms
	return r
}

func newProfileShowCommand() *cobra.Command {
	var from profileSources
	var effective bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a profile as YAML",
		Long: `Print a profile as YAML. A built-in profile, or one in the configuration, is printed as
written; a built-in one gives the source of each fact. A profile from a file, or any with
--effective, is printed with everything that it inherits and without comments. If its way of
reuse is off, or its sessions are never taken over by another server, the last lines say why.`,
		Example: `  wsbouncer profile show vosk
  wsbouncer profile show mine --profile-file my-profiles.yaml`,
		Args:              names(config.KindProfile, false),
		ValidArgsFunction: completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, stored, err := from.load(cmd, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			p, err := app.ProfileNamed(args[0], all)
			if err != nil {
				return err
			}
			text := profile.BuiltInYAML(p.Name)
			builtIn, _ := profile.Named(p.Name)
			switch own, ok := stored[p.Name]; {
			case !effective && ok && builtIn != p:
				one := config.Content{Profiles: map[string]config.Profile{p.Name: own}}
				text = one.ProfilesYAML()
			case effective || builtIn != p:
				text = p.YAML()
			}
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return err
			}
			if p.Reuse == profile.OneShot && p.Declared != profile.OneShot {
				if _, err = fmt.Fprintf(cmd.OutOrStdout(), "# Connections serve one session each: %s\n", p.Reason); err != nil {
					return err
				}
			}
			if f := p.Failover(); f.Verdict == profile.Never {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "# No other server takes its sessions over: %s\n", f.Why)
			}
			return err
		},
	}
	from.add(cmd)
	cmd.Flags().BoolVar(&effective, "effective", false, "print everything that it inherits, without comments")
	return cmd
}
