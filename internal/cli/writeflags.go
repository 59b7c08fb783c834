package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/remote"
)

// writeFlags are the flags of all commands that change the configuration.
type writeFlags struct {
	targetFlags
	dryRun, yes      bool
	who, why, expect string
	takesKeys        bool   // its purpose is to take keys away, which it names
	tenants          bool   // a whole configuration replaces the tenants and keys, too
	confirmed        string // what the user was asked and has confirmed
	output           output
	secret           string    // that the change makes, to print when it is made; empty for none
	to               io.Writer // gets the outcome; nil for standard output
}

func (f *writeFlags) add(cmd *cobra.Command) {
	f.targetFlags.add(cmd)
	f.whole = true // sessions at any proxy of the fleet count
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the change without making it")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask before authentication, tenants, keys or servers with sessions are taken away")
	cmd.Flags().StringVar(&f.why, "why", "", "reason for the change, for the history")
	cmd.Flags().StringVar(&f.who, "who", "", "author of the change, for the history (default: user@host)")
	cmd.Flags().StringVar(&f.expect, "expect", "", "version that you have seen; the command fails if the configuration has another one")
	f.output.add(cmd, "text", asJSON, asYAML)
}

// plan returns a change to the present configuration. now is nil if that is invalid, and the change is to correct it.
type plan func(now *config.Content) (config.Change, error)

// attempts is how often mutations are retried because others write at the same time.
const attempts = 20

// write makes a change, or shows it for a dry run, and returns the version of the configuration after it.
func (f *writeFlags) write(cmd *cobra.Command, t *target, p plan) (version string, err error) {
	for range attempts {
		var retry bool
		if version, retry, err = f.try(cmd, t, p); !retry {
			break
		}
	}
	return version, conflicting(err)
}

// run opens the configuration and makes a change. It creates a missing database file only if making is set.
func (f *writeFlags) run(cmd *cobra.Command, making bool, p plan) error {
	return f.use(cmd, making, func(t *target) error {
		_, err := f.write(cmd, t, p)
		return err
	})
}

// adding is the plan that adds an entity.
func adding(kind config.Kind, name string, values config.Values) plan {
	return func(now *config.Content) (change config.Change, err error) {
		if now != nil && now.Has(kind, name) {
			return change, fmt.Errorf("the %s %s already exists: use 'wsbouncer %s set %s' to change it", kind, name, kind, name)
		}
		change.Mutations = []config.Mutation{{Verb: config.Add, Kind: kind, Name: name, Values: values}}
		return change, nil
	}
}

// setting is the plan that sets fields of an entity.
func setting(kind config.Kind, name string, values config.Values) plan {
	return func(now *config.Content) (change config.Change, err error) {
		if now != nil {
			err = known(now, kind, name)
		}
		change.Mutations = []config.Mutation{{Verb: config.Set, Kind: kind, Name: name, Values: values}}
		return change, err
	}
}

func (f *writeFlags) try(cmd *cobra.Command, t *target, p plan) (version string, retry bool, err error) {
	ctx := cmd.Context()
	now, version, err := f.present(ctx, t)
	if err != nil {
		return "", false, t.needed(err)
	}
	change, err := f.change(p, now, version)
	if err != nil {
		return "", false, err
	}
	var edits config.Edits
	if now != nil && change.Expect == version { // otherwise the store reports the conflict
		to, err := change.Result(now)
		if err == nil {
			err = to.ValidateAfter(now, config.CheckProfiles)
		}
		if err != nil {
			return "", false, invalidError(listed("the change is invalid and was not made", err))
		}
		edits = config.Diff(now, &to)
		if err := f.confirmTaking(cmd, t, now, &to); err != nil {
			return "", false, err
		}
		if f.dryRun {
			err = f.report(f.out(cmd), outcome{Version: version, Was: version, Edits: edits, DryRun: true})
			t.remark(ctx, cmd.ErrOrStderr(), now, &to, false)
			if t.proxy != nil && t.Store == config.Store(t.proxy) && len(edits) > 0 {
				if refusal := refusedHere(ctx, t.proxy.API()); refusal != "" {
					fmt.Fprintln(cmd.ErrOrStderr(), refusal)
				}
			}
			return version, false, err
		}
	}
	if now == nil && change.Content != nil {
		if !f.tenants {
			return "", false, errors.New("the present configuration is invalid, so its tenants and keys cannot be kept: correct it with 'set' or 'rm' if one thing is invalid, or add --with-tenants to replace them, too")
		}
		if err := confirm(cmd, f.yes, "The change replaces the tenants and keys, so that a revoked key may work again"); err != nil {
			return "", false, err
		}
	}
	after, err := t.Apply(ctx, change)
	if errors.As(err, new(*config.ConflictError)) {
		return "", f.expect == "" && change.Content == nil, err // changes by others to other fields do not matter
	}
	if err != nil {
		if err = t.needed(listed("the change was not made", err)); now != nil && errors.As(err, new(config.Problems)) {
			err = invalidError(err) // only the proxy judges some values
		}
		return "", false, err
	}
	if now == nil {
		edits = t.latest(ctx, after.Version())
	}
	err = f.report(f.out(cmd), outcome{Version: after.Version(), Was: version, Edits: edits})
	content := after.Content()
	t.remark(ctx, cmd.ErrOrStderr(), now, &content, after.Version() != version)
	return after.Version(), false, err
}

// out returns where the outcome of a change is printed.
func (f *writeFlags) out(cmd *cobra.Command) io.Writer {
	if f.to != nil {
		return f.to
	}
	return cmd.OutOrStdout()
}

// needed adds to an error of the store itself that changes need the store, unlike commands that only show.
func (t *target) needed(err error) error {
	isProxy := t.proxy != nil && t.Store == config.Store(t.proxy)
	switch {
	case errors.As(err, new(config.Problems)), errors.Is(err, config.ErrReadOnly), errors.Is(err, context.Canceled):
		return err
	case isProxy && !errors.Is(err, remote.ErrStore) && !errors.Is(err, config.ErrSchema):
		return err
	}
	return fmt.Errorf("cannot change the configuration because its store fails: %w", err)
}

// change returns the plan's change, with its author and reason.
func (f *writeFlags) change(p plan, now *config.Content, version string) (config.Change, error) {
	change, err := p(now)
	if err != nil {
		return change, err
	}
	change.Who, change.Why, change.Expect = cmp.Or(f.who, whoami()), cmp.Or(f.why, change.Why), cmp.Or(f.expect, version)
	return change, invalidError(change.Check())
}

// present returns the configuration, nil if it is invalid, and its version.
func (f *writeFlags) present(ctx context.Context, t *target) (*config.Content, string, error) {
	now, version, err := t.content(ctx)
	if err == nil {
		return &now, version, nil
	}
	revisions, failed := t.History(ctx, 1)
	if !errors.As(err, new(config.Problems)) || f.dryRun || failed != nil || len(revisions) == 0 {
		return nil, "", err
	}
	return nil, revisions[0].Version, nil
}

// latest returns the edits of the latest version, if that is the given one.
func (t *target) latest(ctx context.Context, version string) config.Edits {
	revisions, err := t.History(ctx, 1)
	if err != nil || len(revisions) == 0 || revisions[0].Version != version {
		return nil
	}
	return revisions[0].Edits
}

// outcome is the result of a change.
type outcome struct {
	Version string       `json:"version"`
	Was     string       `json:"was"`
	Edits   config.Edits `json:"edits"`
	DryRun  bool         `json:"dry_run"`
	Key     string       `json:"key,omitempty"` // an API key that was made
}

func (f *writeFlags) report(out io.Writer, o outcome) error {
	if o.Edits == nil {
		o.Edits = config.Edits{}
	}
	if !o.DryRun && o.Version != o.Was {
		o.Key = f.secret
	}
	if f.output.forPrograms() {
		return f.output.print(out, o)
	}
	for _, edit := range o.Edits {
		fmt.Fprintln(out, edit)
	}
	var err error
	switch {
	case o.DryRun && len(o.Edits) > 0:
		_, err = fmt.Fprintf(out, "Dry run: nothing was changed. The configuration has version %s.\n", o.Version)
	case o.Version == o.Was || len(o.Edits) == 0:
		_, err = fmt.Fprintf(out, "Nothing to change. The configuration has version %s.\n", o.Version)
	default:
		_, err = fmt.Fprintf(out, "Version %s -> %s\n", o.Was, o.Version)
	}
	if err == nil && o.Key != "" {
		err = printKey(out, o.Key)
	}
	return err
}

// whoami returns user@host; under sudo, the user who called it.
func whoami() string {
	name := os.Getenv("SUDO_USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		} else {
			name = fmt.Sprintf("uid %d", os.Getuid())
		}
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// listed prints several problems as a list; a single problem stays as it is.
func listed(what string, err error) error {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok || len(problems) < 2 {
		return err
	}
	return list{what, problems}
}

// list is several problems as an error.
type list struct {
	what string
	config.Problems
}

// Error returns a line for each problem.
func (l list) Error() string {
	return l.what + ":\n  " + strings.ReplaceAll(l.Problems.Error(), "\n", "\n  ")
}

// Unwrap returns the problems.
func (l list) Unwrap() error { return l.Problems }

// conflicting says who changed the configuration first, and what to do.
func conflicting(err error) error {
	conflict, ok := errors.AsType[*config.ConflictError](err)
	if !ok {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration was changed meanwhile: it has version %s, not %s", conflict.Current, conflict.Expected)
	var lines []string
	for _, revision := range conflict.Since {
		for _, edit := range revision.Edits {
			lines = append(lines, fmt.Sprintf("\n  %s  %s: %s", revision.At.UTC().Format(time.RFC3339), revision.Who, edit))
		}
	}
	const most = 10
	b.WriteString(strings.Join(lines[:min(most, len(lines))], ""))
	if more := len(lines) - most; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more ('wsbouncer config history')", more)
	}
	fmt.Fprintf(&b, "\nNothing was written. If you still want your change, repeat it with --expect %s.", conflict.Current)
	return fmt.Errorf("%s", b.String())
}
