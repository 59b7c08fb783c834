package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newSettingsCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "settings",
		Short: "Show the settings of a proxy's process",
		Long: `The settings of the process are addresses, limits, the database and the log. They come from a YAML file
('wsbouncer config init' writes one), environment variables and flags, and belong to one proxy. Services and backends are not
among them: they are the configuration ('wsbouncer config').`,
		Example: "  wsbouncer settings show",
	}, newSettingsShowCommand())
}

func newSettingsShowCommand() *cobra.Command {
	var from proxyFlags
	var form output
	var file string
	var changed bool
	cmd := &cobra.Command{
		Use:   "show [NAME...]",
		Short: "Show which settings are in force, and where each comes from",
		Long: `Show which settings of a running proxy are in force, and where each comes from: the default, the file (with line and
column), an environment variable, a flag, or 'wsbouncer log level'. A * marks those that 'wsbouncer reload' changes; the others
need a restart. Secrets are hidden.

With --settings, no proxy is asked: the command shows what a proxy would use that gets this file and this environment.`,
		Example: `  wsbouncer settings show
  wsbouncer settings show --changed
  wsbouncer settings show listen admin --output json
  wsbouncer settings show --settings /etc/wsbouncer/wsbouncer.yaml`,
		ValidArgsFunction: completing(true, func(*cobra.Command) []string { return settings.Names() }),
		Args: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if err := settings.Known(name); err != nil {
					return usageError(err)
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			show := func(list *api.SettingList) error { return showSettings(cmd.OutOrStdout(), list, args, changed, &form) }
			if cmd.Flags().Changed("settings") {
				list, err := settingsOf(cmd, file)
				if err != nil {
					return err
				}
				return show(list)
			}
			return from.use(func(proxy *client.Client) error {
				var list api.SettingList
				if err := proxy.Get(cmd.Context(), api.SettingsPath, nil, &list); err != nil {
					return err
				}
				return show(&list)
			})
		},
	}
	cmd.Flags().StringVar(&file, "settings", "", "YAML file with settings to show, instead of those of a running proxy")
	cmd.Flags().BoolVar(&changed, "changed", false, "only those that do not have their default")
	from.add(cmd)
	form.add(cmd, "table", asJSON, asYAML)
	return cmd
}

// settingsOf returns the settings that a proxy would use with a file and this environment.
func settingsOf(cmd *cobra.Command, file string) (*api.SettingList, error) {
	if file == "" {
		return nil, usageError(errors.New("--settings: the value is missing: use the path of a YAML file"))
	}
	var flags settings.Flags
	set := newFlagSet()
	flags.Add(set)
	if err := set.Parse([]string{"--settings", file}); err != nil {
		return nil, err
	}
	loaded, err := settings.Sources{Flags: &flags, Environment: os.Environ}.Load()
	if err != nil {
		return nil, usageError(err)
	}
	warnOfAll(cmd, loaded.Warnings)
	r := newReloader(loaded, settings.NewLog(io.Discard, &loaded.Settings), nil)
	r.database = true
	list := r.list()
	return &list, nil
}

// showSettings prints settings: all, or those that are named, or those that do not have their default.
func showSettings(out io.Writer, list *api.SettingList, names []string, changed bool, form *output) error {
	wanted := make(map[string]bool)
	for _, name := range names {
		wanted[name] = true
	}
	shown := api.SettingList{File: list.File, Settings: []api.Setting{}}
	var cells [][]string
	live := false
	for i := range list.Settings {
		s := &list.Settings[i]
		if len(names) > 0 && !wanted[s.Name] || changed && s.From == api.FromDefault {
			continue
		}
		shown.Settings = append(shown.Settings, *s)
		name, value := s.Name, cmp.Or(s.Value, "("+s.Default+")")
		if s.Live {
			name, live = name+" *", true
		}
		cells = append(cells, []string{name, value, s.From, s.Source})
	}
	if form.forPrograms() {
		return form.print(out, shown)
	}
	if err := table(out, []string{"NAME", "VALUE", "FROM", "SOURCE"}, cells); err != nil || !live {
		return err
	}
	_, err := fmt.Fprintln(out, "\n* 'wsbouncer reload' changes it. The others need a restart.")
	return err
}

func newReloadCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	var form output
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running proxy read its settings again",
		Long: `Have a running proxy read its settings again, as SIGHUP does: the file, the tokens, and the files of TLS certificates.
It also opens the access log again. The command shows what has changed, and what needs a restart ('wsbouncer upgrade' restarts
a proxy and cuts nothing).

If anything is wrong with the settings, nothing changes, and the exit status is 1. The environment and the flags of a process stay
as they were when it was started. The command is for one proxy, also in a fleet.`,
		Example: `  wsbouncer reload --why "longer drain-timeout"`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.use(func(proxy *client.Client) error {
				var reloaded api.Reloaded
				if err := proxy.Do(cmd.Context(), client.Request{Method: http.MethodPost, Path: api.ReloadPath, Body: order.order()}, &reloaded); err != nil {
					return err
				}
				if form.forPrograms() {
					return form.print(cmd.OutOrStdout(), reloaded)
				}
				warnOfAll(cmd, reloaded.Warnings)
				_, err := io.WriteString(cmd.OutOrStdout(), reloadedText(&reloaded))
				return err
			})
		},
	}
	order.add(cmd)
	from.add(cmd)
	form.add(cmd, "text", asJSON, asYAML)
	return cmd
}

// reloadedText says what came of reading the settings again.
func reloadedText(r *api.Reloaded) string {
	var b strings.Builder
	live := 0
	for i := range r.Changes {
		c := &r.Changes[i]
		more := ""
		if c.Live {
			live++
		} else {
			more = ": needs a restart"
		}
		fmt.Fprintf(&b, "%s %s -> %s (%s)%s\n", c.Name, cmp.Or(c.Was, "(none)"), cmp.Or(c.Is, "(none)"), cmp.Or(c.Source, api.FromDefault), more)
	}
	fmt.Fprintf(&b, "Settings read again%s: %s changed", in(r.File), figures.Plural(live, "setting"))
	if left := len(r.Changes) - live; left > 0 {
		fmt.Fprintf(&b, ", %d with the next start", left)
	}
	b.WriteByte('\n')
	return b.String()
}

// in returns where something was read; empty without a file.
func in(file string) string {
	if file == "" {
		return ""
	}
	return " from " + file
}
