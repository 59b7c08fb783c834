//go:build linux

// Package fleetproof proves that a fleet of proxies keeps each server's cap, with real processes: three proxies that share one PostgreSQL
// server, four servers whose connections the kernel counts, and thousands of clients. Proxies are killed, stopped and replaced, PostgreSQL
// is cut off, restarted and failed over with its last commits lost, and caps change. All the time, [Run] checks that no server has more
// connections than its cap, that no place stays unused for longer than it may, and that sessions on living proxies notice nothing. The
// command (cmd) runs it for ten minutes, its test for seconds. Linux only.
package fleetproof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Options are the settings of a proof.
type Options struct {
	// Binary is the path of the proxy's program.
	Binary string
	// Upgraded is the path of the program that upgrades take; empty for the same.
	Upgraded string
	// Duration is how long events begin. An event that has begun ends.
	Duration time.Duration
	// Once has each kind of events happen once, whatever Duration says, with short pauses: for tests.
	Once bool
	// Seed makes the events repeatable, not their exact times.
	Seed uint64
	// Sessions is the number of clients at a time; more than all servers have places.
	Sessions int
	// Caps are the servers' caps in the beginning; one server for each.
	Caps []int
	// Proxies is their number.
	Proxies int
	// Kinds are the names of the events that may happen; nil for all.
	Kinds []string
	// Slack is how much longer than stated things may take, since the machine is busy.
	Slack time.Duration
	// Stop is how long proxies are stopped; 0 for a random time.
	Stop time.Duration
	// GrantTimeout is the proxies' grant-timeout; 0 for never. If proxies are stopped for longer, a server may have as many connections above
	// its cap as it had from the proxy that was stopped.
	GrantTimeout time.Duration
	// Arguments are further ones of the proxies.
	Arguments []string
	// Directory gets the proxies' files, which stay if the proof fails. Default: a temporary one.
	Directory string
	// Log gets a line for each event; nil for nowhere.
	Log io.Writer
}

// Validate returns an error that names the wrong options, their values and what to use instead.
func (o *Options) Validate() error {
	if o.Binary == "" {
		return errors.New("wsbouncer: no program: use the path of one")
	}
	wrong := []error{
		kit.Within("proxies", o.Proxies, 2, 9), kit.Within("number of caps", len(o.Caps), 1, 9), kit.Within("sessions", o.Sessions, gang, 8000),
	}
	for _, n := range o.Caps {
		wrong = append(wrong, kit.Within("caps", n, 4, 1000))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	for _, name := range o.Kinds {
		if _, err := kit.Find("event", name, kinds, func(k *kind) string { return k.name }); err != nil {
			return err
		}
	}
	return nil
}

// server is a simulated server.
type server struct {
	name  string
	sim   *sim.Server
	seen  *seen
	cap   int // now
	first int // in the beginning
}

// proof is one call of Run. Its goroutine owns it.
type proof struct {
	options  Options
	dice     *rand.Rand
	journal  *kit.Journal
	watcher  *watcher
	watching *kit.Crew
	database *database
	servers  []*server
	proxies  []*proxy
	crowd    *crowd
	shares   []int // of the clients, by proxy
	results  map[string]*tally
	replaced time.Time // when the database was last restarted or replaced

	// Of the event under way.
	event    string    // its name
	subjects []*proxy  // that it is about
	at       time.Time // since when all places can be used; zero if the event waits for that itself
}

// Run proves. What must not happen is not an error of Run: see [Report.Err].
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	made := o.Directory == ""
	if made {
		var err error
		if o.Directory, err = os.MkdirTemp("", "fleetproof"); err != nil {
			return nil, err
		}
	}
	r := &proof{
		options: o, dice: rand.New(rand.NewPCG(o.Seed, 0)), journal: kit.NewJournal(o.Log), results: make(map[string]*tally),
	}
	report, err := r.run(ctx)
	if made && err == nil && report.Err() == nil {
		_ = os.RemoveAll(o.Directory)
	}
	return report, err
}

func (r *proof) run(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	r.watching = kit.NewCrew(ctx)
	defer func() {
		cancel() // from now on, sessions end for no reason
		r.clear()
		r.watching.End()
	}()
	begin := time.Now()
	if err := r.stage(ctx); err != nil {
		return nil, err
	}
	err := r.play(ctx)
	if err != nil && !errors.Is(err, errViolated) && ctx.Err() == nil {
		r.journal.Violation("", "an event could not be carried out", nil, "%v", err)
	}
	if err == nil {
		r.finish(ctx)
	}
	if err := kit.Races(r.options.Directory); err != nil {
		r.journal.Violation("", "a data race", nil, "%v", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.report(time.Since(begin)), nil
}

// stage starts servers, PostgreSQL, proxies and clients.
func (r *proof) stage(ctx context.Context) (err error) {
	if err := r.startServers(); err != nil {
		return err
	}
	if r.database, err = startDatabase(ctx, r.options.Proxies); err != nil {
		return err
	}
	if err := r.configure(ctx); err != nil {
		return err
	}
	for i := range r.options.Proxies {
		arguments := r.options.Arguments
		if r.options.GrantTimeout > 0 {
			arguments = append([]string{"--grant-timeout", r.options.GrantTimeout.String()}, arguments...)
		}
		p, err := newProxy(i, r.options.Binary, r.options.Directory, r.database.url(i), r.watcher, arguments)
		if err != nil {
			return err
		}
		if i == r.options.Proxies-1 && exec.Command(otherTime[0], append(otherTime[1:len(otherTime):len(otherTime)], "true")...).Run() == nil {
			p.Through = otherTime
			r.journal.Event("the monotonic clock of %s is ten days ahead", p.Name)
		}
		r.proxies, r.shares = append(r.proxies, p), append(r.shares, 1)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	r.journal.Event("%d proxies answer", len(r.proxies))
	r.crowd = newCrowd(ctx, len(r.proxies), r.options.Seed, r.journal)
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, false)
	r.watching.Go(r.sums)
	return nil
}

func (r *proof) startServers() error {
	started, kernel, err := kit.StartServers(len(r.options.Caps), func(i int) sim.Options {
		return sim.Options{
			Protocol: sim.Echo, Seed: r.options.Seed + uint64(i), Jitter: 2 * time.Millisecond,
			Admit: func(*http.Request) int { r.watcher.accepted(); return 0 },
		}
	})
	r.watcher = newWatcher(kernel, r.journal)
	for i, s := range started {
		n := r.options.Caps[i]
		name := fmt.Sprintf("server-%d", i+1)
		r.servers = append(r.servers, &server{name: name, sim: s, cap: n, first: n, seen: r.watcher.add(kit.ServerAddress(i), name, n)})
	}
	if err == nil {
		r.watching.Go(func(ctx context.Context) { defer kernel.Close(); r.watcher.watch(ctx) })
	}
	return err
}

// configure makes the schema, the service and the backends.
func (r *proof) configure(ctx context.Context) error {
	commands := [][]string{{"migrate"}, {
		"service", "add", "echo", "--path", "/echo", "--profile", "echo", "--queue", "100000", "--queue-timeout", patience.String(),
		"--slow-start", "0s", "--ping-interval", "4s", "--ping-timeout", "30s", "--close-timeout", "2s",
	}}
	for _, s := range r.servers {
		commands = append(commands, []string{"backend", "add", s.name, s.sim.URL(), "--service", "echo", "--connections", strconv.Itoa(s.cap)})
	}
	return r.operate(ctx, commands...)
}

// operate runs commands of the program on the database, as an operator does.
func (r *proof) operate(ctx context.Context, commands ...[]string) error {
	_, err := kit.OperateAll(ctx, r.options.Binary, r.database.operator(), commands...)
	return err
}

// clear ends what is left.
func (r *proof) clear() {
	for _, p := range r.proxies {
		p.KillAll()
	}
	for _, s := range r.servers {
		s.sim.Close()
	}
	if r.database != nil {
		r.database.close()
	}
	if r.crowd != nil {
		r.crowd.tasks.Wait()
	}
}
