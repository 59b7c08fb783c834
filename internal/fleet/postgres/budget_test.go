//go:build linux

package postgres

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/config"
	configpostgres "github.com/wsbouncer/wsbouncer/internal/config/postgres"
	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/fleet/agent"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// The flags of TestBudget.
var (
	budget        = flag.Duration("budget", 0, "run TestBudget for this long: 100 proxies on a server of their own")
	budgetProxies = flag.Int("budget-proxies", 100, "proxies of TestBudget")
	budgetServers = flag.Int("budget-servers", 50, "servers of TestBudget")
	budgetChanges = flag.Float64("budget-changes", 100, "sessions that begin or end in a second, in TestBudget")
	budgetWarm    = flag.Int("budget-warm", 1, "connections that each proxy keeps warm at each server, in TestBudget; 1000 for as many as it may have")
	budgetPause   = flag.Duration("budget-pause", 100*time.Millisecond, "time between the starts of proxies, in TestBudget")
	budgetRestart = flag.Bool("budget-restart", false, "crash and restart the server at the end of TestBudget")
	budgetPlan    = flag.Bool("budget-plan", false, "print the plan of a heartbeat")
)

// TestBudget measures what a fleet costs PostgreSQL, with following the configuration: statements and bytes of the write-ahead log a second, its
// processes' share of a processor and their memory; and how soon clients without a place get one.
//
//	go test ./internal/fleet/postgres -run TestBudget -budget 30s -v
func TestBudget(t *testing.T) {
	if *budget == 0 {
		t.Skip("run it with -budget 30s")
	}
	own, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Remove()
	own.Arguments = []string{"-c", "max_connections=" + strconv.Itoa(20+6**budgetProxies), "-c", "fsync=on"}
	if err := own.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	dsn := own.DSN("postgres")
	migrate(t, dsn)

	ctx, cancel := context.WithCancel(t.Context())
	joining := time.Now()
	var (
		all     sync.WaitGroup
		counted counter
		f       = new(fleetLoad)
	)
	for n := range *budgetProxies {
		s, err := open(dsn, Options{}, &counted)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		// A proxy also follows the configuration.
		followed, err := configpostgres.Open(dsn, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = followed.Close() })
		followed.Watch(ctx)
		all.Go(func() { f.proxy(ctx, s, n) })
		time.Sleep(*budgetPause)
	}
	f.await(func() bool { return f.joined.Load() == int64(*budgetProxies) })
	t.Logf("%d proxies have joined after %.1f s, with %d failures", f.joined.Load(), time.Since(joining).Seconds(), f.failures.Load())
	t.Logf("until then: %d exchanges, %d statements, %d writes, PostgreSQL has used %.1f s of a processor",
		f.exchanges.Load(), counted.statements.Load(), counted.changes.Load(), cpuOf(t, own).Seconds())
	time.Sleep(30 * time.Second) // places move to where they are needed, and what is said by turns is said
	number := func(query string) float64 {
		n, err := strconv.ParseFloat(text(t, dsn, query), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	transactions := func() float64 {
		return number("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
	}
	written := func() float64 { return number("SELECT pg_current_wal_lsn() - '0/0'") }
	measure := func() (statements, changes, exchanges, failures int64, cpu time.Duration) {
		return counted.statements.Load(), counted.changes.Load(), f.exchanges.Load(), f.failures.Load(), cpuOf(t, own)
	}
	f.moved()
	t0, wal := transactions(), written()
	s0, w0, e0, x0, c0 := measure()
	start := time.Now()
	time.Sleep(*budget)
	s1, w1, e1, x1, c1 := measure()
	took := time.Since(start).Seconds()
	t1 := transactions()
	t.Logf("a second: %.0f KiB of the write-ahead log; %.0f connections, with %.0f MiB of PostgreSQL's memory", (written()-wal)/took/1024,
		number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"), memoryOf(t, own)/(1<<20))
	moved := f.moved()
	t.Logf("%d clients waited for a place to move: median %v, p99 %v, longest %v", len(moved), quantile(moved, 0.5), quantile(moved, 0.99), quantile(moved, 1))
	t.Logf("%d proxies, %d servers, %.0f changes/s: %.0f exchanges/s, %.0f statements/s, %.1f writes/s, %d failures; with reading the configuration, "+
		"%.0f transactions/s and %.1f %% of a processor",
		*budgetProxies, *budgetServers, *budgetChanges, float64(e1-e0)/took, float64(s1-s0)/took, float64(w1-w0)/took, x1-x0, (t1-t0)/took, 100*(c1-c0).Seconds()/took)
	f.errors.Range(func(text, _ any) bool {
		t.Logf("a failure: %s", text)
		return true
	})
	if *budgetPlan {
		explainBeat(t, dsn)
	}
	if *budgetRestart {
		f.restart(t, own)
	}
	cancel()
	all.Wait()
}

// restart lets the server crash, starts it again, and measures how soon the ledger grants again.
func (f *fleetLoad) restart(t *testing.T, s *pgtest.Server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.await(func() bool { return f.without() == *budgetProxies })
	noticed := time.Since(began)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	f.moved()
	exchanges, failures := f.exchanges.Load(), f.failures.Load()
	f.await(func() bool { return f.without() < *budgetProxies })
	first := time.Since(began)
	f.await(func() bool { return f.without() == 0 })
	last, cpu := time.Since(began), cpuOf(t, s)
	moved := f.moved()
	t.Logf("after a crash, all proxies had noticed after %.1f s; after the restart, the first had grants after %.1f s, the last after %.1f s, after %d exchanges, of which %d failed, and %.1f s of a processor; "+
		"clients waited: longest %v", noticed.Seconds(), first.Seconds(), last.Seconds(), f.exchanges.Load()-exchanges, f.failures.Load()-failures, cpu.Seconds(), quantile(moved, 1))
}

// without counts proxies without a ledger that grants.
func (f *fleetLoad) without() (n int) {
	f.agents.Range(func(a, _ any) bool {
		if s := a.(*agent.Agent).Status(); s.Mode != agent.Shared || s.Frozen || s.Problem != "" {
			n++
		}
		return true
	})
	return n
}

// await waits until the condition holds, for two minutes at most.
func (f *fleetLoad) await(condition func() bool) {
	for began := time.Now(); !condition() && time.Since(began) < 2*time.Minute; {
		time.Sleep(100 * time.Millisecond)
	}
}

// moved returns how long clients have waited for places since the last call, sorted.
func (f *fleetLoad) moved() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.waits
	f.waits = nil
	slices.Sort(all)
	return all
}

func quantile(all []time.Duration, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[int(part*float64(len(all)-1))].Round(time.Millisecond)
}

// Each proxy has on average meanSessions at each server, of which each has placesEach places for each proxy. Their number follows a binomial
// distribution: at any time, one in twenty needs more than its equal part of the places without the reserve.
const (
	meanSessions = 5
	placesEach   = 8
)

// fleetLoad plays proxies whose sessions come and go.
type fleetLoad struct {
	exchanges, failures, joined atomic.Int64
	errors, agents              sync.Map

	mu    sync.Mutex
	waits []time.Duration // guarded by mu: of clients for a place of another proxy
}

// proxy plays one until ctx ends.
func (f *fleetLoad) proxy(ctx context.Context, s *Store, n int) {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	pools := &loadPools{load: f, sessions: make([]int, *budgetServers), since: make([]time.Time, *budgetServers)}
	for i := range pools.sessions { // its clients come at once
		pools.sessions[i] = meanSessions - 1 + random.IntN(3)
	}
	a := agent.Start(agent.Options{
		Open:   func() (fleet.Store, error) { return &countedStore{Store: s, load: f, n: n}, nil },
		Holder: fleet.HolderOptions{ID: fleet.ID(fmt.Sprintf("%016x", random.Uint64()))}, Pools: pools, Log: slog.New(slog.DiscardHandler),
		About: func() fleet.Member {
			return fleet.Member{Name: "proxy-" + strconv.Itoa(n), Version: "1.0.0", Schema: 10, Address: "http://10.0.0.1:8081", State: fleet.Serving, Sessions: n}
		},
	})
	defer func() {
		leaving, cancel := context.WithCancel(context.Background())
		cancel() // it need not give anything back
		a.Leave(leaving)
	}()
	a.Sync(ctx)
	for joined := false; !joined && ctx.Err() == nil; a.Sync(ctx) {
		mode := a.Status().Mode
		joined = mode == agent.Alone || mode == agent.Shared
	}
	f.joined.Add(1)
	f.agents.Store(a, nil)
	each := *budgetChanges / float64(*budgetProxies) / 10 // changes in a tenth of a second
	for range tasks.Every(ctx, 100*time.Millisecond) {
		for k := each; k > 0; k-- {
			if random.Float64() < k && pools.change(random) {
				a.Poke()
			}
		}
	}
}

// loadPools play the pools of one proxy.
type loadPools struct {
	load     *fleetLoad
	mu       sync.Mutex
	sessions []int          // guarded by mu: by server, with clients that wait
	since    []time.Time    // guarded by mu: by server, since when clients wait
	limits   map[string]int // guarded by mu
}

func loadServer(i int) string { return fmt.Sprintf("ws://gpu-%d:2700", i) }

// change lets a session begin or end, and reports whether a client waits.
func (p *loadPools) change(random *rand.Rand) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := random.IntN(len(p.sessions))
	if random.IntN(2*meanSessions) < p.sessions[i] {
		p.sessions[i]--
	} else {
		p.sessions[i]++
	}
	p.wait(i)
	return p.sessions[i] > p.limits[loadServer(i)]
}

// wait notes when the clients of a server begin to wait, and, when a grant has ended it, for how long they did.
func (p *loadPools) wait(i int) {
	switch waits := p.sessions[i] > p.limits[loadServer(i)]; {
	case waits && p.since[i].IsZero():
		p.since[i] = time.Now()
	case !waits && !p.since[i].IsZero():
		p.load.mu.Lock()
		p.load.waits = append(p.load.waits, time.Since(p.since[i]))
		p.load.mu.Unlock()
		p.since[i] = time.Time{}
	}
}

func (p *loadPools) Usage() map[string]fleet.Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	usage := make(map[string]fleet.Usage, len(p.sessions))
	for i, n := range p.sessions {
		server := loadServer(i)
		limit, all := p.limits[server], placesEach**budgetProxies
		wants := min(n+*budgetWarm, all)
		usage[server] = fleet.Usage{Cap: all, Used: min(wants, limit), Needs: n, Waiting: max(0, n-limit), Wants: wants}
	}
	return usage
}

func (p *loadPools) SetGrants(limits map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limits
	for i := range p.sessions {
		p.wait(i)
	}
}

// countedStore counts the exchanges of a store.
type countedStore struct {
	*Store
	load *fleetLoad
	n    int
}

func (s *countedStore) Exchange(ctx context.Context, r *fleet.Report) (*fleet.Answer, error) {
	a, err := s.Store.Exchange(ctx, r)
	s.load.exchanges.Add(1)
	if err != nil {
		s.load.failures.Add(1)
		text := err.Error()
		s.load.errors.Store(text[:min(len(text), 160)], s.n)
	}
	return a, err
}

// cpuOf returns the processor time that a server's processes have used, those that have ended included.
func cpuOf(t *testing.T, s *pgtest.Server) time.Duration {
	ticks := 0
	eachProcess(t, s, func(_ string, fields []string, postmaster bool) {
		for i := 11; i < 15 && (postmaster || i < 13); i++ { // utime, stime, and of the postmaster those of its ended children
			n, _ := strconv.Atoi(fields[i])
			ticks += n
		}
	})
	return time.Duration(ticks) * time.Second / 100
}

// memoryOf returns the memory that a server's processes have, in bytes, what they share once.
func memoryOf(t *testing.T, s *pgtest.Server) (sum float64) {
	eachProcess(t, s, func(directory string, _ []string, _ bool) {
		text, err := os.ReadFile(filepath.Join(directory, "smaps_rollup"))
		if err != nil {
			return // it has ended
		}
		_, text, _ = bytes.Cut(text, []byte("\nPss:"))
		kilobytes, _ := strconv.ParseFloat(string(bytes.Fields(text)[0]), 64)
		sum += kilobytes * 1024
	})
	return sum
}

// eachProcess calls do for each process of a server, with its directory in /proc and its fields of /proc/PID/stat from the third of proc(5) on.
func eachProcess(t *testing.T, s *pgtest.Server, do func(directory string, fields []string, postmaster bool)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Directory, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	postmaster, _, _ := strings.Cut(string(text), "\n")
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
		directory := filepath.Dir(file)
		if own := filepath.Base(directory) == postmaster; own || fields[1] == postmaster {
			do(directory, fields, own)
		}
	}
}

func explainBeat(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var tag string
	if err := conn.QueryRow(t.Context(), "SELECT members_tag FROM wsbouncer.fleet").Scan(&tag); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) "+readStatement, pgx.QueryExecModeExec, false, "x", int64(0), 0, "", tag, int64(1<<40), []string{})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + strings.Join(lines, "\n"))
}
