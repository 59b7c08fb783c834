package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
)

func newServeCommand() *cobra.Command {
	settings := app.DefaultSettings()
	var logging logFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `Run the proxy until SIGINT or SIGTERM.

It then stops accepting, lets sessions finish for up to --drain-timeout, closes those
that have not with code 1001, and exits with status 0. A second signal ends it at once.`,
		Example: `  # Two servers that answer every message with exactly one: connections are reused
  wsbouncer serve --listen 127.0.0.1:8080 --admin 127.0.0.1:9090 \
      --backend ws://127.0.0.1:9001 --backend ws://127.0.0.1:9002 \
      --profile echo --connections 1000 --warm 1000

  # Any server: each connection is dialed in advance, used once, and replaced
  wsbouncer serve --backend ws://127.0.0.1:2700 --connections 32`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logging.logger(cmd.ErrOrStderr())
			if err := errors.Join(settings.Check(), err); err != nil {
				return usageError(err)
			}
			return serve(cmd, settings, log)
		},
	}
	addSettingsFlags(cmd, &settings)
	logging.add(cmd)
	return cmd
}

func serve(cmd *cobra.Command, settings app.Settings, log *slog.Logger) error {
	proxy, err := app.Start(settings, buildVersion(), log)
	if err != nil {
		return err
	}
	<-cmd.Context().Done()
	proxy.Shutdown()
	return nil
}

// addSettingsFlags adds the proxy's flags, which serve and check share.
func addSettingsFlags(cmd *cobra.Command, s *app.Settings) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVar(&s.Listen, "listen", s.Listen, "address for clients, host:port (repeat for several)")
	f.StringVar(&s.Admin, "admin", s.Admin, "address of the admin API (/healthz, /readyz, /api/v1/stats)")
	f.StringArrayVar(&s.Backends, "backend", nil, "URL of an inference server, ws://host:port/path (repeat for several)")
	f.StringVar(&s.Path, "path", s.Path, "path that clients ask for; others get 404 (default: any)")
	f.StringVar(&s.Profile, "profile", s.Profile, "the servers' message protocol: one-shot (a connection is used once) or echo (one answer to each message)")
	f.StringVar(&s.Subprotocol, "subprotocol", s.Subprotocol, "Sec-WebSocket-Protocol to ask the servers for, and to grant to clients that offer it")
	f.StringArrayVar(&s.Origins, "allow-origin", nil, "accept browsers from this Origin only (repeat for several; default: any)")
	f.IntVar(&s.Connections, "connections", s.Connections, "cap of each server: connections that it ever sees at once")
	f.Var(warmValue{&s.Warm}, "warm", "connections kept ready beside those in use, within the cap (default: the cap)")
	f.IntVar(&s.Loops, "loops", s.Loops, "most event loops awake at once (default: one per processor)")
	f.Var((*sizeValue)(&s.MaxMessage), "max-message", "largest message from a client; 0 for no limit")
	head := intSize{&s.MaxHead}
	f.Var(head, "max-header", "largest upgrade request")
	f.DurationVar(&s.HandshakeTimeout, "handshake-timeout", s.HandshakeTimeout, "for a client's upgrade request to arrive")
	f.DurationVar(&s.DialTimeout, "dial-timeout", s.DialTimeout, "for a server to accept a connection")
	f.DurationVar(&s.ResetTimeout, "reset-timeout", s.ResetTimeout, "for a server to answer what a session left behind")
	f.DurationVar(&s.CloseTimeout, "close-timeout", s.CloseTimeout, "for each side's part in closing a connection")
	f.DurationVar(&s.IdleTimeout, "idle-timeout", s.IdleTimeout, "end sessions without a frame for so long; 0 for never")
	f.DurationVar(&s.MaxSession, "max-session", s.MaxSession, "end sessions that last longer; 0 for never")
	f.DurationVar(&s.DrainTimeout, "drain-timeout", s.DrainTimeout, "for sessions to finish after SIGTERM")
}

func newCheckCommand() *cobra.Command {
	settings := app.DefaultSettings()
	var logging logFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate flags, and say what would be served",
		Long: `Validate the flags of serve without serving: nothing is opened and nobody is dialed.
Every mistake is named at once, and the exit status is 2 when there is any.`,
		Example: `  wsbouncer check --backend ws://127.0.0.1:9001 --profile echo --connections 32`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := logging.logger(io.Discard)
			if err := errors.Join(settings.Check(), err); err != nil {
				return usageError(err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), settings.Describe())
			return err
		},
	}
	addSettingsFlags(cmd, &settings)
	logging.add(cmd)
	return cmd
}
