//go:build linux

// Package upgradeproof proves that replacing a running proxy by another version of the program cuts nothing: real processes replace each
// other under sessions that last and clients that come, while the connections of each server are counted as its kernel sees them. It also
// has upgrades fail, and expects that no client notices.
package upgradeproof

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// Options say what to prove.
type Options struct {
	Binary, Other string        // two versions of the program, which replace each other in turn
	Sessions      int           // that last from the beginning to the end
	Rate          int           // new sessions a second, which last a few seconds
	Upgrades      int           // in a row
	Every         time.Duration // the time between two of them
	Servers       int
	Cap           int  // connections of each server
	Failures      bool // also a program that fails, and one that is killed in the middle
	// Pause is the longest that a client may take to get its session around an upgrade, at the 99th percentile; 0 for any time.
	Pause time.Duration
	// Uncounted: connections above a server's cap are reported, and no failure.
	Uncounted bool
	Directory string    // for logs and state; it must exist
	Out       io.Writer // gets the report
}

// Validate returns an error that names the wrong option, its value and what to use instead.
func (o *Options) Validate() error {
	return cmp.Or(
		kit.Within("rate", o.Rate, 1, 5000), kit.Within("servers", o.Servers, 1, 99), kit.Within("cap", o.Cap, 10, 100_000),
		kit.Within("sessions", o.Sessions, 1, 10_000), kit.Within("upgrades", o.Upgrades, 1, 1000),
	)
}

// endTimeout is how long a proxy may take to end when its last session has: long enough for a busy machine, since all that counts is that it ends.
const endTimeout = time.Minute

// run is one proof. One goroutine owns it.
type run struct {
	o        Options
	journal  *kit.Journal
	servers  []*sim.Server
	counter  *counter
	clients  *clients
	proxy    *kit.Proxy
	upgrades []upgrade
}

// upgrade is one upgrade that was made.
type upgrade struct {
	from, to time.Time // around the moment when another process began to accept
}

// Run carries out the proof. The error says what was found first, and the report all of it.
func Run(ctx context.Context, o Options) error {
	r := &run{o: o, journal: kit.NewJournal(o.Out)}
	defer r.clear()
	err := r.start(ctx)
	if err == nil {
		err = r.play(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.journal.Violation("", "the proof could not be carried out", nil, "%v", err)
	}
	return r.report()
}

// start starts the servers and the proxy.
func (r *run) start(ctx context.Context) error {
	servers, kernel, err := kit.StartServers(r.o.Servers, func(int) sim.Options { return sim.Options{} })
	r.servers = servers
	if err != nil {
		return err
	}
	r.counter = startCounter(kernel, len(servers), r.journal)
	services := filepath.Join(r.o.Directory, "services.yaml")
	if err := os.WriteFile(services, []byte(configuration(servers, r.o.Cap, r.o.Cap/10)), 0o600); err != nil {
		return err
	}
	if r.proxy, err = kit.NewProxy(r.o.Binary, "main", r.o.Directory); err != nil {
		return err
	}
	if err := r.proxy.Serve("--database", services, "--log-level", "info", "--access-log", filepath.Join(r.o.Directory, "access.log"),
		"--max-handshakes", "65536"); err != nil { // all clients come from one address
		return err
	}
	return r.proxy.Until(ctx, "servers have connections", func() (bool, error) {
		stats, err := r.proxy.Stats(ctx)
		return err == nil && len(stats.Backends) == len(r.servers) && stats.Backends[0].Idle > 0, nil
	})
}

// configuration returns that of a proxy with an echo service.
func configuration(servers []*sim.Server, limit, warm int) string {
	var b strings.Builder
	b.WriteString("services:\n  echo:\n    path: /echo\n    profile: echo\n    queue: 2000\n    queue-timeout: 30s\nbackends:\n")
	for i, server := range servers {
		fmt.Fprintf(&b, "  server-%d:\n    service: echo\n    url: %s\n    connections: %d\n    warm: %d\n", i+1, server.URL(), limit, warm)
	}
	return b.String()
}

// play has the clients come, the proxies replace each other, and the clients go.
func (r *run) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r.clients = newClients("ws://"+r.proxy.Listen+"/echo", r.journal)
	leave := r.clients.stay(ctx, r.o.Sessions)
	defer func() { cancel(); leave() }()
	if err := r.proxy.Until(ctx, "all sessions that are to last have begun", func() (bool, error) {
		stats, err := r.proxy.Stats(ctx)
		if failed := r.journal.Err(); failed != nil {
			return false, failed
		}
		return err == nil && stats.Sessions.Active >= int64(r.o.Sessions), nil
	}); err != nil {
		return err
	}
	r.journal.Event("%d sessions last from now on", r.o.Sessions)
	stop := r.clients.come(ctx, r.o.Rate)
	defer func() { cancel(); stop() }()
	if err := kit.Wait(ctx, r.o.Every); err != nil {
		return err
	}
	for i := range r.o.Upgrades {
		if err := r.upgrade(ctx, fmt.Sprintf("upgrade %d", i+1), []string{r.o.Other, r.o.Binary}[i%2]); err != nil {
			return err
		}
		if r.o.Failures && i == 0 {
			r.failures(ctx)
		}
		if err := kit.Wait(ctx, r.o.Every); err != nil {
			return err
		}
	}
	stop()
	r.memory("before the sessions that lasted end")
	leave()
	r.journal.Event("all clients have left")
	ends(r.journal, r.proxy, endTimeout)
	return nil
}

// upgrade has another program replace the running process.
func (r *run) upgrade(ctx context.Context, what, binary string) error {
	begin := time.Now()
	last, err := r.proxy.Upgrade(ctx, binary, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	now := time.Now()
	r.upgrades = append(r.upgrades, upgrade{now, now})
	r.journal.Event("%s after %v: %s", what, now.Sub(begin).Round(time.Millisecond), last)
	r.memory("now")
	return nil
}

// started is what `wsbouncer upgrade` says when the new process runs.
var started = regexp.MustCompile(`is started as process (\d+)`)

// failures has upgrades fail, after which the running process must serve as before.
func (r *run) failures(ctx context.Context) {
	before := r.version(ctx)
	failing := func(what, binary string, line func(string)) {
		last, err := r.proxy.Upgrade(ctx, binary, line)
		if err == nil || !strings.Contains(last, "the running proxy keeps serving") {
			r.journal.Violation("", "an upgrade that fails did not end well", nil, "%s: it ended with %v: %s", what, err, last)
		}
		r.journal.Event("%s: %s", what, last)
	}
	failing("a program that fails", "/bin/false", nil)
	killed := 0
	failing("a new process that was killed in the middle", r.o.Other, func(line string) {
		if match := started.FindStringSubmatch(line); match != nil {
			killed, _ = strconv.Atoi(match[1])
		}
		if strings.Contains(line, "asks for the sockets") {
			_ = unix.Kill(killed, unix.SIGKILL)
		}
	})
	if killed > 0 {
		_, _ = unix.Wait4(killed, nil, 0, nil)
	}
	if after := r.version(ctx); after != before || after == "" {
		r.journal.Violation("", "another version serves after upgrades that failed", nil, "it is %q, and was %q", after, before)
	}
}

// version returns the version of the process that serves; empty if none answers.
func (r *run) version(ctx context.Context) string {
	stats, err := r.proxy.Stats(ctx)
	if err != nil {
		return ""
	}
	return stats.Version
}

// memory says how much memory the processes take.
func (r *run) memory(when string) {
	var words []string
	for _, p := range append(r.proxy.Replaced[:len(r.proxy.Replaced):len(r.proxy.Replaced)], r.proxy.Process) {
		if p.Alive() {
			words = append(words, fmt.Sprintf("process %d: %.1f MiB", p.PID(), float64(p.Memory())/kit.MiB))
		}
	}
	r.journal.Event("resident memory %s: %s", when, strings.Join(words, ", "))
}

// ends expects that all processes of a proxy but the last end by themselves, now that no session is left, and the last when it is told to.
func ends(j *kit.Journal, p *kit.Proxy, timeout time.Duration) {
	for _, old := range p.Replaced {
		replacedEnds(j, p, old, timeout)
	}
	j.Event("%s: %d processes that were replaced have ended", p.Name, len(p.Replaced))
	if err := p.End(timeout); err != nil {
		j.Violation("", "the last process did not end well", nil, "%v", err)
	}
}

// replacedEnds expects that a process that was replaced ends by itself.
func replacedEnds(j *kit.Journal, p *kit.Proxy, old *kit.Process, timeout time.Duration) {
	if err := old.WaitForSuccess(timeout); err != nil {
		j.Violation("", "a process that was replaced did not end well", nil, "%v; its log is %s", err, p.LogFile())
	}
}

// report prints what was measured and found, and returns the first violation as an error.
func (r *run) report() error {
	var lines []string
	if r.counter != nil {
		lines = r.counter.end(r.o.Cap, r.o.Uncounted)
	}
	if c := r.clients; c != nil {
		calm, around := c.times(r.upgrades)
		rounded := func(times []time.Duration, q float64) time.Duration {
			return kit.Quantile(times, q).Round(100 * time.Microsecond)
		}
		lines = append([]string{
			fmt.Sprintf("%d upgrades; sessions: %d, of which %d lasted; messages: %d", len(r.upgrades), len(calm)+len(around), r.o.Sessions, c.messages),
			fmt.Sprintf("time to get a session: p50 %v, p99 %v, longest %v; within %v of a hand-over (%d sessions): p50 %v, p99 %v, longest %v",
				rounded(calm, .5), rounded(calm, .99), rounded(calm, 1), margin, len(around), rounded(around, .5), rounded(around, .99), rounded(around, 1)),
		}, lines...)
		if p99 := rounded(around, .99); r.o.Pause > 0 && p99 > r.o.Pause {
			r.journal.Violation("", "clients waited too long around upgrades", nil, "they got their sessions after %v at the 99th percentile; at most %v is allowed", p99, r.o.Pause)
		}
	}
	return r.journal.Conclude(r.o.Out, r.o.Directory, lines)
}

// clear ends what is left.
func (r *run) clear() {
	if r.proxy != nil {
		r.proxy.KillAll()
	}
	if r.counter != nil {
		r.counter.stop()
	}
	for _, server := range r.servers {
		server.Close()
	}
}
