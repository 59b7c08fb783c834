//go:build linux

// Package reconnectproof proves that clients come back to their sessions (docs/reconnect.md) while the processes of the proxy change: it cuts the
// connections of package failoverproof's clients as servers die, in front of real processes that are upgraded, or of a fleet behind a load balancer
// without stickiness, of which one proxy is killed.
package reconnectproof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/failoverproof"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// Options say what to prove.
type Options struct {
	failoverproof.Options // of all protocols together; Protocol and Outside are set here

	Binary  string
	Proxies int           // that share a PostgreSQL database
	Upgrade time.Duration // the time between two upgrades, of one proxy after the other; 0 for none
	Kill    bool          // one proxy of several, half-way
	// Redirect has clients come to the proxy of their session themselves (reconnect-url). Otherwise they are forwarded.
	Redirect  bool
	HAProxy   string    // program, which is put in front of several proxies; a single one has none
	Directory string    // for logs and state; it must exist
	Out       io.Writer // gets the report
}

// protocols are those of the clients, with a service each.
var protocols = []string{sim.Vosk, sim.Deepgram, sim.DashScope}

// run is one proof.
type run struct {
	o        Options
	servers  map[string][]*sim.Server
	database *pgtest.Server
	proxies  []*kit.Proxy
	balancer *kit.Process
	url      string
	outside  [3]*failoverproof.Outside
}

// Validate returns an error that names the wrong option, its value and what to use instead.
func (o *Options) Validate() error {
	switch err := kit.Within("proxies", o.Proxies, 1, 9); {
	case err != nil:
		return err
	case o.Proxies > 1 && o.HAProxy == "":
		return fmt.Errorf("proxies: clients would use the first of %d only: name HAProxy, or use 1", o.Proxies)
	case o.Proxies == 1 && o.Redirect:
		return errors.New("redirect: a single proxy has no other one to send clients to: use more")
	case o.Upgrade < 0 || o.Upgrade > 0 && o.Upgrade >= o.changing():
		return fmt.Errorf("upgrade: %v is out of range: things happen for %v, so use less, or 0 for none", o.Upgrade, o.changing())
	}
	return nil
}

// changing is how long proxies are upgraded, after one was killed.
func (o *Options) changing() time.Duration {
	if o.Kill {
		return o.Duration - o.Duration/2
	}
	return o.Duration
}

// judge returns an error if the clients whose connections were cut did not get to their sessions at other proxies in the way that the proof is about:
// redirected counts those that were told to go there, and forwarded those whose bytes passed through another proxy.
func (o *Options) judge(cuts int, redirected int64, forwarded uint64) error {
	switch {
	case o.Proxies == 1 || cuts == 0:
		return nil
	case !o.Redirect && forwarded == 0:
		return errors.New("no client came back by way of another proxy, so nothing was proven of forwarding")
	case !o.Redirect && redirected > 0:
		return fmt.Errorf("%d clients were redirected by proxies without a reconnect-url", redirected)
	case o.Redirect && redirected == 0:
		return errors.New("no client was redirected, so nothing was proven of reconnect-url")
	case o.Redirect && forwarded > 0 && o.Upgrade == 0: // a process that was replaced has no address for clients any more
		return fmt.Errorf("%d clients were forwarded by proxies with a reconnect-url", forwarded)
	}
	return nil
}

// Run carries out the proof, and returns an error with all that was found.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	r := &run{o: o, servers: make(map[string][]*sim.Server)}
	defer r.clear()
	if err := r.start(ctx); err != nil {
		return err
	}
	for i, protocol := range protocols {
		r.outside[i] = &failoverproof.Outside{URLs: []string{r.url + "/" + protocol}, Servers: r.servers[protocol]}
	}
	changing, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	var (
		mu     sync.Mutex
		failed []error // guarded by mu
		cuts   int     // guarded by mu: that were made
		sent   int64   // guarded by mu: clients that were redirected
		tasks  sync.WaitGroup
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err)
	}
	for i, protocol := range protocols {
		tasks.Go(func() {
			part := o.Options
			part.Protocol, part.Outside = protocol, r.outside[i]
			part.Sessions, part.Events, part.Cuts = kit.Share(o.Sessions, i, 3), kit.Share(o.Events, i, 3), kit.Share(o.Cuts, i, 3)
			report, err := failoverproof.Run(ctx, part)
			fmt.Fprint(o.Out, report.String())
			fail(errors.Join(err, report.Err()))
			mu.Lock()
			defer mu.Unlock()
			cuts += kit.Sum(report.Cuts)
			sent += report.Redirected
		})
	}
	tasks.Go(func() { fail(r.change(changing)) })
	tasks.Wait()
	failed = append(failed, o.judge(cuts, sent, r.report(ctx)))
	return errors.Join(failed...)
}

// start starts the servers, the database, the proxies, and the load balancer.
func (r *run) start(ctx context.Context) (err error) {
	if r.database, err = pgtest.Started(ctx, "reconnect"); err != nil {
		return err
	}
	database := r.database.URL(pgtest.User, pgtest.Password, "reconnect")
	commands := [][]string{{"migrate"}}
	for _, protocol := range protocols {
		commands = append(commands, []string{
			"service", "add", protocol, "--path", "/" + protocol + "/", "--profile", protocol, "--failover", "replay", "--reconnect", "30s",
			"--stall-timeout", "1s", "--close-timeout", "1s", "--queue", "10000", "--queue-timeout", r.o.Patience.String(),
		})
		for i := range r.o.Servers {
			server, err := sim.Start(sim.Options{Protocol: protocol, Latency: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Seed: r.o.Seed + uint64(i)})
			if err != nil {
				return err
			}
			r.servers[protocol] = append(r.servers[protocol], server)
			commands = append(commands, []string{
				"backend", "add", fmt.Sprintf("%s-%d", protocol, i+1), server.URL(), "--service", protocol,
				"--connections", fmt.Sprint(r.o.Sessions),
			})
		}
	}
	if _, err := kit.OperateAll(ctx, r.o.Binary, database, commands...); err != nil {
		return err
	}
	for i := range r.o.Proxies {
		p, err := kit.NewProxy(r.o.Binary, fmt.Sprintf("proxy-%d", i+1), r.o.Directory)
		if err != nil {
			return err
		}
		r.proxies = append(r.proxies, p)
		p.Token = os.Getenv("WSBOUNCER_ADMIN_TOKEN")
		arguments := []string{"--proxy-name", p.Name, "--admin", "127.0.0.1:0", "--database", database, "--max-handshakes", "65536", "--drain-timeout", "1m"}
		if r.o.Redirect {
			arguments = append(arguments, "--reconnect-url", "ws://"+p.Listen)
		}
		if err := p.Serve(arguments...); err != nil {
			return err
		}
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	r.url = "ws://" + r.proxies[0].Listen
	if r.o.Proxies == 1 {
		return nil
	}
	return r.balance(ctx)
}

// balance starts HAProxy, which gives each connection to the next proxy.
func (r *run) balance(ctx context.Context) error {
	listen, err := freeport.Address()
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "defaults\n mode tcp\n balance roundrobin\n option redispatch\n retries 3\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n"+
		"listen proxies\n bind %s\n", listen)
	for _, p := range r.proxies {
		fmt.Fprintf(&text, " server %s %s check inter 200ms\n", p.Name, p.Listen)
	}
	file := filepath.Join(r.o.Directory, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return err
	}
	command := exec.Command(r.o.HAProxy, "-db", "-f", file)
	kit.Separate(command)
	if r.balancer, err = kit.Start("HAProxy", command); err != nil {
		return err
	}
	r.url = "ws://" + listen
	return r.balancer.Accepts(ctx, listen)
}

// change upgrades and kills proxies until ctx ends.
func (r *run) change(ctx context.Context) error {
	say := func(format string, args ...any) {
		fmt.Fprintf(r.o.Out, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
	}
	if r.o.Kill {
		if kit.Wait(ctx, r.o.Duration/2) != nil {
			return nil
		}
		victim := r.proxies[len(r.proxies)-1]
		var of api.SessionList
		if err := victim.Get(context.WithoutCancel(ctx), api.SessionsPath+"?limit=1", &of); err != nil {
			return err
		}
		if len(of.Sessions) == 0 {
			return fmt.Errorf("%s has no session that its end could cut", victim.Name)
		}
		process, _, _ := strings.Cut(of.Sessions[0].ID, "-")
		for _, o := range r.outside {
			o.Killed.Store(&process)
		}
		victim.Kill()
		say("%s was killed", victim.Name)
	}
	for n := 0; r.o.Upgrade > 0; n++ {
		if kit.Wait(ctx, r.o.Upgrade) != nil {
			if n == 0 {
				return errors.New("no proxy was upgraded in time, so nothing was proven of upgrades")
			}
			return nil
		}
		p := r.proxies[n%len(r.proxies)]
		last, err := p.Upgrade(context.WithoutCancel(ctx), r.o.Binary, nil)
		if err != nil {
			return err
		}
		say("%s: %s", p.Name, last)
	}
	return nil
}

// report writes what the proxies counted, and returns how many clients those forwarded that still run.
func (r *run) report(ctx context.Context) (forwarded uint64) {
	for _, p := range r.proxies {
		if stats, err := p.Stats(ctx); err == nil {
			fmt.Fprintf(r.o.Out, "%s: clients that came back: %+v\n", p.Name, stats.Sessions.Reconnects)
			forwarded += stats.Sessions.Reconnects.Forwarded
		}
	}
	return forwarded
}

// clear ends what is left.
func (r *run) clear() {
	if r.balancer != nil {
		r.balancer.Kill()
	}
	for _, p := range r.proxies {
		p.KillAll()
	}
	for _, servers := range r.servers {
		for _, server := range servers {
			server.Close()
		}
	}
	if r.database != nil {
		r.database.Remove()
	}
}
