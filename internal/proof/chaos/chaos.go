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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
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
	o.Duration, o.Sessions = cmp.Or(o.Duration, 10*time.Minute), cmp.Or(o.Sessions, 200)
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.through == nil {
		o.through = func(address string) string { return address }
	}
	return o
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
	if err := errors.Join(kit.Within("duration", o.Duration, minDuration, maxDuration), kit.Within("sessions", o.Sessions, 1, maxSessions)); err != nil {
		return err
	}
	for _, name := range o.Only {
		if _, err := kit.Find("scenario", name, scenarios(), func(s *scenario) string { return s.name }); err != nil {
			return err
		}
	}
	return nil
}

// ErrFound is returned by Run when something happened that must not. The report says what.
var ErrFound = errors.New("the run has findings")

// run is one call of Run. Its fields are static once stage has returned.
type run struct {
	options  Options
	journal  *kit.Journal
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
	r := &run{options: o.withDefaults(), journal: kit.NewJournal(nil), services: make(map[*proxy][]*service)}
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchers, disturbers, sessions := kit.NewCrew(ctx), kit.NewCrew(ctx), kit.NewCrew(ctx)
	defer watchers.End()
	defer disturbers.End()
	defer sessions.End()
	finish := make(chan struct{})
	fail := func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			cancel(err)
		}
	}
	for _, p := range r.proxies {
		watchers.Go(newWatcher(p, r.services[p], r.journal, r.operated).watch)
		for _, s := range r.services[p] {
			if s.sessions > 0 {
				address := r.options.through(p.Listen)
				sessions.Go(func(ctx context.Context) { fail(s.runSessions(ctx, address, r.seed("sessions of "+s.name), finish)) })
			}
		}
		if p.machine.flood > 0 {
			disturbers.Go(func(ctx context.Context) { r.flood(ctx, p) })
		}
	}
	r.disturb(disturbers, fail)
	if kit.Wait(ctx, r.options.Duration) != nil {
		return context.Cause(ctx)
	}
	// In a short run, or on a busy machine, not all attacks have had their effect by now. If one has none, the judge says so.
	late, cancelLate := context.WithTimeout(ctx, effectTimeout)
	defer cancelLate()
	for len(r.withoutEffect()) > 0 && kit.Wait(late, pollEffect) == nil {
	}
	r.journal.Event("no new session begins")
	disturbers.End()
	r.judgeEffects()
	close(finish)
	overdue := time.AfterFunc(2*sessionTimeout, func() {
		r.journal.Violation("sessions", "some have not ended", nil, "%v after the last one began", 2*sessionTimeout)
		sessions.Stop()
	})
	sessions.Wait()
	overdue.Stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, p := range r.proxies {
		for _, s := range r.services[p] {
			s.judgeAll()
		}
	}
	return nil
}

// disturb starts the hostile clients and the operator.
func (r *run) disturb(tasks *kit.Crew, fail func(error)) {
	var operators []*scenario
	for _, s := range r.chosen {
		switch s.kind() {
		case "operator":
			operators = append(operators, s)
		case "client":
			path := "/" + cmp.Or(s.visits, s.name)
			for i := range attackers {
				dice := rand.New(rand.NewPCG(r.seed(s.name), uint64(i)))
				tasks.Go(func(ctx context.Context) { r.attack(ctx, s, path, dice) })
			}
		}
	}
	if len(operators) > 0 {
		tasks.Go(func(ctx context.Context) {
			o := &operator{
				ctx: ctx, dice: rand.New(rand.NewPCG(r.seed("operators"), 0)), config: r.main.config, journal: r.journal, operated: r.operated,
			}
			fail(o.work(operators))
		})
	}
}

// attack is a hostile client that visits the proxy again and again until ctx ends.
func (r *run) attack(ctx context.Context, s *scenario, path string, dice *rand.Rand) {
	for kit.Wait(ctx, kit.Between(dice, 50*time.Millisecond, 250*time.Millisecond)) == nil {
		visit, cancel := context.WithTimeout(ctx, maxAttack)
		status, err := visitOnce(visit, new(net.Dialer), r.main.Listen, path, dice, s.attack)
		cancel()
		if ctx.Err() != nil {
			return
		}
		r.answers.count(s.name, status, err)
		if errors.As(err, new(*wrongEnd)) { // for all else, see the scenario's effect
			r.journal.Violation(s.name, "the proxy ended the visit of a hostile client wrongly", nil, "%v", err)
		}
	}
}

// stage starts servers and proxies, and waits until they are ready.
func (r *run) stage(ctx context.Context, directory string) error {
	var mixed, alone []*scenario
	for _, s := range r.chosen {
		switch s.kind() {
		case "server":
			mixed = append(mixed, s)
		case "client":
			if s.behave != nil {
				alone = append(alone, s)
			}
		}
	}
	// If there are services with a hostile server, those with healthy servers only get a third of the sessions.
	share := r.options.Sessions
	if len(mixed) > 0 {
		share /= 3
	}
	main, err := r.healthyServices(share)
	if err != nil {
		return err
	}
	for _, s := range alone {
		v, err := r.add(s.name, s.protocol, 0, 0, s)
		if err != nil {
			return err
		}
		main = append(main, v)
	}
	for i, s := range mixed {
		v, err := r.add(s.name, s.protocol, 1, max(1, kit.Share(r.options.Sessions-share, i, len(mixed))), s)
		if err != nil {
			return err
		}
		main = append(main, v)
	}
	if r.main, err = r.start(ctx, "main", directory, machine{}, main); err != nil {
		return err
	}
	for _, s := range r.chosen {
		if s.machine == nil {
			continue
		}
		v, err := r.add(s.name, s.protocol, 2, machineSessions, s)
		if err != nil {
			return err
		}
		v.cap = machineCap
		if _, err := r.start(ctx, s.name, directory, *s.machine, []*service{v}); err != nil {
			return err
		}
	}
	return nil
}

// healthyServices starts the services that have only healthy servers, for that many sessions. The operator changes the last one.
func (r *run) healthyServices(sessions int) (all []*service, err error) {
	kinds := []struct {
		name, protocol string
		servers        int
	}{{"echo", sim.Echo, 2}, {"vosk", sim.Vosk, 2}, {"funasr", sim.FunASR, 2}, {"keys", sim.Deepgram, 2}, {"operated", sim.Echo, 3}}
	for i, k := range kinds {
		v, err := r.add(k.name, k.protocol, k.servers, max(1, kit.Share(sessions, i, len(kinds))), nil)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	r.operated = all[len(all)-1]
	return all, nil
}

// add starts the servers of a service.
func (r *run) add(name, protocol string, healthy, sessions int, s *scenario) (*service, error) {
	v, err := newService(name, protocol, healthy, sessions, s, sim.FailOptions{}, r.seed(name), r.journal)
	if err != nil {
		return nil, err
	}
	r.staged = append(r.staged, v)
	v.first = uint64(len(r.staged)-1)*1e9 + 1
	return v, nil
}

// start starts a proxy with these services, and waits until each healthy server that keeps warm connections has one.
func (r *run) start(ctx context.Context, name, directory string, m machine, services []*service) (*proxy, error) {
	config := &configuration{backends: make(map[string]backend)}
	for _, s := range services {
		config.add(s)
	}
	p, err := startProxy(ctx, r.options.Binary, name, directory, config, m, nil)
	if err != nil {
		return nil, err
	}
	r.proxies = append(r.proxies, p)
	r.services[p] = services
	if err := config.write(config.text()); err != nil {
		return nil, err
	}
	return p, p.Until(ctx, "healthy servers have connections", func() (bool, error) {
		s, err := p.Stats(ctx)
		if err != nil || len(s.Backends) != len(config.backends) {
			return false, nil
		}
		for _, b := range s.Backends {
			if b.Idle == 0 && b.Totals.Dialed == 0 && strings.Contains(b.Name, "-healthy-") && b.Profile != sim.Deepgram {
				return false, nil
			}
		}
		return true, nil
	})
}

// clear stops all proxies and servers.
func (r *run) clear() {
	for _, p := range r.proxies {
		p.Kill()
	}
	for _, s := range r.staged {
		s.stop()
	}
}

// report writes the report of the run. It returns ErrFound if there are findings.
func (r *run) report() error {
	out := r.options.Out
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nSERVICE\tSESSIONS\tCOMPLETED\tREFUSED\tFAILED\tLOST\tREPEATED\tFOREIGN\tHOSTILE: UPGRADES\tPER SECOND\tAT ONCE\tFAILURES")
	sessions := 0
	for _, p := range r.proxies {
		for _, s := range r.services[p] {
			h := &s.report
			sessions += h.Sessions
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", s.name, h.Sessions, h.Completed, h.Refused+h.Busy, h.Failed(), h.Lost, h.Twice, h.Leaks)
			if s.hostile == nil {
				fmt.Fprint(table, "-\t-\t-\t")
			} else {
				seen := s.hostile.read()
				fmt.Fprintf(table, "%d\t%d\t%d\t", seen.attempts, seen.burst, seen.peak)
			}
			fmt.Fprintln(table, kit.Tallied(h.Errors))
		}
	}
	_ = table.Flush()
	fmt.Fprintln(out)
	for _, line := range r.answers.lines() {
		fmt.Fprintln(out, line)
	}
	found := r.journal.Found()
	kinds := kit.Tell(out, found)
	fmt.Fprintf(out, "\n%d sessions, seed %d: ", sessions, r.options.Seed)
	if len(found) == 0 {
		fmt.Fprintln(out, "no result on a healthy server was lost, repeated or foreign, and nothing was left over")
		return nil
	}
	fmt.Fprintf(out, "%d kinds of findings\n", kinds)
	return fmt.Errorf("%w: %d kinds of findings with seed %d", ErrFound, kinds, r.options.Seed)
}
