// Package chaos runs a proxy among hostile servers, hostile clients, an operator who makes mistakes, and machines with too few
// resources. Meanwhile well-behaved sessions run through the proxy, and package hunt checks their results. The rules:
//
//   - A session on a healthy server gets each of its results once, and no result of another session.
//   - No server sees more connections than its cap.
//   - The circuits of healthy servers stay closed, and hostile servers are not flooded.
//   - At the end nothing is left over.
//
// To add a scenario, add an entry to the tables in scenarios.go. The command is in cmd; `make chaos` runs it.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// Options are the settings of a run.
type Options struct {
	// Binary is the path of wsbouncer.
	Binary string
	// Duration is how long the proxy gets new sessions. Default 10 minutes.
	Duration time.Duration
	// Sessions is the number of well-behaved sessions at a time. Default 200.
	Sessions int
	// Seed makes all random choices repeatable, but not the timing. Default 0.
	Seed uint64
	// Only are the names of the scenarios to run; empty for all.
	Only []string
	// Keep keeps the logs and files of the proxies even without findings.
	Keep bool
	// Out gets the report. Default: nothing is written.
	Out io.Writer

	// through returns the address that sessions use instead of the proxy's. Default: the proxy's. Tests set it.
	through func(address string) string
}

const (
	minDuration = time.Second
	maxDuration = 24 * time.Hour
	maxSessions = 5000
)

func (o Options) withDefaults() Options {
	if o.Duration == 0 {
		o.Duration = 10 * time.Minute
	}
	if o.Sessions == 0 {
		o.Sessions = 200
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.through == nil {
		o.through = func(address string) string { return address }
	}
	return o
}

// Names returns the names of the scenarios.
func Names() (names []string) {
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// Describe lists the scenarios, a line for each.
func Describe(out io.Writer) {
	for _, s := range scenarios() {
		fmt.Fprintf(out, "%-9s %-26s %s\n", s.kind(), s.name, s.about)
	}
}

// Validate returns an error that names the wrong field, its value and what to use instead.
func (o Options) Validate() error {
	o = o.withDefaults()
	if _, err := os.Stat(o.Binary); err != nil {
		return fmt.Errorf("binary: %q cannot run: %w: build bin/wsbouncer with `make build`", o.Binary, err)
	}
	if o.Duration < minDuration || o.Duration > maxDuration {
		return fmt.Errorf("duration: %v is out of range: use %v to %v", o.Duration, minDuration, maxDuration)
	}
	if o.Sessions < 1 || o.Sessions > maxSessions {
		return fmt.Errorf("sessions: %d is out of range: use 1 to %d", o.Sessions, maxSessions)
	}
	names := Names()
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return spelling.Unknown("scenario", name, names)
		}
	}
	return nil
}

// ErrFound is returned by Run when something happened that must not. The report says what.
var ErrFound = errors.New("the run has findings")

// run is one call of Run. Its fields are static once stage has returned.
type run struct {
	options  Options
	ledger   *ledger
	chosen   []*scenario
	main     *proxy
	proxies  []*proxy
	services map[*proxy][]*service
	staged   []*service // all of them
	operated *service   // whose backends the operator changes
	answers  answers
	atPeace  time.Duration // the 99th percentile of the latency without a siege; owned by besiege
}

// Run starts servers and proxies, runs the scenarios for the duration, and writes a report. It returns ErrFound if there are findings.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	r := &run{options: o.withDefaults(), ledger: newLedger(), services: make(map[*proxy][]*service)}
	for _, s := range scenarios() {
		if len(o.Only) == 0 || slices.Contains(o.Only, s.name) {
			r.chosen = append(r.chosen, &s)
		}
	}
	directory, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return err
	}
	defer func() {
		r.clear()
		if err == nil && !o.Keep {
			_ = os.RemoveAll(directory)
			return
		}
		fmt.Fprintf(r.options.Out, "The logs and files of the proxies are in %s.\n", directory)
	}()
	fmt.Fprintf(r.options.Out, "%d scenarios, %d sessions, %v, seed %d\n", len(r.chosen), r.options.Sessions, r.options.Duration, r.options.Seed)
	if slices.ContainsFunc(r.chosen, func(s *scenario) bool { return s.siege == nil }) {
		if err := r.stage(ctx, directory); err != nil {
			return err
		}
		if err := r.play(ctx); err != nil {
			return err
		}
		for _, p := range r.proxies {
			r.drain(ctx, p, directory)
		}
	}
	if err := r.besiege(ctx, directory); err != nil {
		return err
	}
	return r.report()
}

// seed returns the seed for a purpose.
func (r *run) seed(purpose string) uint64 {
	h := r.options.Seed
	for _, c := range []byte(purpose) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// play runs the sessions and scenarios for the duration.
func (r *run) play(ctx context.Context) error {
	disturbing, stopDisturbing := context.WithCancel(ctx)
	defer stopDisturbing()
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	inSessions, stopSessions := context.WithCancel(ctx)
	defer stopSessions()
	finish := make(chan struct{})
	var disturbers, watchers, sessions sync.WaitGroup
	defer func() { // on every return
		stopSessions()
		stopDisturbing()
		stopWatching()
		sessions.Wait()
		disturbers.Wait()
		watchers.Wait()
	}()
	failed := make(chan error, 1)
	fail := func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			select {
			case failed <- err:
			default:
			}
		}
	}
	for _, p := range r.proxies {
		w := newWatcher(p, r.services[p], r.ledger, r.operated)
		watchers.Go(func() { w.watch(watching) })
		for _, s := range r.services[p] {
			if s.sessions == 0 {
				continue
			}
			address := r.options.through(p.address)
			sessions.Go(func() { fail(s.runSessions(inSessions, address, r.seed("sessions of "+s.name), finish)) })
		}
		if p.machine.flood > 0 {
			disturbers.Go(func() { r.flood(disturbing, p) })
		}
	}
	r.disturb(disturbing, &disturbers, fail)
	timer := time.NewTimer(r.options.Duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return err
	case <-timer.C:
	}
	r.ledger.event("no new session begins")
	stopDisturbing()
	disturbers.Wait()
	close(finish)
	ended := make(chan struct{})
	go func() {
		sessions.Wait()
		close(ended)
	}()
	late := time.NewTimer(2 * sessionTimeout)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		r.ledger.wrong("sessions", "some have not ended", "%v after the last one began", 2*sessionTimeout)
		stopSessions()
		<-ended
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-failed:
		return err
	default:
	}
	for _, p := range r.proxies {
		for _, s := range r.services[p] {
			s.judgeAll()
		}
	}
	return nil
}

// disturb starts the hostile clients and the operator.
func (r *run) disturb(ctx context.Context, tasks *sync.WaitGroup, fail func(error)) {
	var operators []*scenario
	for _, s := range r.chosen {
		switch s.kind() {
		case "operator":
			operators = append(operators, s)
		case "client":
			path := "/" + s.visits
			if s.visits == "" {
				path = "/" + s.name
			}
			for i := range attackers {
				dice := rand.New(rand.NewPCG(r.seed(s.name), uint64(i)))
				tasks.Go(func() { r.attack(ctx, s, path, dice) })
			}
		}
	}
	if len(operators) > 0 {
		o := &operator{
			ctx: ctx, dice: rand.New(rand.NewPCG(r.seed("operators"), 0)), config: r.main.config, ledger: r.ledger, operated: r.operated,
		}
		tasks.Go(func() { fail(o.work(operators)) })
	}
}

// attack is a hostile client that visits the proxy again and again until ctx ends.
func (r *run) attack(ctx context.Context, s *scenario, path string, dice *rand.Rand) {
	for wait(ctx, 50*time.Millisecond+time.Duration(dice.Int64N(int64(200*time.Millisecond)))) == nil {
		status, err := attackOnce(ctx, s, r.main.address, path, dice)
		if ctx.Err() != nil {
			return
		}
		r.answers.count(s.name, status)
		if err != nil {
			r.ledger.wrong(s.name, "the proxy ended the visit of a hostile client wrongly", "%v", err)
		}
	}
}
