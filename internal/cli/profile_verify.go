package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/printable"
	"github.com/wsbouncer/wsbouncer/internal/lab/verify"
)

// verifyFlags are the flags of profile verify.
type verifyFlags struct {
	said
	from     profileSources
	form     output
	backend  string
	server   serverFlags
	sessions int
	timeout  time.Duration
	wait     time.Duration
	length   time.Duration
	pace     float64
	settings []string
	seed     uint64
	save     bool
	service  string
	report   string
}

func newProfileVerifyCommand() *cobra.Command {
	flags := verifyFlags{said: said{instead: "--text"}}
	cmd := &cobra.Command{
		Use:   "verify NAME --backend URL --audio FILE|--text TEXT",
		Short: "Try on a real server whether what a profile claims is true",
		Long: `Try on a real server whether what a profile claims is true. The command holds sessions with
your recordings, directly and over reused connections; it leaves them in every manner, cuts
some and moves them to another connection, and compares the results letter by letter and time
by time with those of direct sessions. For each claim it says whether it holds, does not hold,
or was not tried, with what was sent and received.

With --report, what was found is written to a file as a page that you can attach to an issue: it
has no headers, keys or texts of sessions, except for the evidence of what does not hold. Read it first.

With --save, the result is kept in the configuration, as the field verified of the service
whose servers these are (--service), whether the claims hold or not; 'wsbouncer check' warns
if it is missing, old or bad. Nothing is saved if the server could not be tried.

Run it against a server that serves no other clients, with at least two recordings of speech that
differ, or texts (--text) where the server speaks. It opens at most --sessions connections, and takes at most --timeout.

The exit status is 0 if everything that was tried holds, 1 if something does not hold or the
server could not be tried, and 2 for wrong usage.`,
		Example: `  wsbouncer profile verify vosk --backend ws://gpu-1:2700 --audio a.wav --audio b.wav

  # A server that wants a key, which is in the environment; the result for a pipeline
  wsbouncer profile verify deepgram --backend wss://api.deepgram.com/v1/listen \
      --header 'Authorization=Token env:DEEPGRAM_KEY' --audio a.wav --audio b.wav --output json

  # Keep the result in the configuration, with the service
  wsbouncer profile verify vosk --backend ws://gpu-1:2700 --audio a.wav --audio b.wav --save --service stt`,
		Args:              names(config.KindProfile, false),
		ValidArgsFunction: completeProfiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.backend, "backend", "", "`URL` of the server, ws://host:port/path or wss://")
	f.StringArrayVar(&flags.audio, "audio", nil, "WAV `file` with speech, 16 bits, or sample for one that comes with the program (repeat for several)")
	f.StringArrayVar(&flags.text, "text", nil, "`text` to be spoken, instead of --audio, where the server speaks (repeat for several)")
	f.StringVar(&flags.model, "model", "", "`name` of the model to ask for, where clients of the profile name one")
	flags.server.add(f)
	f.IntVar(&flags.sessions, "sessions", 60, "most connections that are opened")
	f.DurationVar(&flags.timeout, "timeout", 15*time.Minute, "maximum time for all of it")
	f.DurationVar(&flags.wait, "step-timeout", 30*time.Second, "maximum time of each wait for the server")
	f.DurationVar(&flags.wait, "wait", 30*time.Second, "")
	deprecate(cmd, "wait", "use --step-timeout; version 0.4 removes it")
	f.DurationVar(&flags.length, "length", 10*time.Second, "how much of each recording is used at most")
	f.Float64Var(&flags.pace, "pace", 1, "how many times faster than real time audio is sent")
	f.StringArrayVar(&flags.settings, "settings", nil, "first `message` of a session with settings that no other session may inherit; $token stands for a number of its own (repeat for several; default: the profile's)")
	f.Uint64Var(&flags.seed, "seed", 0, "chooses the points at which sessions are cut (default: a random one, which is printed)")
	f.BoolVar(&flags.save, "save", false, "keep the result in the configuration, with --service")
	f.StringVar(&flags.report, "report", "", "`file` to write a page to, for an issue")
	f.StringVar(&flags.service, "service", "", "`name` of the service whose servers these are, for --save")
	completeFlag(cmd, "service", config.KindService)
	flags.from.add(cmd)
	flags.form.add(cmd, "text", asJSON, asYAML)
	return cmd
}

// options reads the flags.
func (v *verifyFlags) options(cmd *cobra.Command, name string) (*verify.Options, error) {
	for _, c := range []struct {
		bad  bool
		text string
	}{
		{v.backend == "", "--backend: the value is missing: use the URL of the server to try, such as ws://gpu-1:2700"},
		{len(v.audio)+len(v.text) == 0, "--audio: the value is missing: use a WAV file with speech; two that differ show more"},
		{v.sessions < 1 || v.sessions > 10000, fmt.Sprintf("--sessions: %d is out of range: use 1 to 10000", v.sessions)},
		{v.timeout < time.Second, fmt.Sprintf("--timeout: %v is out of range: use at least 1s", v.timeout)},
		{v.wait < 100*time.Millisecond, fmt.Sprintf("--step-timeout: %v is out of range: use at least 100ms", v.wait)},
		{v.length < 100*time.Millisecond || v.length > 10*time.Minute, fmt.Sprintf("--length: %v is out of range: use 100ms to 10m", v.length)},
		{v.save && v.service == "", "--service: the value is missing: use the name of the service that --save keeps the result with"},
		{!v.save && v.service != "", "--service: without --save, it says nothing: add --save"},
		{!(v.pace >= 0.5 && v.pace <= 1000), fmt.Sprintf("--pace: %v is out of range: use 0.5 to 1000", v.pace)},
	} {
		if c.bad {
			return nil, usageError(errors.New(c.text))
		}
	}
	p, err := v.from.named(cmd, name)
	if err != nil {
		return nil, err
	}
	target, err := v.server.target("--backend", v.backend, p)
	if err != nil {
		return nil, err
	}
	o := &verify.Options{Profile: p, Target: target, Connections: v.sessions, Wait: v.wait, Pace: v.pace, Settings: v.settings, Seed: v.seed}
	if !cmd.Flags().Changed("seed") {
		o.Seed = rand.Uint64N(1 << 32)
	}
	if o.Recordings, err = v.recordings(p, v.length); err != nil {
		return nil, err
	}
	if query := o.Recordings[0].Query(); query != "" {
		target.AddQuery(query)
	}
	return o, nil
}

func (v *verifyFlags) run(cmd *cobra.Command, name string) error {
	o, err := v.options(cmd, name)
	if err != nil {
		return err
	}
	if err := v.checkSave(cmd, name); err != nil {
		return err
	}
	var page *outputFile
	if v.report != "" { // not after a long run, which costs money at some services
		if page, err = openOutput(v.report, 0o600); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
		defer page.discard()
	}
	messages := cmd.ErrOrStderr()
	o.Progress = func(what string) { fmt.Fprintln(messages, what) }
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, v.timeout, fmt.Errorf("--timeout: not done within %v", v.timeout))
	defer cancel()
	fmt.Fprintf(messages, "seed %d\n", o.Seed)
	report, err := verify.Run(ctx, *o)
	if printErr := v.print(cmd.OutOrStdout(), report); printErr != nil {
		return printErr
	}
	if page != nil && wasTried(report, err) {
		how := fmt.Sprintf("--seed %d --pace %g --length %v", o.Seed, v.pace, v.length)
		if v.model != "" {
			how += " --model " + v.model
		}
		text := report.Page(buildVersion(), how)
		if writeErr := page.write(func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); writeErr != nil {
			return fmt.Errorf("--report: %w", writeErr)
		}
	}
	if err == nil && v.save {
		err = v.keep(cmd, report)
	}
	switch {
	case err != nil:
		return err
	case !report.Holds():
		return fmt.Errorf("something that the profile %s claims does not hold on this server", name)
	}
	return nil
}

// wasTried reports whether a run has found something out, although it may have failed.
func wasTried(report *verify.Report, failed error) bool {
	return failed == nil || slices.ContainsFunc(report.Claims, func(c verify.Claim) bool { return c.Verdict != verify.NotTried })
}

// checkSave checks before a long run that its result can be saved.
func (v *verifyFlags) checkSave(cmd *cobra.Command, name string) error {
	if !v.save {
		return nil
	}
	return v.from.use(cmd, false, func(t *target) error {
		content, _, err := t.content(cmd.Context())
		if err != nil {
			return err
		}
		if err := known(&content, config.KindService, v.service); err != nil {
			return err
		}
		if has := content.Services[v.service].Profile; has != name {
			return fmt.Errorf("--service: the service %s has the profile %s, not %s", v.service, has, name)
		}
		return nil
	})
}

// keep keeps a result in the configuration.
func (v *verifyFlags) keep(cmd *cobra.Command, report *verify.Report) error {
	found := config.Verified{At: report.At, Profile: report.Profile, Version: report.Version}
	words := map[verify.Verdict]string{verify.Holds: config.ClaimHolds, verify.Fails: config.ClaimFails, verify.NotTried: config.ClaimUntried}
	for _, c := range report.Claims {
		found.Claims = append(found.Claims, config.VerifiedClaim{Name: c.Name, Verdict: words[c.Verdict]})
	}
	write := writeFlags{targetFlags: v.from.targetFlags, why: "profile verify --save", to: cmd.ErrOrStderr()}
	return write.run(cmd, false, func(now *config.Content) (change config.Change, err error) {
		if now != nil && now.Has(config.KindService, v.service) && now.Services[v.service].Profile != report.Profile {
			return change, fmt.Errorf("the service %s has another profile now: the result was not saved", v.service)
		}
		return setting(config.KindService, v.service, config.Values{"verified": found.String()})(now)
	})
}

// print prints what was found.
func (v *verifyFlags) print(out io.Writer, report *verify.Report) error {
	if v.form.forPrograms() {
		return v.form.print(out, report)
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "CLAIM\tVERDICT\tFOUND")
	for _, c := range report.Claims {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, c.Verdict, printable.Text(c.Why, 2000))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range report.Claims {
		if c.Verdict != verify.Fails {
			continue
		}
		fmt.Fprintf(out, "\n%s does not hold: the profile says that %s, but %s\n", c.Name, c.Says, printable.Text(c.Why, 2000))
		for _, line := range c.Evidence {
			fmt.Fprintf(out, "  %s\n", printable.Text(line, 1000))
		}
	}
	_, err := fmt.Fprintf(out, "\n%s, %s\n", figures.Plural(report.Connections, "connection"), time.Duration(report.Seconds*float64(time.Second)).Round(100*time.Millisecond))
	return err
}
