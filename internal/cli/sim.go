package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

func newSimCommand() *cobra.Command {
	var (
		options sim.Options
		fail    string
		nasty   string
		quiet   bool
	)
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated inference server",
		Long: `Run a simulated inference server, to try and to measure the proxy with.

It speaks one of these protocols. "full" is how it refuses sessions over the limit of
--nasty full:N or admissions:N. Connections over --sessions get HTTP 503 in each protocol.
` + protocolHelp() + `
The speech protocols accept audio and describe it: the words say how long and how loud
the sounds were (vosk), or whose audio it is if it carries marks, like that of the leak
hunt ("s17:3-5": session 17, chunks 3 to 5).

The server prints its URL when it listens, and runs until it is interrupted. Failures
for --fail, in a comma-separated list:
  ` + indented(sim.FailHelp) + `
Habits that make connections unsafe to reuse, for --nasty (in brackets, who has them):
  ` + indented(sim.NastyHelp),
		Example: `  # An echo server
  wsbouncer sim --listen 127.0.0.1:9001

  # A speech server with 32 slots that needs 20 to 25 ms for each answer
  wsbouncer sim --protocol vosk --sessions 32 --latency 20ms --jitter 5ms

  # A speech server that cuts off one answer in a hundred and sends late messages
  wsbouncer sim --protocol vosk --fail midframe:0.01,late:0.5:50ms --seed 7

  # A speech server that hangs for one message in a thousand, and now and then dies for 5 s
  wsbouncer sim --protocol vosk --fail stall:0.001,oom:0.0001:5s

  # A service that requires a key, as Deepgram does (Authorization: Token secret)
  wsbouncer sim --protocol deepgram --api-key secret

  # A server with 4 slots whose last results come after it has said that it is done
  wsbouncer sim --protocol sherpa-onnx --nasty full:4,overtaken-final`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if options.Fail, err = sim.ParseFail(fail); err != nil {
				return usageError(err)
			}
			if options.Nasty, err = sim.ParseNasty(nasty); err != nil {
				return usageError(err)
			}
			if err = options.Validate(); err != nil {
				return usageError(err)
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if quiet {
				log = slog.New(slog.DiscardHandler)
			}
			options.Logger = log
			return runSim(cmd, options, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:9001", "address to listen on, `host:port`; port 0 chooses a free one")
	flags.StringVar(&options.Protocol, "protocol", sim.Echo, "`name` of the protocol (see above)")
	flags.StringVar(&options.Subprotocol, "subprotocol", "", "`name` of the WebSocket subprotocol to accept if a client offers it (default: the protocol's own)")
	flags.StringVar(&options.Path, "path", "", "`path` that clients must request; others get HTTP 404 (default: any)")
	flags.StringVar(&options.APIKey, "api-key", "", "`key` that clients must send, in the way of "+strings.Join(sim.KeyProtocols(), ", ")+" (default: no key)")
	flags.BoolVar(&options.RefuseByStatus, "refuse-by-status", false, "answer a bad key with HTTP 401, even if the real service accepts the upgrade and then reports the error")
	flags.DurationVar(&options.Latency, "latency", 0, "`time` between a message and its answer")
	flags.DurationVar(&options.Jitter, "jitter", 0, "maximum `time` added to the latency of an answer")
	flags.IntVar(&options.Sessions, "sessions", 0, "maximum number of connections; others get HTTP 503 (0: no limit)")
	flags.Int64Var(&options.MaxMessage, "max-message", 16<<20, "maximum size of a message in `bytes`")
	flags.StringVar(&fail, "fail", "", "`list` of failures (see above)")
	flags.StringVar(&nasty, "nasty", "", "`list` of habits that make connections unsafe to reuse (see above)")
	flags.DurationVar(&options.Silence, "silence", 0, "maximum `time` of silence of a client, instead of the protocol's own limit")
	flags.Uint64Var(&options.Seed, "seed", 0, "`number` that makes jitter and failures reproducible")
	flags.IntVar(&options.Loops, "loops", 1, "number of event loops")
	flags.BoolVar(&quiet, "quiet", false, "log only errors")
	return cmd
}

// protocolHelp describes the protocols, one to a line, and how they say that they are full.
func protocolHelp() string {
	var b strings.Builder
	for _, p := range sim.Protocols() {
		fmt.Fprintf(&b, "  %-16s %s;\n  %-16s full: %s\n", p.Name, p.Summary, "", p.Full)
	}
	return b.String()
}

// indented returns the lines two columns further to the right, the first aside.
func indented(lines string) string { return strings.ReplaceAll(lines, "\n", "\n  ") }

// runSim runs a server until the command's context ends.
func runSim(cmd *cobra.Command, options sim.Options, log *slog.Logger) error {
	server, err := sim.Start(options)
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := io.WriteString(cmd.OutOrStdout(), server.URL()+"\n"); err != nil {
		return fmt.Errorf("printing the URL: %w", err)
	}
	log.Info("simulated server is listening", "url", server.URL(), "protocol", options.Protocol)
	<-cmd.Context().Done()
	stats := server.Stats()
	log.Info("simulated server ends", "connections", stats.Connections, "peak", stats.Peak,
		"accepted", stats.Accepted, "refused", stats.Refused, "bad_requests", stats.BadRequests,
		"messages", stats.Messages, "protocol_errors", stats.ProtocolErrors)
	return nil
}
