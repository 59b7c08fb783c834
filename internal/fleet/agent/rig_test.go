package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest/memory"
)

// pools play the pools of a proxy: they dial at once what clients need and the grants allow.
type pools struct {
	mu     sync.Mutex
	caps   map[string]int // guarded by mu
	grants map[string]int // guarded by mu; nil for the whole caps
	used   map[string]int // guarded by mu
	needs  map[string]int // guarded by mu
	told   int            // guarded by mu: how often they were told grants
	poke   func()
	takes  atomic.Int64 // how long it takes to read their usage
}

func (p *pools) Usage() map[string]fleet.Usage {
	time.Sleep(time.Duration(p.takes.Load()))
	p.mu.Lock()
	defer p.mu.Unlock()
	usage := make(map[string]fleet.Usage)
	for server, n := range p.caps {
		usage[server] = fleet.Usage{Cap: n, Used: p.used[server], Needs: p.needs[server], Wants: p.needs[server], Waiting: max(p.needs[server]-p.used[server], 0)}
	}
	return usage
}

func (p *pools) SetGrants(grants map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants = maps.Clone(grants)
	p.told++
	for server := range p.caps {
		p.serve(server)
	}
}

// serve opens and closes connections as needed and allowed. The caller holds the lock.
func (p *pools) serve(server string) {
	limit := p.caps[server]
	if p.grants != nil {
		limit = min(limit, p.grants[server])
	}
	p.used[server] = min(max(p.needs[server], 0), limit)
}

// need says how many connections clients need.
func (p *pools) need(server string, n int) {
	p.mu.Lock()
	p.needs[server] = n
	p.serve(server)
	p.mu.Unlock()
	p.poke()
}

func (p *pools) setCap(server string, n int) {
	p.mu.Lock()
	p.caps[server] = n
	p.mu.Unlock()
	p.poke()
}

func (p *pools) uses(server string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[server]
}

func (p *pools) tellings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// presence knows which proxies are dead.
type presence struct {
	mu   sync.Mutex
	dead map[fleet.ID]bool
	with atomic.Bool  // another process has the same state directory
	held atomic.Value // the ID of the process whose end may not be proven; empty for none
}

func (p *presence) Alone() bool { return !p.with.Load() }

// remembered is what a proxy remembers.
type remembered struct {
	alone atomic.Bool
	notes atomic.Int64
}

func (m *remembered) Alone() bool { return m.alone.Load() }

func (m *remembered) Note(alone bool) {
	m.alone.Store(alone)
	m.notes.Add(1)
}

func (p *presence) Dead(_ context.Context, m fleet.Member, suspected bool) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "a test says so", suspected && p.dead[m.ID]
}

func (p *presence) set(id fleet.ID, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead[id] = dead
}

// Hold keeps a process that has died from being proven dead.
func (p *presence) Hold(id fleet.ID) (release func(), err error) {
	p.held.Store(string(id))
	return func() { p.held.Store("") }, nil
}

func (p *presence) Meet(context.Context, fleet.Member) {}
func (p *presence) Tidy([]fleet.Member)                {}

// store is a store that one proxy may not reach.
type store struct {
	*memory.Store
	cut *atomic.Bool
}

func (s *store) Exchange(ctx context.Context, r *fleet.Report) (*fleet.Answer, error) {
	if s.cut.Load() {
		return nil, fleet.ErrUnreachable
	}
	return s.Store.Exchange(ctx, r)
}

// proxy is an agent with what surrounds it.
type proxy struct {
	*Agent
	pools    *pools
	presence *presence
	log      *lines
	cut      atomic.Bool // the proxy does not reach the database
	state    sync.Map    // "state"
	ended    bool        // it was killed, or has left
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when the clock of synctest begins

// start starts a proxy on a database; change may change its options.
func start(t *testing.T, db *memory.Database, name string, change func(*Options)) *proxy {
	t.Helper()
	p := &proxy{
		pools:    &pools{caps: map[string]int{"gpu": 10}, used: make(map[string]int), needs: make(map[string]int), grants: make(map[string]int)},
		presence: &presence{dead: make(map[fleet.ID]bool)}, log: new(lines),
	}
	p.state.Store("state", fleet.Serving)
	o := Options{
		Open: func() (fleet.Store, error) {
			return &store{Store: db.Store(), cut: &p.cut}, nil
		},
		Ledger: "memory", Holder: fleet.HolderOptions{ID: fleet.ID(fmt.Sprintf("%-16s", name)), Share: 1}, Pools: p.pools, Presence: p.presence,
		About: func() fleet.Member {
			state, _ := p.state.Load("state")
			return fleet.Member{Name: name, Version: "1.0", Schema: 10, State: state.(fleet.State), Started: began}
		},
		Now: func() fleet.Instant { return fleet.Instant(time.Since(began)) },
		Log: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	p.Agent = Start(o)
	p.pools.poke = p.Poke
	p.pools.poke()
	return p
}

// kill ends an agent as if its process were killed: nothing is given back.
func (p *proxy) kill() {
	p.end()
	<-p.done
}

func (p *proxy) leaves() (left bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return p.Leave(ctx)
}

// wait lets time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
