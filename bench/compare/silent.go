//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/ground/cgroup"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

const (
	silentStep   = 1000                   // sessions that are added at a time
	silentPoll   = 300 * time.Millisecond // between two looks at the statistics, which cost a processor, too
	settleSilent = 12 * time.Second       // before memory is read: what dialing left is gone by then
	silentMost   = 9000                   // sessions of one proxy, which needs two descriptors for each: a hard limit of 20,000 suffices
)

// silence is what a run with silent sessions shows.
type silence struct {
	user, all           float64       // memory of a session with its connection, in bytes: anonymous, and what the cgroup is charged for
	userError, allError float64       // standard errors of these
	accepted, drained   time.Duration // that all sessions took to begin, and the processes to end
	cpu                 time.Duration // to begin them
	before, wakeUps     float64       // wake-ups a second, without sessions and with all
	list, scrape        response      // of the admin API of one proxy, with all its sessions
}

// response is what a response of the admin API costs.
type response struct {
	bytes float64
	cpu   time.Duration
}

// silent returns the scenario of clients that connect and then say nothing.
func silent() scenario {
	number := func(key, title string, digits int, value func(silence) float64) metric {
		return metric{key, title, digits, false, false, func(o observation) float64 { return value(o.silence) }}
	}
	return scenario{
		name: "silent", title: "Silent sessions",
		text: fmt.Sprintf("Clients connect over TLS, %d at a time to one of the proxies, which have %d sessions at most, send one message and no more. The proxy dials a connection for each. "+
			"Memory is the slope of the straight line through all steps, with its standard error: anonymous memory of the processes, and all that their cgroup is charged for, sockets included (as root only).",
			silentStep, silentMost),
		base: "wsbouncer", participants: silentProxies, open: echoServersForTLS, observe: observeSilent,
		expected: func(l load) time.Duration {
			return time.Duration(1+l.sessions/silentStep)*(settleSilent+3*time.Second) + l.duration
		},
		metrics: []metric{
			number("user_kb", "user memory of a session, KiB", 2, func(s silence) float64 { return s.user / 1024 }),
			number("user_error_kb", "+-", 2, func(s silence) float64 { return s.userError / 1024 }),
			number("all_kb", "user and kernel memory, KiB", 2, func(s silence) float64 { return s.all / 1024 }),
			number("all_error_kb", "+-", 2, func(s silence) float64 { return s.allError / 1024 }),
			number("accepted_s", "until all had begun, s", 1, func(s silence) float64 { return s.accepted.Seconds() }),
			{"begin_us", "CPU of a session's start, us", 0, false, false, func(o observation) float64 {
				return float64(o.silence.cpu.Microseconds()) / float64(o.load.Connected)
			}},
			number("drained_s", "from SIGTERM to the end, s", 1, func(s silence) float64 { return s.drained.Seconds() }),
			number("wake_ups_before", "wake-ups a second without sessions", 1, func(s silence) float64 { return s.before }),
			number("wake_ups", "with all", 1, func(s silence) float64 { return s.wakeUps }),
			{"cpu_percent", "processor, %", 2, false, false, func(o observation) float64 { return 100 * o.busy }},
			number("list_kb", "list of the sessions, KiB", 0, func(s silence) float64 { return s.list.bytes / 1024 }),
			number("list_ms", "its CPU, ms", 1, func(s silence) float64 { return milliseconds(s.list.cpu) }),
			number("scrape_kb", "metrics, KiB", 0, func(s silence) float64 { return s.scrape.bytes / 1024 }),
			number("scrape_ms", "their CPU, ms", 1, func(s silence) float64 { return milliseconds(s.scrape.cpu) }),
			outside,
		},
	}
}

func silentLoads(sessions []int) (loads []load) {
	if sessions == nil {
		sessions = []int{silentMost}
	}
	for _, n := range sessions {
		loads = append(loads, load{sessions: n})
	}
	return loads
}

// silentProxies returns the proxy and its variants, with few warm connections, and in the cgroup that the task's directory names.
func silentProxies(_ context.Context, st *stage, _ []rivals.Rival) (all []rivals.Rival, _ error) {
	for _, v := range append([]rivals.Variant{{Name: "wsbouncer"}}, st.setUp.Variants...) {
		r := rivals.WSBouncer(v.Name, cmp.Or(v.Binary, st.wsbouncer), "echo", rivals.PoolSize, append(v.Flags, "--warm", "1", "--drain-timeout", "0s")...)
		serve := r.Command
		r.Command = func(t rivals.Task) ([]string, error) {
			argv, err := serve(t)
			if g := silentGroup(filepath.Dir(t.Dir)); g.made() {
				argv = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.directory, "cgroup.procs")}, argv...)
			}
			return argv, err
		}
		r.Ready = nil // it does not have all connections
		all = append(all, r)
	}
	return all, nil
}

// group is a cgroup for memory.
type group struct{ directory, usage string }

// silentGroup returns the cgroup of the proxies of a stage, which need not exist.
func silentGroup(stage string) group {
	own := cgroup.Own("memory")
	if len(own.Directories) == 0 {
		return group{}
	}
	directory := filepath.Join(own.Directories[0], filepath.Base(stage))
	if own.Unified {
		return group{directory, filepath.Join(directory, "memory.current")}
	}
	return group{directory, filepath.Join(directory, "memory.usage_in_bytes")}
}

func (g group) made() bool {
	_, err := os.Stat(g.usage)
	return err == nil
}

// charged returns what the group is charged for, in bytes; NaN if it does not exist.
func (g group) charged() float64 {
	text, _ := os.ReadFile(g.usage)
	bytes, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return math.NaN()
	}
	return bytes
}

// observeSilent starts as many proxies as the sessions need, adds these step by step, and ends the proxies.
func observeSilent(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (seen observation, err error) {
	g := silentGroup(st.dir)
	if g.directory != "" {
		_ = os.Mkdir(g.directory, 0o755) // without rights, kernel memory is not known
		defer os.Remove(g.directory)     // after the processes have ended
	}
	var proxies []*watch
	var clients []*child.Process
	defer func() {
		for _, c := range clients {
			c.Stop()
		}
		for _, w := range proxies {
			w.stop()
		}
	}()
	count := (l.sessions + silentMost - 1) / silentMost
	for range count {
		w, err := startRival(ctx, st, r, silentMost, b)
		if err != nil {
			return seen, err
		}
		proxies = append(proxies, w)
	}
	sum := func(source func(int) (float64, error)) (n float64) {
		for _, w := range proxies {
			n += w.read(source)
			err = cmp.Or(err, w.failed)
		}
		return n
	}
	processor := func(pid int) (float64, error) {
		used, err := child.ReadCPU(pid)
		return float64(used.Total), err
	}
	var sessions, user, all []float64
	start := sum(child.ReadWakeUps)
	for n := 0; ; n += silentStep {
		if err := kit.Wait(ctx, settleSilent); err != nil {
			return seen, err
		}
		sessions, user, all = append(sessions, float64(n)), append(user, sum(child.ReadAnonymous)), append(all, g.charged())
		log.Printf("%d sessions: %.2f MiB in the processes, %.2f in all; %.2f s of a processor until now", n, user[len(user)-1]/(1<<20), all[len(all)-1]/(1<<20), sum(processor)/1e9)
		if n == 0 {
			seen.silence.before = (sum(child.ReadWakeUps) - start) / settleSilent.Seconds()
		}
		if n >= l.sessions {
			break
		}
		w := proxies[n/silentStep%count]
		used, began := sum(processor), time.Now()
		c, err := child.Start([]string{
			st.tools, "bench", "wss://" + w.address + "/", "--tls-ca", w.ca, "--connections", strconv.Itoa(silentStep), "--dial-parallel", "20", "--rate", "0",
			"--duration", "24h", "--connect-timeout", "5m", "--quiet",
		})
		if err != nil {
			return seen, err
		}
		clients = append(clients, c)
		want := (n/silentStep/count + 1) * silentStep
		connecting, cancel := context.WithTimeout(ctx, 5*time.Minute)
		err = child.WaitFor(connecting, c, "sessions", func(ctx context.Context) error {
			err := kit.Wait(ctx, silentPoll)
			stats, failed := kit.NewAdmin("http://" + w.admin).Stats(ctx)
			if err = cmp.Or(err, failed); err == nil && stats.Sessions.Active < int64(want) {
				err = fmt.Errorf("%d of %d have begun", stats.Sessions.Active, want)
			}
			return err
		})
		cancel()
		if err != nil {
			return seen, err
		}
		seen.silence.accepted += time.Since(began)
		seen.silence.cpu += time.Duration(sum(processor) - used)
		seen.load.Connected = n + silentStep
	}
	s := &seen.silence
	s.user, s.userError = line(sessions, user)
	s.all, s.allError = line(sessions, all)
	machine, failed := child.ReadMachine()
	wakeUps, used := sum(child.ReadWakeUps), sum(processor)
	if err := kit.Wait(ctx, l.duration); err != nil {
		return seen, err
	}
	s.wakeUps, seen.busy = (sum(child.ReadWakeUps)-wakeUps)/l.duration.Seconds(), (sum(processor)-used)/float64(l.duration)
	now, alsoFailed := child.ReadMachine()
	seen.others = now.Others(machine)
	var listFailed, scrapeFailed error
	s.list, listFailed = proxies[0].ask(ctx, api.SessionsPath)
	s.scrape, scrapeFailed = proxies[0].ask(ctx, "/metrics")
	if err := cmp.Or(err, failed, alsoFailed, listFailed, scrapeFailed); err != nil {
		return seen, err
	}
	began := time.Now()
	for _, w := range proxies {
		err = cmp.Or(err, w.Signal(syscall.SIGTERM))
	}
	for _, w := range proxies {
		err = cmp.Or(err, w.WaitForSuccess(time.Minute))
	}
	s.drained = time.Since(began)
	return seen, err
}

// ask asks the admin API ten times.
func (w *watch) ask(ctx context.Context, path string) (a response, err error) {
	const times = 10
	start := w.readCPU()
	for range times {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+path, nil)
		if err != nil {
			return a, err
		}
		got, err := http.DefaultClient.Do(request)
		if err != nil {
			return a, err
		}
		n, err := io.Copy(io.Discard, got.Body)
		got.Body.Close()
		if err != nil || got.StatusCode != http.StatusOK {
			return a, fmt.Errorf("%s: %s, %w", path, got.Status, err)
		}
		a.bytes = float64(n)
	}
	a.cpu = w.readCPU().Since(start).Total / times
	return a, w.failed
}
