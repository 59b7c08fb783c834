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
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
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
	// Log gets a line for each event; nil for nobody.
	Log io.Writer
}

// ErrUnavailable says that this system lacks what a proof needs.
var ErrUnavailable = errors.New("not available here")

func (o *Options) validate() error {
	switch {
	case o.Binary == "":
		return errors.New("wsbouncer: no program: use the path of one")
	case o.Proxies < 2 || o.Proxies > 9:
		return fmt.Errorf("proxies: %d is out of range: use 2 to 9", o.Proxies)
	case len(o.Caps) == 0 || len(o.Caps) > 9:
		return fmt.Errorf("caps: %d servers are out of range: use 1 to 9", len(o.Caps))
	case o.Sessions < gang || o.Sessions > 8000:
		return fmt.Errorf("sessions: %d is out of range: use %d to 8000", o.Sessions, gang)
	}
	for _, n := range o.Caps {
		if n < 4 || n > 1000 {
			return fmt.Errorf("caps: %d is out of range: use 4 to 1000", n)
		}
	}
	for _, name := range o.Kinds {
		if _, err := kindNamed(name); err != nil {
			return err
		}
	}
	return nil
}

// server is a simulated server.
type server struct {
	name    string
	address netip.Addr
	sim     *sim.Server
	seen    *seen
	cap     int // now
	first   int // in the beginning
}

// proof is one call of Run. Its goroutine owns it.
type proof struct {
	options  Options
	dice     *rand.Rand
	journal  *journal
	watcher  *watcher
	database *database
	servers  []*server
	proxies  []*proxy
	crowd    *crowd
	shares   []int // of the clients, by proxy
	results  map[string]*tally
	replaced time.Time // when the database was last restarted or replaced
}

// Run proves. What must not happen is not an error of Run: see [Report.Err].
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
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
		options: o, dice: rand.New(rand.NewPCG(o.Seed, 0)), journal: newJournal(o.Log), results: make(map[string]*tally),
	}
	report, err := r.run(ctx)
	if made && err == nil && report.Err() == nil {
		_ = os.RemoveAll(o.Directory)
	}
	return report, err
}

func (r *proof) run(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer func() {
		cancel() // from now on, sessions end for no reason
		r.clear()
		tasks.Wait()
	}()
	begin := time.Now()
	if err := r.stage(ctx, &tasks); err != nil {
		return nil, err
	}
	err := r.play(ctx)
	if err != nil && !errors.Is(err, errViolated) && ctx.Err() == nil {
		r.journal.violation("an event could not be carried out", nil, "%v", err)
	}
	if err == nil {
		r.finish(ctx)
	}
	if err := proxyprocess.Races(r.options.Directory); err != nil {
		r.journal.violation("a data race", nil, "%v", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.report(time.Since(begin)), nil
}

// stage starts servers, PostgreSQL, proxies and clients.
func (r *proof) stage(ctx context.Context, tasks *sync.WaitGroup) (err error) {
	if err := r.startServers(ctx, tasks); err != nil {
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
		p, err := newProxy(i, r.options.Binary, r.options.Directory, r.database.url(i), r.watcher, r.journal, arguments)
		if err != nil {
			return err
		}
		if p.otherTime = i == r.options.Proxies-1 && hasOtherTime(); p.otherTime {
			r.journal.event("the monotonic clock of %s is ten days ahead", p.name)
		}
		r.proxies, r.shares = append(r.proxies, p), append(r.shares, 1)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	r.journal.event("%d proxies answer", len(r.proxies))
	r.crowd = newCrowd(ctx, len(r.proxies), r.options.Seed, r.journal)
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, false)
	tasks.Go(func() { r.sums(ctx) })
	return nil
}

func (r *proof) startServers(ctx context.Context, tasks *sync.WaitGroup) error {
	var hosts []string
	for i := range r.options.Caps {
		hosts = append(hosts, fmt.Sprintf("127.2.0.%d", i+1))
	}
	free, err := freeAddress(hosts...) // one port for all servers, so that the kernel can be asked for all at once
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(free)
	number, _ := strconv.Atoi(port)
	k, err := newKernel(number)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	r.watcher = newWatcher(k, r.journal)
	for i, n := range r.options.Caps {
		s := &server{name: fmt.Sprintf("server-%d", i+1), address: netip.MustParseAddr(hosts[i]), cap: n, first: n}
		if s.sim, err = sim.Start(sim.Options{
			Listen: net.JoinHostPort(hosts[i], port), Protocol: sim.Echo, Seed: r.options.Seed + uint64(i), Jitter: 2 * time.Millisecond,
			Admit: func(*http.Request) int { r.watcher.accepted(); return 0 },
		}); err != nil {
			return err
		}
		s.seen = r.watcher.add(s.address, s.name, n)
		r.servers = append(r.servers, s)
	}
	tasks.Go(func() { defer k.close(); r.watcher.watch(ctx) })
	return nil
}

// configure makes the schema, the service and the backends.
func (r *proof) configure(ctx context.Context) error {
	if err := r.command(ctx, "migrate"); err != nil {
		return err
	}
	if err := r.command(ctx, "service", "add", "echo", "--path", "/echo", "--profile", "echo", "--queue", "100000", "--queue-timeout", patience.String(),
		"--slow-start", "0s", "--ping-interval", "4s", "--ping-timeout", "3s", "--close-timeout", "2s"); err != nil {
		return err
	}
	for _, s := range r.servers {
		if err := r.command(ctx, "backend", "add", s.name, s.sim.URL(), "--service", "echo", "--connections", strconv.Itoa(s.cap)); err != nil {
			return err
		}
	}
	return nil
}

// command runs a command of the program on the database, as an operator does.
func (r *proof) command(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, r.options.Binary, append(args, "--database", r.database.operator())...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("wsbouncer %v: %w\n%s", args, err, out)
	}
	return nil
}

// clear ends what is left.
func (r *proof) clear() {
	for _, p := range r.proxies {
		for _, q := range []*process{p.process, p.old} {
			if q != nil {
				q.kill()
			}
		}
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
