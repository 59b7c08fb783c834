package cli

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

func newLogCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "log",
		Short: "Show or change what a running proxy logs",
		Example: `  # Log each session's start for a while
  wsbouncer log level debug`,
	}, newLogLevelCommand())
}

func newLogLevelCommand() *cobra.Command {
	var from proxyFlags
	var order orderFlags
	cmd := &cobra.Command{
		Use:   "level [LEVEL]",
		Short: "Show or change the level of a running proxy's log",
		Long: `Show the level of a running proxy's log, or change it: ` + spelling.OneOf(settings.LogLevels) + `.

The change holds until the proxy ends or reads its settings again (SIGHUP).`,
		Example: `  wsbouncer log level
  wsbouncer log level debug --why "clients of the new app fail"`,
		ValidArgsFunction: completing(false, func(*cobra.Command) []string { return slices.Clone(settings.LogLevels) }),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(fmt.Errorf("%s takes one level, but got %q", cmd.CommandPath(), args))
			}
			if len(args) == 1 && !slices.Contains(settings.LogLevels, args[0]) {
				return usageError(spelling.Unknown("log level", args[0], settings.LogLevels))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && order != (orderFlags{}) {
				return usageError(fmt.Errorf("--who and --why are for a change: name the new level, %s", spelling.OneOf(settings.LogLevels)))
			}
			return from.use(func(proxy *client.Client) error {
				request := client.Request{Path: api.LogLevelPath}
				if len(args) > 0 {
					request.Method, request.Body = http.MethodPut, api.LogLevel{Level: args[0], Order: order.order()}
				}
				var now api.LogLevel
				if err := proxy.Do(cmd.Context(), request, &now); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), now.Level)
				return err
			})
		},
	}
	order.add(cmd)
	from.add(cmd)
	return cmd
}
