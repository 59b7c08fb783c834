package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/sim"
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
		Long: `Run a simulated inference server, to try the proxy on and to measure it with.

It speaks one of these protocols:
` + protocolHelp() + `
The speech protocols take audio and answer with what it was: the words tell how
long and how loud the sounds were (vosk), or whose the audio is when it carries
marks, as that of the leak hunt does ("s17:3-5": session 17, chunks 3 to 5).

It prints its URL when it listens, and runs until it is interrupted. Failures for
--fail, in a comma-separated list:
  ` + indented(sim.FailHelp) + `
What makes connections unsafe to use again, for --nasty (in brackets who does so):
  ` + indented(sim.NastyHelp),
		Example: `  # An echo server
  wsbouncer sim --listen 127.0.0.1:9001

  # A speech server with 32 places that takes 20 to 25 ms for each answer
  wsbouncer sim --protocol vosk --sessions 32 --latency 20ms --jitter 5ms

  # One that breaks off one answer in a hundred and sends late messages
  wsbouncer sim --protocol vosk --fail midframe:0.01,late:0.5:50ms --seed 7

  # A service that wants a key, as Deepgram does (Authorization: Token secret)
  wsbouncer sim --protocol deepgram --api-key secret

  # One with 4 places whose last results come after it has said that it is done
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
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:9001", "address to listen on, `host:port`; port 0 takes a free one")
	flags.StringVar(&options.Protocol, "protocol", sim.Echo, "`name` of the protocol (see above)")
	flags.StringVar(&options.Subprotocol, "subprotocol", "", "`name` of the WebSocket subprotocol to accept when it is offered (default: the protocol's own)")
	flags.StringVar(&options.Path, "path", "", "`path` that clients have to ask for; others get HTTP 404 (default: any)")
	flags.StringVar(&options.APIKey, "api-key", "", "`key` that clients have to present, as "+strings.Join(sim.KeyProtocols(), ", ")+" ask for it (default: none is asked for)")
	flags.BoolVar(&options.RefuseByStatus, "refuse-by-status", false, "answer a bad key with HTTP 401 even where the service accepts the upgrade and then says so")
	flags.DurationVar(&options.Latency, "latency", 0, "`time` between a message and its answer")
	flags.DurationVar(&options.Jitter, "jitter", 0, "most `time` that is added to the latency of an answer")
	flags.IntVar(&options.Sessions, "sessions", 0, "most simultaneous connections; others get HTTP 503 (0: no limit)")
	flags.Int64Var(&options.MaxMessage, "max-message", 16<<20, "largest message in `bytes`")
	flags.StringVar(&fail, "fail", "", "`list` of what goes wrong (see above)")
	flags.StringVar(&nasty, "nasty", "", "`list` of what makes connections unsafe to use again (see above)")
	flags.DurationVar(&options.Silence, "silence", 0, "`time` that a client may say nothing, instead of the protocol's own limit")
	flags.Uint64Var(&options.Seed, "seed", 0, "`number` that makes jitter and failures repeatable")
	flags.IntVar(&options.Loops, "loops", 1, "event loops")
	flags.BoolVar(&quiet, "quiet", false, "log nothing but errors")
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
