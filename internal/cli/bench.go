package cli

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/load/report"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// benchFlags are the flags of the bench command that are no options of the load.
type benchFlags struct {
	text, binary, unicode bool
	json, quiet           bool
	audio                 benchAudio
	header                headerFlag
	output                output
	series, report        string
	failIf                []load.Threshold
}

func newBenchCommand() *cobra.Command {
	var flags benchFlags
	options := load.Options{}
	cmd := &cobra.Command{
		Use:   "bench URL...",
		Short: "Put load on a WebSocket server and measure how it copes",
		Long: `Put load on a WebSocket server, or on the proxy in front of it, and measure how it copes.

All clients connect, at once or spread over --ramp, and each sends its first message
right away. When the first echoes are back, each client sends --rate messages a second
for --duration. The server must answer every message with the same message; bench
compares each answer in full. Clients take several URLs in turn.

With --session-length, each client ends its session in order after that time, up to a
tenth more or less, and starts another.

With --audio, clients instead hold sessions as the clients of --profile do, with any profile
that says what its clients say: they stream the recordings at the pace of speech, session
after session, and begin spread over the length of one recording, or over --ramp. A session
with each recording is held alone before, and the others must have the same final texts. The
result has the lag (from when audio was due until a result answered it), and whether it grew.

Latency counts from the time when a message was due, not when it could be sent, so a
server that stalls does not look better by slowing the clients down.

The exit status is 1 if a message was lost or mixed up, a connection failed, no client
could connect, a session had another text than alone, or a --fail-if threshold is met. A
--fail-if for lost or mixed messages, for failures or their rate, or for texts, replaces the
default condition for them.
If interrupted, the command ends early and prints the results so far.

The result goes to standard output, progress to standard error. Metrics for --fail-if,
each with one of > >= < <= and a limit:
  ` + indented(load.MetricsHelp()),
		Example: `  # 3000 clients, 100 messages of 1 KiB a second each
  wsbouncer bench ws://127.0.0.1:8080/v1/echo --connections 3000 --rate 100 --size 1024 --text

  # 32 clients that stream speech to a speech server
  wsbouncer bench ws://127.0.0.1:8080/v1/stt --connections 32 --profile deepgram --audio a.wav --audio b.wav --duration 1m

  # A gate for a speech server, with the recording that comes with the program
  wsbouncer bench ws://127.0.0.1:2700/ --connections 8 --audio sample --fail-if 'lag-p95>1s' --fail-if 'same-text<98%'

  # 500 clients that arrive over ten seconds, results as JSON
  wsbouncer bench ws://127.0.0.1:8080/v1/echo --connections 500 --rate 10 --ramp 10s --output json

  # Sessions of one second, one after another, on two servers
  wsbouncer bench ws://10.0.0.1:8080/ ws://10.0.0.2:8080/ --connections 200 --session-length 1s

  # A gate for a deployment, with a report to look at
  wsbouncer bench ws://127.0.0.1:8080/v1/echo --fail-if 'p99>50ms' --fail-if 'failure-rate>0.1%' --report report.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			options := options
			options.URLs = args
			options.Text, options.Unicode = flags.text, flags.unicode
			for _, field := range flags.header.fields {
				options.Header = append(options.Header, field.name+": "+field.value)
			}
			if err := exclusiveBenchFlags(cmd.Flags()); err != nil {
				return usageError(err)
			}
			return runBench(cmd, options, flags)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&options.Connections, "connections", "c", 100, "number of clients")
	f.Float64VarP(&options.Rate, "rate", "r", 10, "messages per second and client; 0 leaves the connections idle")
	f.IntVarP(&options.Size, "size", "s", 1024, "size of a message in bytes")
	f.BoolVar(&flags.text, "text", false, "send text messages")
	f.BoolVar(&flags.binary, "binary", false, "send binary messages (the default)")
	f.BoolVar(&flags.unicode, "unicode", false, "with --text: use characters of one to four bytes, not only ASCII")
	flags.audio.add(cmd)
	f.DurationVarP(&options.Duration, "duration", "d", 30*time.Second, "length of the steady phase")
	f.DurationVar(&options.Ramp, "ramp", 0, "time over which the clients connect (default all at once; with --audio, the length of one recording)")
	f.IntVar(&options.DialParallel, "dial-parallel", 0, "maximum number of clients that connect at a time (default no limit)")
	f.DurationVar(&options.ConnectTimeout, "connect-timeout", 10*time.Second, "maximum time to connect, and then to wait for the last first echoes")
	f.DurationVar(&options.Drain, "drain", 0, "maximum time to wait for the last echoes (default 5s) or, with --audio, for a session's last message (default 30s)")
	f.IntVar(&options.Window, "window", 0, "maximum number of messages without an echo per client (default no limit)")
	f.IntVar(&options.Loops, "loops", 0, "number of event loops (default half of the processors)")
	f.DurationVar(&options.SessionLength, "session-length", 0, "length of a session, after which its client starts another (default the whole run)")
	f.BoolVar(&options.NoJitter, "no-jitter", false, "with --session-length: do not vary the length of sessions")
	f.VarP(&flags.header, "header", "H", "header of the handshake, "+headerHelp)
	f.StringVar(&options.Subprotocol, "subprotocol", "", "`name` of the WebSocket subprotocol to request")
	f.StringVar(&options.TLS.CA, "tls-ca", "", "PEM `file` with the authorities to trust for wss:// (default: the system's)")
	f.StringVar(&options.TLS.ServerName, "tls-server-name", "", "`name` that the server's certificate must be for (default: the URL's host)")
	f.BoolVar(&options.TLS.InsecureSkipVerify, "tls-insecure-skip-verify", false, "trust any certificate, for any name")
	f.StringVar(&options.TLS.Certificate, "tls-certificate", "", "PEM `file` with the certificate to present to the server")
	f.StringVar(&options.TLS.Key, "tls-key", "", "PEM `file` with the private key of --tls-certificate")
	f.DurationVar(&options.Tick, "tick", 100*time.Microsecond, "minimum time between two wake-ups to send; a longer time needs less CPU and spreads the load less evenly")
	flags.output.add(cmd, "table", asJSON)
	f.BoolVar(&flags.json, "json", false, "the same as --output json")
	f.StringVar(&flags.series, "series", "", "write a line for each second to this `file`: name.csv or name.json")
	f.StringVar(&flags.report, "report", "", "write an HTML report with plots to this `file`")
	f.Func("fail-if", "`threshold` for exit status 1, such as 'p99>50ms' (see above; repeat for several)", func(text string) error {
		threshold, err := load.ParseThreshold(text)
		if err == nil {
			flags.failIf = append(flags.failIf, threshold)
		}
		return err
	})
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "of the progress on standard error, print only 'steady' and 'done'")
	return cmd
}

func runBench(cmd *cobra.Command, options load.Options, flags benchFlags) error {
	if err := errors.Join(options.Validate(), flags.check()); err != nil {
		return usageError(err)
	}
	var speakers *streams.Options
	if len(flags.audio.audio) > 0 {
		var err error
		if speakers, err = flags.audio.options(cmd, options); err != nil {
			return usageError(err)
		}
	}
	progress := newBenchProgress(cmd.ErrOrStderr(), flags.quiet)
	options.ProgressInterval = progress.interval
	r := &report.Report{Version: buildVersion(), Started: time.Now(), Options: options}
	if speakers != nil {
		speakers.Progress, speakers.Interval = progress.report, progress.interval
		r.Options.Ramp, r.Options.Drain, r.Audio = speakers.Spread, speakers.Last, flags.audio.settings()
	}
	files, err := flags.createFiles()
	if err != nil {
		return flags.unmeasured(cmd, r, err)
	}
	defer files.discard()
	if speakers != nil {
		r.Result, err = flags.audio.run(cmd.Context(), speakers, cmd.ErrOrStderr(), flags.quiet)
	} else {
		r.Result, err = load.Run(cmd.Context(), options, progress.report)
	}
	if status, ok := errors.AsType[*handshake.StatusError](err); ok && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden) {
		err = fmt.Errorf("%w: %s", err, wantsCredential)
	}
	if err != nil {
		return flags.unmeasured(cmd, r, err)
	}
	r.Verdicts, r.Trouble = r.Result.Judge(flags.failIf)
	if flags.json || flags.output.forPrograms() {
		err = r.JSON(cmd.OutOrStdout())
	} else {
		err = r.Table(cmd.OutOrStdout())
	}
	if err := r.Result.Refusal; err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the first client that could not connect: %v\n", err)
	}
	if err := r.Result.Said; err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the first session that the server reported as failed: %v\n", err)
	}
	if allUnauthorized(r.Result) {
		fmt.Fprintln(cmd.ErrOrStderr(), wantsCredential)
	}
	return errors.Join(err, files.write(r), r.Trouble)
}

// unmeasured returns why a run has measured nothing that counts. Programs get a result in any case.
func (f *benchFlags) unmeasured(cmd *cobra.Command, r *report.Report, why error) error {
	if !f.json && !f.output.forPrograms() {
		return why
	}
	if r.Result == nil {
		r.Result = load.Nothing(r.Options)
		if r.Audio != nil {
			r.Result.Speech = &load.Speech{Texts: []string{}}
		}
	}
	r.Verdicts, _ = r.Result.Judge(f.failIf)
	r.Trouble = why
	return errors.Join(r.JSON(cmd.OutOrStdout()), why)
}

// wantsCredential is the advice about a server that refuses clients without a credential.
const wantsCredential = `the service wants a key or another credential, such as --header "Authorization=Bearer env:KEY"`

// allUnauthorized reports whether all clients were refused for lack of a credential that is good.
func allUnauthorized(r *load.Result) bool {
	refused := r.Errors["connect: HTTP 401"] + r.Errors["connect: HTTP 403"]
	return refused > 0 && refused == int64(r.ConnectFailures) && r.Connected == 0
}

// check tells what is wrong with the flags that are no options of the load.
func (f *benchFlags) check() error {
	if f.series == "" {
		return nil
	}
	if err := report.CheckSeriesName(f.series); err != nil {
		return fmt.Errorf("--series: %w", err)
	}
	return nil
}

// exclusiveBenchFlags tells which of the given flags make no sense together.
func exclusiveBenchFlags(given *pflag.FlagSet) error {
	echo := []string{"rate", "size", "text", "binary", "unicode", "window", "session-length"}
	var errs []error
	exclude := func(flag string, others ...string) {
		for _, other := range others {
			if given.Changed(flag) && given.Changed(other) {
				errs = append(errs, fmt.Errorf("--%s and --%s cannot be used together", flag, other))
			}
		}
	}
	exclude("text", "binary")
	exclude("audio", append(echo, "no-jitter", "dial-parallel", "loops", "tick")...)
	exclude("json", "output")
	for _, flag := range [][2]string{{"profile", "audio"}, {"profile-file", "audio"}, {"model", "audio"}, {"pause", "audio"}, {"no-jitter", "session-length"}} {
		if given.Changed(flag[0]) && !given.Changed(flag[1]) {
			errs = append(errs, fmt.Errorf("--%s works only with --%s", flag[0], flag[1]))
		}
	}
	return errors.Join(errs...)
}
