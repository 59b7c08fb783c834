package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/lab/calibrate"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/lab/streams"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct {
	said
	server  serverFlags
	from    profileSources
	form    output
	profile string
	search  calibrate.Options
	session time.Duration
	backend string
	save    bool
	shared  bool
	through string
	plot    string
}

func newCalibrateCommand() *cobra.Command {
	flags := calibrateFlags{said: said{instead: "--text"}}
	cmd := &cobra.Command{
		Use:   "calibrate URL --audio FILE",
		Short: "Find out how many streams a server takes at once",
		Long: `Find out how many streams a server takes at once: the largest number for which all limits hold,
and results are not later and later. The command holds more and more sessions with your recordings, as
the profile's clients do. It doubles their number until a limit fails, bisects, holds the result
for the length of --soak, and shows that one more fails. A limit of time is for 19 of 20: results
(--lag-p95), a session's first (--first-p95) and last (--final-p95). A server that is overloaded
shows in the growth of its lag, which may be nothing but its uncertainty.

Run it against a server that serves no other clients: it will be overloaded. The command reads what the server
publishes of its sessions, asks the proxy that it knows (--admin) and its fleet, and stops if the server has some,
except with --shared. Other clients show only if the server refuses a session that is alone.

If it is interrupted, the same command continues within a day. With --save, the result is kept in the
configuration, as the field calibrated of the --backend; 'wsbouncer check' warns if it is old, or if the
backend may get more connections. It does not change connections: the last line is the command for that.

With --through, the sessions go through the proxy, to one backend that no client gets meanwhile: it is drained, moves
to a service of its own with a random path, and is put back at the end, also after an error, Ctrl-C or a closed
terminal. In a fleet, it is drained at all proxies, and URL must lead to the one of --admin. After SIGKILL or a crash, use the commands that are printed at the beginning.

The exit status is 0 if there is a result, 1 if there is none, and 2 for wrong usage. There is none if
one stream alone fails, or if the server is not the same from step to step.`,
		Example: `  wsbouncer calibrate ws://gpu-1:2700 --profile vosk --audio a.wav --audio b.wav

  # Ten minutes with the recording that comes with the program, a plot, and the result kept
  wsbouncer calibrate ws://gpu-1:2700 --profile vosk --audio sample --soak 2m --plot streams.svg --save --backend gpu-1

  # A server that wants a key; at most 50 streams; the last result within two seconds
  wsbouncer calibrate wss://stt.example.org/v1/listen --profile deepgram --audio a.wav \
      --header 'Authorization=Token env:DEEPGRAM_KEY' --most 50 --final-p95 2s -o json`,
		Args:              oneServer,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	f, limits := cmd.Flags(), &flags.search.Limits
	f.StringVar(&flags.profile, "profile", "vosk", "`name` of the profile of the server's protocol")
	f.StringArrayVar(&flags.audio, "audio", nil, "WAV `file` with speech, 16 bits, or sample for one that comes with the program (repeat for several)")
	f.StringArrayVar(&flags.text, "text", nil, "`text` to be spoken, instead of --audio, where the server speaks (repeat for several)")
	f.StringVar(&flags.model, "model", "", "`name` of the model to ask for, where clients of the profile name one")
	f.DurationVar(&limits.Lag, "lag-p95", time.Second, "limit of the lag of results: from when audio was due to a result that answers it")
	f.DurationVar(&limits.First, "first-p95", 0, "limit of the time from a session's first audio to its first result (default none)")
	f.DurationVar(&limits.Final, "final-p95", 0, "limit of the time from the end of audio to the last message (default none)")
	f.Float64Var(&limits.ErrorRate, "error-rate", 0, "share of sessions that may fail or be refused, 0 to 1")
	f.Float64Var(&limits.SameText, "same-text", 0.98, "share of sessions that must have the text of a session that was alone, 0 to 1")
	f.IntVar(&flags.search.Most, "most", 1024, "largest number of streams to try")
	f.DurationVar(&flags.session, "session", 30*time.Second, "minimum length of a session, and so of a step; recordings are repeated in it")
	f.DurationVar(&flags.search.Soak, "soak", 5*time.Minute, "length of the last step at the result")
	f.BoolVar(&flags.shared, "shared", false, "go on although the server has other clients, who will be served badly")
	f.StringVar(&flags.through, "through", "", "`name` of a backend to calibrate via the proxy, whose clients connect to URL: it is drained meanwhile, and put back at the end")
	f.StringVar(&flags.plot, "plot", "", "write a plot to this `file`, an SVG")
	f.StringVar(&flags.backend, "backend", "", "`name` of the backend in the configuration whose server it is")
	f.BoolVar(&flags.save, "save", false, "keep the result in the configuration, with --backend")
	completeFlag(cmd, "backend", config.KindBackend)
	completeFlag(cmd, "through", config.KindBackend)
	completeFlag(cmd, "profile", config.KindProfile)
	flags.server.add(f)
	flags.from.add(cmd)
	flags.from.whole = true // any proxy of the fleet may have sessions on the server
	flags.form.add(cmd, "text", asJSON, asYAML)
	return cmd
}

// shortAudio is how much of a recording is used between steps.
const shortAudio = 10 * time.Second

// longestSoak is the longest last step: an interrupted calibration does not continue after longer either.
const longestSoak = continueWithin

// oneServer checks that a command is given a server.
func oneServer(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(fmt.Errorf("%s takes the URL of one server, such as ws://gpu-1:2700, but got %d arguments", cmd.CommandPath(), len(args)))
	}
	return nil
}

// check returns which flag is wrong.
func (c *calibrateFlags) check() error {
	s, l := &c.search, &c.search.Limits
	for _, wrong := range []struct {
		bad  bool
		text string
	}{
		{len(c.audio)+len(c.text) == 0, "--audio: the value is missing: use a WAV file with speech, or sample"},
		{l.Lag < time.Millisecond, fmt.Sprintf("--lag-p95: %v is out of range: use at least 1ms", l.Lag)},
		{l.First < 0, fmt.Sprintf("--first-p95: %v is out of range: use 0 for no limit, or more", l.First)},
		{l.Final < 0, fmt.Sprintf("--final-p95: %v is out of range: use 0 for no limit, or more", l.Final)},
		{!(l.ErrorRate >= 0 && l.ErrorRate < 1), fmt.Sprintf("--error-rate: %g is out of range: use 0 to less than 1", l.ErrorRate)},
		{!(l.SameText >= 0 && l.SameText <= 1), fmt.Sprintf("--same-text: %g is out of range: use 0 to 1", l.SameText)},
		{s.Most < 1 || s.Most > 10000, fmt.Sprintf("--most: %d is out of range: use 1 to 10000", s.Most)},
		{c.session < time.Second || c.session > time.Hour, fmt.Sprintf("--session: %v is out of range: use 1s to 1h", c.session)},
		{s.Soak < c.session, fmt.Sprintf("--soak: %v is shorter than --session, %v", s.Soak, c.session)},
		{s.Soak > longestSoak, fmt.Sprintf("--soak: %v is out of range: use at most %.0fh", s.Soak, longestSoak.Hours())},
		{c.through != "" && (c.backend != "" || c.shared), "--through: with it, --backend and --shared say nothing: leave them out"},
		{c.save && c.backend == "" && c.through == "", "--backend: the value is missing: use the name of the backend that --save keeps the result with"},
	} {
		if wrong.bad {
			return usageError(errors.New(wrong.text))
		}
	}
	return nil
}

// prepare returns the server.
func (c *calibrateFlags) prepare(cmd *cobra.Command, url string) (*calibrate.Server, error) {
	p, err := c.from.named(cmd, c.profile)
	if err != nil {
		return nil, err
	}
	target, err := c.server.target("argument URL", url, p)
	if err != nil {
		return nil, err
	}
	server := &calibrate.Server{Limits: c.search.Limits, Streams: streams.Options{Targets: []*handshake.Target{target}, Profile: p}}
	if server.Short, err = c.recordings(p, shortAudio); err != nil {
		return nil, err
	}
	whole, err := c.recordings(p, longestAudio)
	if err != nil {
		return nil, err
	}
	for _, r := range whole {
		server.Streams.Recordings = append(server.Streams.Recordings, r.AtLeast(c.session))
	}
	if query := whole[0].Query(); query != "" {
		target.AddQuery(query)
	}
	c.search.Session, c.search.Before = calibrate.Longest(server.Streams.Recordings), server.Before()
	c.search.Soak = max(c.search.Soak, c.search.Session)
	return server, nil
}

func (c *calibrateFlags) run(cmd *cobra.Command, url string) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if c.through == "" {
		return c.calibrate(cmd, url, url, nil)
	}
	return c.from.use(cmd, false, func(t *target) (err error) {
		p, err := newThrough(cmd, t, c.through, c.profile, c.search.Most)
		if err != nil {
			return err
		}
		if _, err := c.prepare(cmd, url); err != nil { // before anything is changed
			return err
		}
		c.backend = c.through
		defer p.protect()()
		defer func() { err = errors.Join(err, p.putBack()) }()
		own, err := p.take(url)
		if err != nil {
			return err
		}
		return c.calibrate(cmd, url, own, p)
	})
}

// calibrate calibrates the server at a URL, which is that of the argument or stands for it; via the proxy, unless p is nil.
func (c *calibrateFlags) calibrate(cmd *cobra.Command, url, at string, p *through) error {
	server, err := c.prepare(cmd, at)
	if err != nil {
		return err
	}
	if c.backend != "" && c.through == "" {
		if err := c.checkBackend(cmd); err != nil {
			return err
		}
	}
	ctx, messages := cmd.Context(), cmd.ErrOrStderr()
	server.Log = func(format string, args ...any) { fmt.Fprintf(messages, format+"\n", args...) }
	var plot *outputFile
	if c.plot != "" {
		if plot, err = openOutput(c.plot, 0o600); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
		defer plot.discard()
	}
	if c.through == "" {
		if err := c.look(cmd, server); err != nil {
			return err
		}
	}
	report := &calibrate.Report{URL: secret.URL(url), Profile: c.profile, Model: c.model, At: time.Now().UTC(), Limits: c.search.Limits}
	var limits *proxyLimits
	if p != nil {
		limits = p.limits
	}
	server.Streams.Progress = func(load.Progress) { limits.look(ctx) } // once a second, until the streams of a step have ended
	limits.begin(ctx)
	if err := c.meet(ctx, server); err != nil {
		limits.look(ctx)
		return cmp.Or(limits.kept(ctx, 1), err)
	}
	began := newCalibration(c, url, server)
	report.Steps = began.load(messages)
	measure := func(ctx context.Context, n int, length time.Duration) (calibrate.Measured, error) {
		limits.begin(ctx)
		m, err := server.Measure(ctx, n, length)
		switch {
		case errors.Is(err, calibrate.ErrGone):
			limits.look(ctx) // what keeps a session from a server that has not recovered
		case err != nil:
			return m, err
		}
		if verdict, _ := c.search.Limits.Judge(n, m); verdict != calibrate.Holds {
			err = cmp.Or(limits.kept(ctx, n), err)
		}
		return m, err
	}
	search := calibrate.Search{Options: c.search, Measure: measure, Begins: c.begins(messages), Taken: c.taken(messages, began, p)}
	if len(report.Steps) == 0 {
		fmt.Fprintln(messages, c.estimates())
	}
	outcome, steps, err := search.Run(ctx, report.Steps)
	if err != nil {
		return began.interrupted(ctx, len(steps), err)
	}
	began.remove()
	report.Version = versionOf(ctx, server.Streams.Targets[0])
	report.Connections, report.AtMost, report.Why, report.Steps = outcome.Found, outcome.AtMost, outcome.Why, steps
	return c.conclude(cmd, report, plot)
}

// versionOf returns what a server says of its version in its handshake; empty if it does not say.
func versionOf(ctx context.Context, target *handshake.Target) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	established, err := target.Dial(ctx)
	if err != nil {
		return ""
	}
	_ = established.Conn.Close()
	return established.Server
}

// meet holds a session with each recording. The error says why the server cannot be calibrated.
func (c *calibrateFlags) meet(ctx context.Context, server *calibrate.Server) error {
	o := &server.Streams
	alone := time.Duration(0)
	for _, r := range slices.Concat(server.Short, o.Recordings) {
		alone += r.Length()
	}
	server.Log("One session at a time, to compare with: %v", alone.Round(100*time.Millisecond))
	result, err := server.Alone(ctx)
	switch _, full := speaker.Refused(o.Profile, err); {
	case err == nil:
		server.Log("Alone: lag p95 %s, first result %s, last %s", shortly(result.Latency.Quantile(0.95)), shortly(result.Speech.First.Max()), shortly(result.Speech.Final.Max()))
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted before step 1")
	case full:
		return fmt.Errorf("the server is full although this command has no other session, so it serves other clients: %w", err)
	}
	return fmt.Errorf("%w ('wsbouncer profile verify' tries what the profile says)", err)
}

// estimates says how long the search takes, for a server with few streams and for one with many, as far as it may get so many.
func (c *calibrateFlags) estimates() string {
	few, many := min(4, c.search.Most), min(200, c.search.Most)
	text := fmt.Sprintf("If the server takes %s, this takes %s in all", figures.Plural(few, "stream"), minutes(c.search.Estimate(few)))
	if many > few {
		text += fmt.Sprintf(", and %s if it takes %d", minutes(c.search.Estimate(many)), many)
	}
	return text + ". What surprises takes longer."
}

// begins returns what says that a step begins.
func (c *calibrateFlags) begins(messages io.Writer) func(int, calibrate.Plan, time.Duration) {
	why := map[string]string{calibrate.Double: "", calibrate.Bisect: ", between what holds and what fails", calibrate.Soak: ", the soak", calibrate.Beyond: ", which must fail"}
	return func(number int, p calibrate.Plan, left time.Duration) {
		again, then := "", ""
		if p.Repeat > 0 {
			again = " again"
		}
		if left > 0 {
			then = "; then some " + minutes(left) + " more"
		}
		fmt.Fprintf(messages, "step %d: %s%s for %v%s%s\n", number, figures.Plural(p.Streams, "stream"), again, c.search.Takes(p).Round(time.Second), why[p.Phase], then)
	}
}

// taken returns what says how a step went, and keeps it.
func (c *calibrateFlags) taken(messages io.Writer, began *calibration, p *through) func([]calibrate.Step) error {
	return func(steps []calibrate.Step) error {
		step := steps[len(steps)-1]
		why := ""
		if step.Why != "" {
			why = ": " + step.Why
		}
		fmt.Fprintf(messages, "  %s%s (lag p95 %s)\n", step.Verdict, why, shortly(step.Measured.Lag))
		began.keep(messages, steps)
		return p.served()
	}
}

// conclude prints and keeps what was found.
func (c *calibrateFlags) conclude(cmd *cobra.Command, r *calibrate.Report, plot *outputFile) (err error) {
	out := cmd.OutOrStdout()
	if c.form.forPrograms() {
		err = c.form.print(out, r)
	} else {
		fmt.Fprintln(cmd.ErrOrStderr())
		err = errors.Join(r.Table(out), newline(out), r.Bars(out), newline(out))
		if r.Connections > 0 {
			_, printed := fmt.Fprintln(out, r.Verdict())
			err = errors.Join(err, printed)
		}
	}
	if plot != nil {
		if failed := plot.write(r.Plot); failed != nil {
			err = errors.Join(err, fmt.Errorf("--plot: %w", failed))
		}
	}
	if r.Connections == 0 {
		return errors.Join(err, fmt.Errorf("no result: %s", r.Why))
	}
	if c.save {
		err = errors.Join(err, c.keep(cmd, r))
	}
	if !c.form.forPrograms() {
		_, printed := fmt.Fprintf(out, "\n  wsbouncer backend set %s --connections %d\n", cmp.Or(c.backend, "NAME"), r.Connections)
		err = errors.Join(err, printed)
	}
	return err
}

func newline(out io.Writer) error {
	_, err := io.WriteString(out, "\n")
	return err
}

// checkBackend checks before a long run that its result can be saved.
func (c *calibrateFlags) checkBackend(cmd *cobra.Command) error {
	return c.from.use(cmd, false, func(t *target) error {
		content, _, err := t.content(cmd.Context())
		if err != nil {
			return err
		}
		if err := known(&content, config.KindBackend, c.backend); err != nil {
			return err
		}
		return c.serves(&content)
	})
}

// serves checks that the backend's service has the profile.
func (c *calibrateFlags) serves(content *config.Content) error {
	service := content.Backends[c.backend].Service
	if has := content.Services[service].Profile; has != c.profile {
		return fmt.Errorf("--backend: the service %s of the backend %s has the profile %s, not %s", service, c.backend, has, c.profile)
	}
	return nil
}

// keep keeps a result in the configuration.
func (c *calibrateFlags) keep(cmd *cobra.Command, r *calibrate.Report) error {
	l := &r.Limits
	found := config.Calibrated{At: r.At, Profile: r.Profile, Streams: r.Connections, Version: r.Version, Under: []string{"lag-p95=" + l.Lag.String()}}
	add := func(wanted bool, name string, value any) {
		if wanted {
			found.Under = append(found.Under, fmt.Sprintf("%s=%v", name, value))
		}
	}
	add(l.First > 0, "first-p95", l.First)
	add(l.Final > 0, "final-p95", l.Final)
	add(true, "error-rate", l.ErrorRate)
	add(true, "same-text", l.SameText)
	add(true, "soak", c.search.Soak.Round(time.Second))
	add(r.AtMost, "at-most", c.search.Most)
	add(r.Model != "", "model", r.Model)
	write := writeFlags{targetFlags: c.from.targetFlags, why: "calibrate --save", to: cmd.ErrOrStderr()}
	return write.run(cmd, false, func(now *config.Content) (change config.Change, err error) {
		if now != nil && now.Has(config.KindBackend, c.backend) {
			if err := c.serves(now); err != nil {
				return change, err
			}
		}
		return setting(config.KindBackend, c.backend, config.Values{"calibrated": found.String()})(now)
	})
}

// minutes is a time in words.
func minutes(d time.Duration) string {
	if d < 90*time.Second {
		return figures.Plural(int(d.Round(time.Second)/time.Second), "second")
	}
	return figures.Plural(int(d.Round(time.Minute)/time.Minute), "minute")
}

// shortly is a time in few digits.
func shortly(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// named returns the profile of a name.
func (s *profileSources) named(cmd *cobra.Command, name string) (*profile.Profile, error) {
	all, _, err := s.load(cmd, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	return app.ProfileNamed(name, all)
}
