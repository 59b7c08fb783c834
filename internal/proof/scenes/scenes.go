//go:build linux

// Package scenes proves that the proxy names what is wrong, rightly and in time.
//
// Each scene runs a real proxy in front of simulated servers, with clients that stream speech all the time. When all is well, it makes one kind of trouble:
// a server that hangs, a certificate that has expired, a database that is away. Within [Options.Within], the proxy's list of problems must name it, and
// nothing else; and as soon after the trouble has ended, the list must be empty again. In some scenes, clients must not notice either. The target scenes of
// the Makefile runs it (cmd).
package scenes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Options are the settings of a proof.
type Options struct {
	// Binary is the path of the program.
	Binary string
	// Only are the names of the scenes to play; all if it is empty.
	Only []string
	// Within is how long the proxy may take to name a problem, and to take its name back. Default 15 s.
	Within time.Duration
	// Watch is how long no other problem may be named after the right one was. Default: until Within has passed since the trouble began, but at least 2 s.
	Watch time.Duration
	// Healthy is how long each scene runs without trouble first, in which nothing may be named. Default 5 s.
	Healthy time.Duration
	// Hold is how much longer the trouble lasts, so that an operator can look at it: the address of the dashboard is logged. Default 0.
	Hold time.Duration
	// Parallel is how many scenes are played simultaneously. Default 4.
	Parallel int
	// Directory is where the proxies' files go. Default: a temporary one, which is removed if all went well.
	Directory string
	// Log gets a line for each event; nil for nowhere.
	Log io.Writer
}

func (o Options) withDefaults() Options {
	o.Within = cmp.Or(o.Within, 15*time.Second)
	o.Healthy = cmp.Or(o.Healthy, 5*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 4)
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o
}

// chosen returns the scenes to play.
func (o Options) chosen() ([]scene, error) {
	if len(o.Only) == 0 {
		return table, nil
	}
	var all []scene
	for _, name := range o.Only {
		s, err := kit.Find("scene", name, table, func(s *scene) string { return s.name })
		if err != nil {
			return nil, err
		}
		all = append(all, *s)
	}
	return all, nil
}

// Validate returns an error that names the wrong option, its value and what to use instead.
func (o Options) Validate() error {
	o = o.withDefaults()
	_, err := o.chosen()
	return errors.Join(err, kit.Within("parallel", o.Parallel, 1, 64), kit.Within("within", o.Within, time.Second, time.Hour),
		kit.Within("healthy", o.Healthy, 0, 24*time.Hour), kit.Within("watch", o.Watch, 0, time.Hour), kit.Within("hold", o.Hold, 0, time.Hour))
}

// errSkipped marks a scene that cannot be played on this machine.
var errSkipped = errors.New("skipped")

// Result is how one scene went.
type Result struct {
	Scene, Trouble string
	// Kind is the kind of problem that had to be named.
	Kind string
	// Named and Gone are how long it took to name it and to take its name back.
	Named, Gone time.Duration
	// Err is what was wrong; nil if nothing was.
	Err error
}

// Report has the results, in the order of the scenes.
type Report []Result

// Err returns an error if a scene went wrong.
func (r Report) Err() error {
	var all []error
	for _, s := range r {
		if s.Err != nil && !errors.Is(s.Err, errSkipped) {
			all = append(all, fmt.Errorf("scene %s: %w", s.Scene, s.Err))
		}
	}
	return errors.Join(all...)
}

// String returns the table, as Markdown.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString("| trouble | named as | after, s | gone after, s |\n| --- | --- | --- | --- |\n")
	for _, s := range r {
		switch {
		case errors.Is(s.Err, errSkipped):
			fmt.Fprintf(&b, "| %s | (%v) | | |\n", s.Trouble, s.Err)
			continue
		case s.Err != nil:
			fmt.Fprintf(&b, "| %s | FAILED | | |\n", s.Trouble)
			continue
		}
		if s.Kind == "" {
			fmt.Fprintf(&b, "| %s | nothing | | |\n", s.Trouble)
			continue
		}
		gone := "-"
		if s.Gone > 0 {
			gone = fmt.Sprintf("%.1f", s.Gone.Seconds())
		}
		fmt.Fprintf(&b, "| %s | `%s` | %.1f | %s |\n", s.Trouble, s.Kind, s.Named.Seconds(), gone)
	}
	return b.String()
}

// Run plays the scenes. What goes wrong in a scene is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	scenes, _ := o.chosen() // checked by Validate
	directory, temporary := o.Directory, o.Directory == ""
	if temporary {
		var err error
		if directory, err = os.MkdirTemp("", "scenes-"); err != nil {
			return nil, err
		}
	}
	journal := kit.NewJournal(o.Log)
	report := make(Report, len(scenes))
	turns := make(chan struct{}, o.Parallel)
	var players sync.WaitGroup
	for i, s := range scenes {
		turns <- struct{}{} // in order: the longest scene is the first
		players.Go(func() {
			defer func() { <-turns }()
			report[i] = play(ctx, o, s, filepath.Join(directory, fmt.Sprintf("proxy-%d", i+1)), journal) // paths give no trouble away
		})
	}
	players.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case report.Err() != nil:
		journal.Event("the proxies' files are in %s", directory)
	case temporary:
		_ = os.RemoveAll(directory)
	}
	return report, nil
}

// play plays one scene.
func play(ctx context.Context, o Options, s scene, directory string, journal *kit.Journal) Result {
	result := Result{Scene: s.name, Trouble: s.trouble}
	t := &stage{options: o, scene: s, directory: directory, journal: journal}
	defer t.close()
	var spared []*crowd
	result.Err = func() error {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return err
		}
		if err := s.set(ctx, t); err != nil {
			return fmt.Errorf("setting the scene: %w", err)
		}
		if s.spared {
			spared = slices.Clone(t.crowds)
		}
		if err := t.calm(ctx); err != nil {
			return err
		}
		if s.begin == nil {
			return nil
		}
		journal.Event("%s: %s", s.name, s.trouble)
		if err := s.begin(ctx, t); err != nil {
			return fmt.Errorf("making trouble: %w", err)
		}
		begun := time.Now()
		named, err := t.named(ctx)
		if err != nil {
			return err
		}
		result.Kind, result.Named = named.Kind, time.Since(begun)
		journal.Event("%s: named %s %s: %s", s.name, named.Kind, named.What, named.Text)
		watch := cmp.Or(o.Watch, max(leastWatch, time.Until(begun.Add(o.Within))))
		if err := t.onlyThat(ctx, named, watch); err != nil {
			return err
		}
		if err := kit.Wait(ctx, o.Hold); err != nil || s.end == nil {
			return err
		}
		ended := time.Now()
		if err := s.end(ctx, t); err != nil {
			return fmt.Errorf("ending the trouble: %w", err)
		}
		if err := t.gone(ctx); err != nil {
			return err
		}
		result.Gone = time.Since(ended)
		journal.Event("%s: gone", s.name)
		return nil
	}()
	if result.Err == nil && len(spared) > 0 {
		result.Err = t.noticedNothing(ctx, spared)
	}
	if result.Err != nil {
		journal.Event("%s: FAILED: %v", s.name, result.Err)
	}
	return result
}

// calm runs the scene for a while without trouble, after a time to settle in which problems are not looked at, until servers answer clients.
func (t *stage) calm(ctx context.Context) error {
	err := t.proxy.Until(ctx, "clients get answers, and no problem is named", func() (bool, error) {
		all, err := t.problems(ctx)
		return err == nil && len(all) == 0 && slices.ContainsFunc(t.crowds, (*crowd).served), nil
	})
	if err != nil {
		return err
	}
	return t.look(ctx, max(t.options.Healthy, t.scene.lasts), func(all []api.Problem) (bool, error) {
		if len(all) > 0 {
			return false, fmt.Errorf("named without trouble: %s", describe(all))
		}
		return false, nil
	})
}

// pollInterval is how often the list of problems is read.
const pollInterval = 200 * time.Millisecond

// look shows judge the list of problems again and again, for a time, or until judge has seen enough.
func (t *stage) look(ctx context.Context, d time.Duration, judge func(all []api.Problem) (enough bool, err error)) error {
	for until := time.Now().Add(d); ; {
		all, err := t.problems(ctx)
		if err != nil {
			return err
		}
		if enough, err := judge(all); enough || err != nil || time.Now().After(until) {
			return err
		}
		if err := kit.Wait(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// named waits until the scene's problem is named. What is named besides it before that is no fault yet: see onlyThat.
func (t *stage) named(ctx context.Context) (named *api.Problem, err error) {
	var last []api.Problem
	err = t.look(ctx, t.options.Within, func(all []api.Problem) (bool, error) {
		last = all
		if i := slices.IndexFunc(all, func(p api.Problem) bool { return p.Kind == string(t.scene.kind) }); i >= 0 {
			named = &all[i]
		}
		return named != nil, nil
	})
	if err == nil && named == nil {
		err = fmt.Errorf("%s was not named within %v, but %s", t.scene.kind, t.options.Within, describe(last))
	}
	return named, err
}

// leastWatch is how long a list with the right problem is watched at least.
const leastWatch = 2 * time.Second

// onlyThat looks at the list for a time: nothing else may be named than what the scene allows.
func (t *stage) onlyThat(ctx context.Context, named *api.Problem, watch time.Duration) error {
	return t.look(ctx, watch, func(all []api.Problem) (bool, error) {
		others := slices.DeleteFunc(slices.Clone(all), func(p api.Problem) bool {
			return p.Same(named) || slices.Contains(t.scene.with, diagnosis.Kind(p.Kind))
		})
		if len(others) > 0 {
			return false, fmt.Errorf("named besides %s: %s", t.scene.kind, describe(others))
		}
		return false, nil
	})
}

// gone waits until nothing is named any longer.
func (t *stage) gone(ctx context.Context) error {
	var last []api.Problem
	err := t.look(ctx, t.options.Within, func(all []api.Problem) (bool, error) {
		last = all
		return len(all) == 0, nil
	})
	if err == nil && len(last) > 0 {
		err = fmt.Errorf("still named %v after the trouble: %s", t.options.Within, describe(last))
	}
	return err
}

// noticedNothing returns an error unless clients had sessions, and none failed. On a busy machine, the first ones may still speak.
func (t *stage) noticedNothing(ctx context.Context, clients []*crowd) error {
	err := t.proxy.Until(ctx, "sessions of all clients have ended", func() (bool, error) {
		return !slices.ContainsFunc(clients, func(c *crowd) bool { return !c.hasEnded() }), nil
	})
	for _, c := range clients {
		err = cmp.Or(err, c.spared())
	}
	return err
}

func describe(all []api.Problem) string {
	if len(all) == 0 {
		return "nothing was"
	}
	var texts []string
	for _, p := range all {
		texts = append(texts, fmt.Sprintf("%s %s (%s)", p.Kind, p.What, p.Text))
	}
	return strings.Join(texts, "; ")
}
