package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/load"
	"github.com/wsbouncer/wsbouncer/internal/wav"
)

// benchFlags are the flags of the bench command that are no options of the load.
type benchFlags struct {
	text, binary, unicode bool
	json, quiet           bool
	audio, config         string
}

func newBenchCommand() *cobra.Command {
	var flags benchFlags
	options := load.Options{}
	cmd := &cobra.Command{
		Use:   "bench URL...",
		Short: "Offer load to a WebSocket server and measure how it copes",
		Long: `Offer load to a WebSocket server, or to the proxy in front of it, and measure how it copes.

With --audio, clients stream a recording to a speech server with Vosk's protocol instead,
in real time and session after session; every session must give the same final texts.

All clients connect, at once unless --ramp is given, and each sends its first message
right away. When the first echoes are back, each client sends --rate messages a second
for --duration. The server must answer every message with the same message; each
answer is compared in full.

Latency counts from the time when a message was due, not from when it could be sent, so
that a server that stalls does not look better by slowing the clients down.

The exit status is 1 when a message was lost or mixed up, or a connection failed, or
none could be made. Interrupted, the command ends early and prints the results so far.`,
		Example: `  # 3000 clients, 100 messages of 1 KiB a second each
  wsbouncer bench ws://127.0.0.1:8080/v1/echo --connections 3000 --rate 100 --size 1024 --text

  # 32 people who talk to a speech server
  wsbouncer bench ws://127.0.0.1:8080/v1/stt --connections 32 --audio speech.wav --duration 1m

  # 500 clients that arrive over ten seconds, results as JSON
  wsbouncer bench ws://127.0.0.1:8080/v1/echo --connections 500 --rate 10 --ramp 10s --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			options := options
			options.URLs = args
			if err := errors.Join(exclusiveBenchFlags(cmd.Flags()), flags.load(&options)); err != nil {
				return usageError(err)
			}
			return runBench(cmd, options, flags)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&options.Connections, "connections", "c", 100, "number of clients")
	f.Float64VarP(&options.Rate, "rate", "r", 10, "messages per second and client; 0 leaves the connections idle")
	f.IntVarP(&options.Size, "size", "s", 1024, "length of a message in bytes")
	f.BoolVar(&flags.text, "text", false, "send text messages")
	f.BoolVar(&flags.binary, "binary", false, "send binary messages (the default)")
	f.BoolVar(&flags.unicode, "unicode", false, "with --text: characters of one to four bytes, not ASCII alone")
	f.StringVar(&flags.audio, "audio", "", "WAV `file` (mono, 16 bits) to stream instead")
	f.DurationVar(&options.Chunk, "chunk", 100*time.Millisecond, "with --audio: how much audio a message holds")
	f.StringVar(&flags.config, "config", `{"config" : {"sample_rate" : RATE}}`, "with --audio: `text` to begin sessions with, RATE standing for the file's; empty for none")
	f.DurationVarP(&options.Duration, "duration", "d", 30*time.Second, "how long to send")
	f.DurationVar(&options.Ramp, "ramp", 0, "time over which the clients connect (default all at once)")
	f.IntVar(&options.DialParallel, "dial-parallel", 0, "most connections being opened at a time (default no limit)")
	f.DurationVar(&options.ConnectTimeout, "connect-timeout", 10*time.Second, "how long opening a connection may take, and the first echo after it")
	f.DurationVar(&options.Drain, "drain", 5*time.Second, "how long to wait for the last echoes")
	f.IntVar(&options.Window, "window", 0, "most messages a client sends ahead of their echoes (default no limit)")
	f.IntVar(&options.Loops, "loops", 0, "number of event loops (default half of the processors)")
	f.DurationVar(&options.Tick, "tick", 100*time.Microsecond, "shortest time between two wake-ups to send; more is cheaper and less even")
	f.BoolVar(&flags.json, "json", false, "print the result as one JSON object")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "do not show progress")
	return cmd
}

func runBench(cmd *cobra.Command, options load.Options, flags benchFlags) error {
	if err := options.Validate(); err != nil {
		return usageError(err)
	}
	progress := newBenchProgress(cmd.ErrOrStderr(), flags.quiet)
	options.ProgressInterval = progress.interval
	result, err := load.Run(cmd.Context(), options, progress.report)
	if err != nil {
		return err
	}
	if flags.json {
		err = printBenchJSON(cmd.OutOrStdout(), result)
	} else {
		err = printBenchTable(cmd.OutOrStdout(), result)
	}
	return errors.Join(err, result.Err())
}

// load fills in what the flags say in other words than the options.
func (f *benchFlags) load(o *load.Options) error {
	o.Text, o.Unicode = f.text, f.unicode
	if f.audio == "" {
		return nil
	}
	file, err := os.ReadFile(f.audio)
	if err != nil {
		return fmt.Errorf("audio: %w", err)
	}
	if o.Audio, err = wav.Parse(file); err != nil {
		return fmt.Errorf("audio: %s: %w", f.audio, err)
	}
	o.Config = strings.ReplaceAll(f.config, "RATE", strconv.Itoa(o.Audio.SampleRate))
	return nil
}

// exclusiveBenchFlags tells which of the given flags make no sense together.
func exclusiveBenchFlags(given *pflag.FlagSet) error {
	echo := []string{"rate", "size", "text", "binary", "unicode", "window"}
	speech := []string{"chunk", "config"}
	var errs []error
	exclude := func(flag string, others ...string) {
		for _, other := range others {
			if given.Changed(flag) && given.Changed(other) {
				errs = append(errs, fmt.Errorf("--%s and --%s exclude each other", flag, other))
			}
		}
	}
	exclude("text", "binary")
	exclude("audio", echo...)
	for _, flag := range speech {
		if given.Changed(flag) && !given.Changed("audio") {
			errs = append(errs, fmt.Errorf("--%s goes with --audio only", flag))
		}
	}
	return errors.Join(errs...)
}
