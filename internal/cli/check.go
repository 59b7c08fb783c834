package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/app/services"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/settings"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

func newCheckCommand() *cobra.Command {
	var flags serveFlags
	var form output
	var strict bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate settings and configuration, and print what the proxy would serve",
		Long: `Validate the settings of the process (file, environment and flags) and the configuration
(the database, or the flags that describe a service), and print what the proxy would serve.
The command only reads: it dials no server, and creates or changes nothing.

It also compares what the configuration needs at most (file descriptors, memory, and local
ports for the connections to each server) with what this machine has, and warns if that is
too little: not an error, since the proxy may run elsewhere. With failover: replay it also says
how much of replay-memory the sessions may need, in the usual format of the profile's clients.
For services in a database that reuse connections or have failover: replay, it warns if no good
result of 'wsbouncer profile verify' of the last 90 days is saved.

It reports all errors in settings or flags at once, with exit status 2, and others after that.
The exit status is 1 if the database cannot be read, its configuration is invalid, or the files of TLS
certificates cannot be used. A certificate that has expired is a warning, since 'wsbouncer
serve' uses it. With --strict, the exit status is also 1 if there is any warning.`,
		Example: `  wsbouncer check --settings /etc/wsbouncer/wsbouncer.yaml
  wsbouncer check --database services.yaml
  wsbouncer check --backend ws://127.0.0.1:9001 --profile echo --connections 32`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			warnings := &warningCounter{to: cmd.ErrOrStderr()}
			cmd.SetErr(warnings)
			err := check(cmd, &flags, &form)
			if err == nil && strict && warnings.count > 0 {
				err = fmt.Errorf("%s, and --strict allows none", figures.Plural(warnings.count, "warning"))
			}
			return err
		},
	}
	form.add(cmd, "text", asJSON, asYAML)
	flags.add(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with status 1 if there is a warning")
	return cmd
}

// warningCounter passes messages on, and counts those that are warnings: each is one write.
type warningCounter struct {
	to    io.Writer
	count int
}

// Write implements [io.Writer].
func (w *warningCounter) Write(message []byte) (int, error) {
	if bytes.HasPrefix(message, []byte("Warning:")) {
		w.count++
	}
	return w.to.Write(message)
}

func check(cmd *cobra.Command, flags *serveFlags, form *output) error {
	loaded, err := flags.load(settings.Sources{Flags: &flags.process, Environment: os.Environ})
	if err != nil {
		return usageError(err)
	}
	for _, text := range loaded.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note:", text)
	}
	warnOfAll(cmd, loaded.Warnings, loaded.Risks())
	out := cmd.OutOrStdout()
	if flags.onlyFlags() {
		all, err := flags.settings(loaded)
		if err != nil {
			return usageError(err)
		}
		if err := checkTLS(cmd, &all, nil); err != nil {
			return err
		}
		content := config.NewContent()
		content.Services[app.FixedService] = all.Service
		warnOfAll(cmd, authWarnings(&all.Settings, &content, time.Now()), limitWarnings(&all.Settings, &content), all.FailoverWarnings())
		needs := newNeeds(all.Needs(), &all.Settings, all.ReplayNeed())
		needs.warn(cmd.ErrOrStderr())
		if form.forPrograms() {
			return form.print(out, needs)
		}
		if _, err := fmt.Fprintln(out, all.Describe()); err != nil {
			return err
		}
		return needs.table(out)
	}
	snapshot, err := readDatabase(cmd.Context(), loaded.DatabaseInUse())
	if err != nil {
		err = fmt.Errorf("the database %s: %w", loaded.DatabaseShown(), err)
		return errors.Join(err, checkTLS(cmd, &app.Settings{Settings: loaded.Settings}, nil))
	}
	if snapshot == nil && loaded.Database != "" { // the default is made with the first start, but another name may be mistyped
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: database: %s does not exist: the proxy would start without services\n", loaded.DatabaseShown())
	}
	if err := checkTLS(cmd, &app.Settings{Settings: loaded.Settings}, snapshot); err != nil {
		return err
	}
	shared := checkFleet(cmd, loaded)
	need := app.Need(snapshot, loaded.Sources(), nil)
	need.SecureClients = len(loaded.TLSListen) > 0
	var draft services.Draft
	replay := int64(0)
	if snapshot != nil {
		content := snapshot.Content()
		if err := app.CheckHealthPath(loaded.HealthPath, content.Services); err != nil {
			return fmt.Errorf("the database %s: %w", loaded.DatabaseShown(), err)
		}
		warnOfAll(cmd, authWarnings(&loaded.Settings, &content, time.Now()), limitWarnings(&loaded.Settings, &content))
		if draft, err = services.NewDraft(snapshot); err != nil {
			return fmt.Errorf("the database %s: %w", loaded.DatabaseShown(), err)
		}
		calibrated, missing := draft.CalibratedWarnings(time.Now())
		warnOfAll(cmd, draft.FailoverWarnings(), draft.VerifiedWarnings(time.Now()), calibrated, draft.CanaryWarnings(), snapshot.TenantWarnings(),
			services.SecretWarnings(snapshot, loaded.Secrets()), app.ReadyWarnings(loaded.ReadyServices, snapshot))
		if len(missing) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "Note: how many streams %s at once is not known: run 'wsbouncer calibrate' with --save\n", takers(missing))
		}
		replay = draft.ReplayNeed()
	}
	needs := newNeeds(need, &loaded.Settings, replay)
	needs.Database = loaded.DatabaseShown()
	if snapshot != nil {
		needs.Version = snapshot.Version()
		needs.warn(cmd.ErrOrStderr())
	}
	if form.forPrograms() {
		return form.print(out, needs)
	}
	if err := describe(out, loaded, snapshot, draft, shared); err != nil || snapshot == nil {
		return err
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return needs.table(out)
}

// takers names backends and their verb.
func takers(backends []string) string {
	if len(backends) == 1 {
		return backends[0] + " takes"
	}
	return some(backends) + " take"
}

// checkTLS reads the certificates that clients get, and warns of what is likely to be wrong. snapshot may be nil.
func checkTLS(cmd *cobra.Command, s *app.Settings, snapshot *config.Snapshot) error {
	warnings, err := s.CheckTLS(snapshot)
	warnOfAll(cmd, warnings)
	return err
}

// warnOfAll prints warnings, each in one write.
func warnOfAll(cmd *cobra.Command, lists ...[]string) {
	for _, text := range slices.Concat(lists...) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", text)
	}
}

// checkTimeout is the maximum time for a database to answer.
const checkTimeout = 10 * time.Second

// readDatabase returns the configuration in the database; nil if the database does not exist yet, and serve would create it.
func readDatabase(ctx context.Context, database string) (*config.Snapshot, error) {
	if _, missing := stores.Missing(database); missing {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	store, err := stores.Open(database, config.Options{Profiles: config.CheckProfiles, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	snapshot, err := store.Load(ctx)
	if closed := store.Close(); err == nil {
		err = closed
	}
	return snapshot, err
}

// describe says in words what a proxy with these settings and this configuration, nil for none yet, would serve. shared says with whom it
// would share servers' caps.
func describe(out io.Writer, l *settings.Loaded, snapshot *config.Snapshot, draft services.Draft, shared string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	for _, address := range l.Listen {
		row("listen", "%s", address)
	}
	for _, address := range l.TLSListen {
		row("listen", "%s (TLS)", address)
	}
	if l.HealthPath != "" {
		row("health path", "%s", l.HealthPath)
	}
	tcp := l.Admin
	if tcp != "" && l.Token == "" {
		tcp += " (read-only without admin-token)"
	}
	admin := slices.DeleteFunc([]string{tcp, l.Socket(true)}, func(at string) bool { return at == "" })
	if len(admin) == 0 {
		admin = []string{"off"}
	}
	row("admin", "%s", strings.Join(admin, ", "))
	if len(l.TrustedProxies) > 0 {
		row("trusted proxies", "%s", l.TrustShown())
	}
	if len(l.DialFrom) > 0 {
		row("dial from", "%s", strings.Join(l.DialFrom, ", "))
	}
	row("fleet", "%s", shared)
	if snapshot == nil {
		row("database", "%s, which does not exist yet: add services and backends to it", l.DatabaseShown())
		return w.Flush()
	}
	row("database", "%s, version %s", l.DatabaseShown(), snapshot.Version())
	handshakes, dialedAhead := draft.DescribeHandshakes()
	failovers := draft.DescribeFailover()
	for name, service := range snapshot.Services() {
		row("service", "%s", describeService(name, &service, snapshot))
		row("", "handshake: %s", handshakes[name])
		row("", "failover: %s", failovers[name])
		for backend, b := range snapshot.Members(name) {
			row("", "%s: %s, at most %d connections, %s kept warm, weight %g, %s%s",
				backend, secret.URL(b.URL), b.Cap(), warmWords(&b, dialedAhead[backend]), b.Weight, b.State, app.PerServer(&b))
		}
	}
	return w.Flush()
}

func describeService(name string, s *config.Service, snapshot *config.Snapshot) string {
	path, host := cmp.Or(s.Path, "every path"), ""
	if s.Host != "" {
		host = " of " + s.Host
	}
	backends, sessions, condition := 0, 0, ""
	for _, b := range snapshot.Members(name) {
		if backends++; b.Discovers() {
			condition = ", if each DNS name stands for one server"
		}
		if b.State == "enabled" && b.Weight > 0 {
			sessions += b.Cap()
		}
	}
	return fmt.Sprintf("%s: %s%s, profile %s, backends: %d, sessions: at most %d at once%s", name, path, host, s.Profile, backends, sessions, condition)
}

func warmWords(b *config.Backend, dialedAhead bool) string {
	if !dialedAhead {
		return "0"
	}
	if b.Warm < 0 {
		return "all"
	}
	return fmt.Sprint(b.Warm)
}
