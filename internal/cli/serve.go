package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/pool"
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
	f.StringVar(&s.Admin, "admin", s.Admin, "address of the admin API (/healthz, /readyz, /api/v1/stats, /metrics)")
	f.StringArrayVar(&s.Backends, "backend", nil, "URL of an inference server, ws://host:port/path (repeat for several); settings of its own may follow, each after a comma: connections=N, warm=N, weight=X, state=enabled|draining|disabled")
	f.StringVar(&s.Path, "path", s.Path, "path that clients ask for; others get 404 (default: any)")
	f.StringVar(&s.Profile, "profile", s.Profile, "the servers' message protocol, such as vosk; one-shot, which uses a connection once, is right for all ('wsbouncer profile ls' lists them)")
	addProfileFiles(cmd, &s.ProfileFiles)
	f.StringVar(&s.Subprotocol, "subprotocol", s.Subprotocol, "Sec-WebSocket-Protocol to ask the servers for, and to grant to clients that offer it (default: the profile's)")
	f.StringArrayVar(&s.Origins, "allow-origin", nil, "accept browsers from this Origin only (repeat for several; default: any)")
	f.IntVar(&s.Connections, "connections", s.Connections, "cap of each server: connections that it ever sees at once")
	f.Var(warmValue{&s.Warm}, "warm", "connections kept ready beside those in use, within the cap (default: the cap)")
	f.StringVar(&s.Balance, "balance", s.Balance, "how a server is chosen for a client: "+strings.Join(pool.BalanceNames(), ", "))
	f.StringVar(&s.HashBy, "hash-by", s.HashBy, "with --balance hash, what names a client: client (its address), header:NAME or query:NAME")
	f.IntVar(&s.Queue, "queue", s.Queue, "most clients that wait when all connections are in use; 0 refuses them at once")
	f.DurationVar(&s.QueueTimeout, "queue-timeout", s.QueueTimeout, "for a connection to come free for a client that waits")
	f.IntVar(&s.Loops, "loops", s.Loops, "most event loops awake at once (default: one per processor)")
	f.Var((*sizeValue)(&s.MaxMessage), "max-message", "largest message from a client; 0 for no limit")
	head := intSize{&s.MaxHead}
	f.Var(head, "max-header", "largest upgrade request")
	f.DurationVar(&s.HandshakeTimeout, "handshake-timeout", s.HandshakeTimeout, "for a client's upgrade request to arrive")
	f.DurationVar(&s.DialTimeout, "dial-timeout", s.DialTimeout, "for a server to accept a connection")
	f.DurationVar(&s.ResetTimeout, "reset-timeout", s.ResetTimeout, "for a connection's reset after a session; 0: as long as its profile allows")
	f.DurationVar(&s.CloseTimeout, "close-timeout", s.CloseTimeout, "for each side's part in closing a connection")
	f.DurationVar(&s.IdleTimeout, "idle-timeout", s.IdleTimeout, "end sessions without a frame for so long; 0 for never")
	f.DurationVar(&s.MaxSession, "max-session", s.MaxSession, "end sessions that last longer; 0 for never")
	f.DurationVar(&s.ConnectionMaxAge, "connection-max-age", s.ConnectionMaxAge, "replace connections to servers that are older, or up to a quarter younger, once idle; 0 for never")
	f.DurationVar(&s.ConnectionMaxIdle, "connection-max-idle", s.ConnectionMaxIdle, "close connections beyond the warm ones that nobody used for so long")
	f.IntVar(&s.ConnectionMaxSessions, "connection-max-sessions", s.ConnectionMaxSessions, "replace connections that have served so many sessions; 0 for no limit")
	f.IntVar(&s.DialParallel, "dial-parallel", s.DialParallel, "connections dialed at once to each server")
	f.DurationVar(&s.PingInterval, "ping-interval", s.PingInterval, "between two pings on each connection to a server, or up to a quarter less; 0 for none")
	f.DurationVar(&s.PingTimeout, "ping-timeout", s.PingTimeout, "for a server to answer a ping, or to send anything else")
	f.DurationVar(&s.UserTimeout, "tcp-user-timeout", s.UserTimeout, "for a server's system to acknowledge what it was sent (Linux); 0 for the system's limit")
	f.StringVar(&s.Probe, "probe", s.Probe, "ask each server whether it is well: upgrade, a path such as /health, or a URL (default: do not)")
	f.DurationVar(&s.ProbeInterval, "probe-interval", s.ProbeInterval, "between two probes, plus or minus a fifth")
	f.DurationVar(&s.ProbeTimeout, "probe-timeout", s.ProbeTimeout, "for a probe to succeed")
	f.IntVar(&s.ProbeFall, "probe-fall", s.ProbeFall, "failed probes in a row that take a server out of service")
	f.IntVar(&s.ProbeRise, "probe-rise", s.ProbeRise, "successful probes in a row that bring it back")
	f.IntVar(&s.CircuitFailures, "circuit-failures", s.CircuitFailures, "failures in a row, of dialing or of sessions that the server broke, that take it out of service for a while")
	f.DurationVar(&s.SlowStart, "slow-start", s.SlowStart, "for a server that was out of service to get its full share of clients back; 0 for at once")
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
