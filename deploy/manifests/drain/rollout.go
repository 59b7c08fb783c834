package main

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
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

const (
	fleetServers = 2
	// longestOfRollout is the longest session, so that the pods that drain end within seconds.
	longestOfRollout = 10 * time.Second
)

// update is a rolling update.
type update struct {
	// static
	o         options
	manifests *manifests
	ending    ending // with its times divided
	program   string
	owner     string // URL of the database, as the schema's owner
	database  string // URL of the database, as the proxies
	folder    string
	servers   []*sim.Server
	places    int // of each server
	out       io.Writer
	service   *balancer
	clients   *clients
	at        *pod // the Service, as clients see it
	began     time.Time

	tasks sync.WaitGroup // pods that end

	mu   sync.Mutex
	errs []error // guarded by mu: what must not be
	pods int     // guarded by mu: that were started
}

func (u *update) wrong(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.errs = append(u.errs, err)
}

// rollOut replaces all pods of a Deployment by new ones, one after the other, while clients stream through the Service: each new pod must be
// ready before an old one is deleted. All share one database. It returns what must not have been.
func rollOut(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := readManifests(o.folder)
	if err != nil {
		return err
	}
	u := &update{o: o, manifests: m, out: o.out}
	if u.ending, err = m.ending.faster(o.faster); err != nil {
		return err
	}
	if u.folder, err = os.MkdirTemp("", "rollout"); err != nil {
		return err
	}
	defer os.RemoveAll(u.folder)
	if u.program, err = filepath.Abs(o.program); err != nil {
		return err
	}
	postgres, err := pgtest.New()
	if err != nil {
		return err
	}
	defer postgres.Remove()
	if err := postgres.Start(ctx); err != nil {
		return err
	}
	if err := pgtest.Execute(ctx, postgres.DSN("postgres"), "CREATE ROLE wsbouncer_owner LOGIN PASSWORD 'owner'",
		"CREATE ROLE wsbouncer_proxy LOGIN PASSWORD 'proxy'", "CREATE SCHEMA wsbouncer AUTHORIZATION wsbouncer_owner"); err != nil {
		return err
	}
	u.owner, u.database = postgres.URL("wsbouncer_owner", "owner", "postgres"), postgres.URL("wsbouncer_proxy", "proxy", "postgres")
	path, err := u.prepare(ctx)
	for _, s := range u.servers {
		defer s.Close()
	}
	if err != nil {
		return err
	}
	if u.service, err = newBalancer(); err != nil {
		return err
	}
	defer u.service.close()

	fmt.Fprintf(u.out, "%s: %d pods, preStop sleeps %v, SIGKILL after %v; %d servers of %d places\n", o.folder, m.replicas, m.ending.preStop, m.ending.grace,
		len(u.servers), u.places)
	if o.faster != 1 {
		fmt.Fprintf(u.out, "preStop and SIGKILL come %v times faster.\n", o.faster)
	}
	old, err := u.start(ctx, m.replicas)
	for _, p := range old {
		defer kit.StopAll(p.process)
	}
	if err != nil {
		return err
	}
	u.at = &pod{name: "the Service", url: "ws://" + u.service.listener.Addr().String()}
	u.clients = newClients(&endpoints{pods: []*pod{u.at}}, path, longestOfRollout)
	u.began = time.Now()
	u.clients.start(ctx, o.clients)
	defer u.clients.group.Wait()
	defer cancel() // before the wait for the clients
	if err := kit.Wait(ctx, longestOfRollout/2); err != nil {
		return err
	}
	u.say("the update begins", old...)
	var all []*pod
	all = append(all, old...)
	for _, gone := range old {
		fresh, err := u.start(ctx, 1)
		for _, p := range fresh {
			defer kit.StopAll(p.process)
		}
		if err != nil {
			return err
		}
		all = append(all, fresh...)
		u.say(fresh[0].name+" is ready; "+gone.name+" is deleted", all...)
		u.tasks.Go(func() { u.end(ctx, gone) })
	}
	u.show(ctx, all[len(all)-1])
	u.tasks.Wait()
	u.say("the old pods have ended", all[len(old):]...)
	if err := kit.Wait(ctx, time.Second); err != nil {
		return err
	}
	u.judge()
	again, err := u.restart(ctx, all[len(all)-1])
	if err != nil {
		return err
	}
	defer kit.StopAll(again.process)
	u.judgeServers()
	u.mu.Lock()
	defer u.mu.Unlock()
	return errors.Join(u.errs...)
}

// restart kills the process of a pod, and starts its successor in the same pod, as a kubelet does: with the same state directory and addresses.
// It returns when clients have sessions on it: the places of the one that was killed are its own then.
func (u *update) restart(ctx context.Context, p *pod) (*pod, error) {
	u.service.remove(p)
	p.process.Kill()
	began := time.Now()
	e := u.ending
	e.args = p.args
	again, err := u.startPod(ctx, p.name, strings.TrimPrefix(p.api, "http://"), e)
	if err != nil {
		return nil, err
	}
	ready := time.Since(began)
	u.service.add(again)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = again.process.Until(ctx, "the restarted proxy has a quarter of the sessions", func() (bool, error) {
		s, err := again.admin.Stats(ctx)
		return err == nil && s.Sessions.Active >= int64(u.o.clients/4), err
	})
	fmt.Fprintf(u.out, "\n%s was killed, and restarted in its pod: ready after %.1fs; %.1fs later it served a quarter of the clients\n",
		p.name, ready.Seconds(), (time.Since(began) - ready).Seconds())
	return again, err
}

// prepare starts the servers, and runs the Job. It returns the path that clients request.
func (u *update) prepare(ctx context.Context) (path string, err error) {
	original := filepath.Join(u.o.folder, "configuration.yaml")
	if u.places, err = placesOf(original); err != nil {
		return "", err
	}
	var urls []string
	for i := range fleetServers {
		server, err := sim.Start(sim.Options{
			Protocol: sim.Vosk, Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Seed: uint64(i), Sessions: u.places,
		})
		if err != nil {
			return "", err
		}
		u.servers, urls = append(u.servers, server), append(urls, server.URL())
	}
	configuration, path, err := localConfiguration(original, u.folder, urls)
	if err != nil {
		return "", err
	}
	for _, args := range u.manifests.jobs {
		args = strings.Split(strings.ReplaceAll(strings.Join(args, "\x00"), "/etc/wsbouncer/services/configuration.yaml", configuration), "\x00")
		if out, err := u.command(ctx, u.owner, args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("the Job: wsbouncer %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return path, nil
}

// placesOf returns the connections of the only backend of a configuration.
func placesOf(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var c struct {
		Backends map[string]struct {
			Connections int `json:"connections"`
		} `json:"backends"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return 0, err
	}
	for _, b := range c.Backends {
		return b.Connections, nil
	}
	return 0, fmt.Errorf("%s: no backend", path)
}

// command returns a command of the program with the environment of the manifests.
func (u *update) command(ctx context.Context, database string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, u.program, args...)
	command.Env = append(os.Environ(), "WSBOUNCER_SETTINGS=", "WSBOUNCER_ADMIN_TOKEN="+adminToken, "WSBOUNCER_DATABASE="+database)
	return command
}

// start starts pods, each with an address of its own, and makes them endpoints of the Service when they are ready. It returns those that
// run even if one fails.
func (u *update) start(ctx context.Context, n int) ([]*pod, error) {
	var pods []*pod
	for range n {
		u.mu.Lock()
		u.pods++
		number := u.pods
		u.mu.Unlock()
		name := fmt.Sprintf("wsbouncer-%d", number)
		admin, err := freeport.Address(fmt.Sprintf("127.0.1.%d", number))
		if err != nil {
			return pods, err
		}
		e := u.ending
		e.args = strings.Split(strings.NewReplacer("$(POD_NAME)", name, "$(POD_IP):9090", admin).Replace(strings.Join(e.args, "\x00")), "\x00")
		p, err := u.startPod(ctx, name, admin, e)
		if err != nil {
			return pods, err
		}
		pods = append(pods, p)
		u.service.add(p)
	}
	return pods, nil
}

// startPod starts a proxy with its state in a folder of its own.
func (u *update) startPod(ctx context.Context, name, admin string, e ending) (*pod, error) {
	args := withArgument(withArgument(e.args, "listen", "127.0.0.1:0"), "admin", admin)
	args = withArgument(args, "state-directory", filepath.Join(u.folder, name))
	output := new(kit.Output)
	command := u.command(context.WithoutCancel(ctx), u.database, args...)
	command.Stderr = output
	process, err := kit.Start(name, command)
	if err != nil {
		return nil, err
	}
	p := &pod{name: name, process: process, output: output, ready: e.ready, args: e.args}
	if err := p.awaitReady(ctx); err != nil {
		process.Kill()
		return nil, fmt.Errorf("%s: %w; its log:\n%s", name, err, strings.Join(output.Lines(), "\n"))
	}
	p.address = strings.TrimPrefix(p.url, "ws://")
	return p, nil
}

// end ends a pod as a kubelet does: see [kubelet.end].
func (u *update) end(ctx context.Context, p *pod) {
	deleted := time.Now()
	timer := func(d time.Duration, do func()) *time.Timer { return time.AfterFunc(d, do) }
	defer timer(u.ending.forget, func() { u.service.remove(p) }).Stop()
	defer timer(u.ending.preStop, func() { _ = p.process.Signal(syscall.SIGTERM) }).Stop()
	defer timer(u.ending.grace, p.process.Kill).Stop()
	select {
	case <-p.process.Ended():
	case <-ctx.Done():
		return
	}
	if status := p.process.State(); status.ExitCode() != 0 {
		u.wrong(fmt.Errorf("%s ended with %v:\n%s", p.name, status, strings.Join(p.output.Lines(), "\n")))
	}
	fmt.Fprintf(u.out, "%7.1fs  %s has ended, %.1fs after it was deleted\n", time.Since(u.began).Seconds(), p.name, time.Since(deleted).Seconds())
}

// say prints what happens, and how many sessions each pod has.
func (u *update) say(what string, pods ...*pod) {
	fmt.Fprintf(u.out, "%7.1fs  %s\n         ", time.Since(u.began).Seconds(), what)
	for _, p := range pods {
		if s, err := p.admin.Stats(context.Background()); err == nil {
			fmt.Fprintf(u.out, "  %s: %d sessions", p.name, s.Sessions.Active)
		}
	}
	fmt.Fprintf(u.out, "; the servers: %s connections\n", u.connections())
}

// connections returns how many connections each server has, as the server counts them.
func (u *update) connections() string {
	var counts []string
	for _, s := range u.servers {
		counts = append(counts, fmt.Sprintf("%d of %d", s.Stats().Connections, u.places))
	}
	return strings.Join(counts, " and ")
}

// show prints what a pod knows of the fleet.
func (u *update) show(ctx context.Context, p *pod) {
	out, err := u.command(ctx, u.database, "proxy", "ls", "--admin", p.api).CombinedOutput()
	if err != nil {
		u.wrong(fmt.Errorf("proxy ls: %w\n%s", err, out))
		return
	}
	fmt.Fprintf(u.out, "\n$ wsbouncer proxy ls\n%s\n", out)
}

// judge prints what became of the sessions, and notes what must not be.
func (u *update) judge() {
	var count [stopped + 1]int
	var longest time.Duration // wait of a client beyond its session's length
	records := u.clients.on(u.at, func(record) bool { return true })
	for _, r := range records {
		count[r.outcome]++
		switch r.outcome {
		case complete:
			longest = max(longest, r.ended.Sub(r.began)-r.planned)
		case refused, cut, told:
			u.wrong(fmt.Errorf("a session that began at %.1fs: %w", r.began.Sub(u.began).Seconds(), r.err))
		}
	}
	fmt.Fprintf(u.out, "\nsessions through the Service  %5d (%d run)\n", len(records), count[running])
	fmt.Fprintf(u.out, "  complete                    %5d (the slowest took %v longer than its audio)\n", count[complete], longest.Round(time.Millisecond))
	fmt.Fprintf(u.out, "  told 1001                   %5d\n  refused                     %5d\n  cut                         %5d\n", count[told], count[refused], count[cut])
	if n := u.service.refused.Load(); n > 0 {
		u.wrong(fmt.Errorf("%d connections found no pod that took them", n))
	}
	if count[complete] < u.o.clients {
		u.wrong(fmt.Errorf("%d complete sessions prove nothing", count[complete]))
	}
	u.judgeServers()
}

// judgeServers prints how many connections each server had at most, and notes what must not be.
func (u *update) judgeServers() {
	for i, s := range u.servers {
		stats := s.Stats()
		fmt.Fprintf(u.out, "server %d: at most %d connections of %d, %d refused\n", i+1, stats.Peak, u.places, stats.Refused)
		if stats.Refused > 0 {
			u.wrong(fmt.Errorf("server %d refused %d connections beyond its %d places", i+1, stats.Refused, u.places))
		}
	}
}
