//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// The size of the test: the number of clients, and of changes while they talk.
const (
	liveClients = 400
	liveVisits  = 20
	liveChanges = 80
	liveServers = 6
)

// TestLiveSQLite changes the configuration of a proxy in every way while 1,000 sessions run.
func TestLiveSQLite(t *testing.T) {
	t.Parallel()
	live(t, sqliteDatabase(t))
}

// liveBackend is what the configuration says of one of the servers.
type liveBackend struct {
	cap   int
	state string
}

// liveScript changes backends at random, and knows what the configuration is to say.
type liveScript struct {
	*database
	proxy   *proxy
	servers map[string]*cappedServer
	want    map[string]liveBackend
	random  *rand.Rand
	ways    map[string]int
}

func live(t *testing.T, d *database) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &liveScript{
		database: d, servers: make(map[string]*cappedServer), want: make(map[string]liveBackend), ways: make(map[string]int),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	d.command("service", "add", "live", "--path", "/live", "--profile", "echo", "--queue-timeout", "2s", "--close-timeout", "1m",
		"--connection-max-idle", "0s", "--slow-start", "0s", "--ping-interval", "0s")
	for i := range liveServers {
		name := fmt.Sprintf("gpu-%d", i)
		s.servers[name] = startCapped(t)
		s.add(name, 250)
	}
	s.proxy = d.serve()
	s.proxy.awaitReady()
	before := s.proxy.descriptors()
	crowd := gather(t, s.proxy, "/live", liveClients, liveVisits)
	begun := time.Now()
	for range liveChanges {
		s.change()
		s.observe()
		if t.Failed() {
			break
		}
	}
	took := time.Since(begun)
	s.awaitWanted()
	t.Logf("%d changes in %v: %v; %s", liveChanges, took.Round(time.Millisecond), s.ways, crowd.leave())
	s.finish(before)
}

// add adds a backend by the way that is at hand before there is a proxy.
func (s *liveScript) add(name string, cap int) {
	s.servers[name].set(cap)
	s.sql("INSERT INTO {backends} (name, service, url, connections, warm) VALUES ('%s', 'live', '%s', %d, %d)",
		name, s.servers[name].URL, cap, min(cap, 10))
	s.want[name] = liveBackend{cap, "enabled"}
}

// change makes one change, in one of three ways.
func (s *liveScript) change() {
	names := slices.Sorted(maps.Keys(s.servers))
	name := names[s.random.IntN(len(names))]
	server, next := s.servers[name], s.want[name]
	cap := 60 + s.random.IntN(240)
	if next.state == "" {
		next = liveBackend{cap, "enabled"}
		server.set(cap)
		s.write([]string{
			"backend", "add", name, server.URL, "--service", "live", "--connections", strconv.Itoa(cap), "--warm", "10",
		}, "INSERT INTO {backends} (name, service, url, connections, warm) VALUES ('%s', 'live', '%s', %d, 10)", name, server.URL, cap)
		s.want[name] = next
		return
	}
	state := func(command, state string) {
		next.state = state
		s.write([]string{"backend", command, name}, "UPDATE {backends} SET state = '%s' WHERE name = '%s'", state, name)
	}
	switch s.random.IntN(10) {
	case 0:
		server.set(0)
		s.write([]string{"backend", "rm", name, "--yes"}, "DELETE FROM {backends} WHERE name = '%s'", name)
		delete(s.want, name)
		return
	case 1:
		state("drain", "draining")
	case 2:
		state("disable", "disabled")
	case 3, 4, 5:
		state("enable", "enabled")
	default:
		next.cap = cap
		server.set(cap)
		s.write([]string{"backend", "set", name, "--connections", strconv.Itoa(cap)},
			"UPDATE {backends} SET connections = %d WHERE name = '%s'", cap, name)
	}
	s.want[name] = next
}

// write makes a change by a command to the proxy, a command straight to the database, or a statement.
func (s *liveScript) write(command []string, statement string, args ...any) {
	s.t.Helper()
	way := []string{"commands to the proxy", "commands to the database", "SQL", "SQL"}[s.random.IntN(4)]
	s.ways[way]++
	switch way {
	case "commands to the proxy":
		mustRun(s.t, append(command, "--admin", s.proxy.socket())...)
	case "commands to the database":
		s.command(command...)
	default:
		s.sql(statement, args...)
	}
}

// observe tells the servers what the proxy has at present.
func (s *liveScript) observe() {
	now := s.proxy.stats()
	leaving := make(map[string]bool)
	for _, l := range now.Leaving {
		leaving[l.URL] = true
	}
	for _, b := range now.Backends {
		if server := s.servers[b.Name]; server != nil && !leaving[b.URL] {
			server.observe(b)
		}
	}
}

// runs reports whether the proxy has what the configuration says.
func (s *liveScript) runs(now stats) bool {
	ran := make(map[string]liveBackend)
	for _, b := range now.Backends {
		if b.URL == s.servers[b.Name].URL {
			ran[b.Name] = liveBackend{b.Cap, b.State}
		}
	}
	return maps.Equal(ran, s.want)
}

// awaitWanted waits until all changes are in force.
func (s *liveScript) awaitWanted() {
	s.t.Helper()
	wstest.Eventually(s.t, "what runs is what the configuration says", func() bool { return s.runs(s.proxy.stats()) })
	s.observe()
	exported := s.command("backend", "ls").stdout
	for name, b := range s.want {
		if !strings.Contains(exported, name) || !strings.Contains(exported, strconv.Itoa(b.cap)) {
			s.t.Errorf("the configuration has no %s with %d connections:\n%s", name, b.cap, exported)
		}
	}
}

// finish checks what is left when all clients have left: full pools, balanced books, no descriptors but those of idle connections.
func (s *liveScript) finish(before int) {
	s.t.Helper()
	var now stats
	defer func() {
		if s.t.Failed() {
			s.t.Logf("statistics: %+v", now)
		}
	}()
	wstest.Eventually(s.t, "all sessions are over, and the pools are full", func() bool {
		now = s.proxy.stats()
		over := now.Sessions.Active == 0 && len(now.Leaving) == 0
		for _, b := range now.Backends {
			over = over && b.full() && (b.State != "disabled" || b.Idle == 0)
		}
		return over
	})
	s.proxy.checkPools(now)
	idle := 0
	for _, b := range now.Backends {
		server := s.servers[b.Name]
		if open := server.Counts().Open; open != b.Idle {
			s.t.Errorf("%s has %d connections; the proxy has %d idle", b.Name, open, b.Idle)
		}
		idle += b.Idle
	}
	const few = 20 // the database's, and the connections that statistics are asked for over
	if got, most := s.proxy.descriptors(), before-10*liveServers+idle+few; got > most {
		s.t.Errorf("the proxy has %d descriptors; want at most %d, with %d idle connections", got, most, idle)
	}
	for code, n := range now.Sessions.Ended {
		if code != "1000" {
			s.t.Errorf("%d sessions ended with %s", n, code)
		}
	}
}

// socket returns the address of the admin API on the proxy's unix socket.
func (p *proxy) socket() string {
	p.t.Helper()
	found := ""
	wstest.Eventually(p.t, "the proxy has an admin socket", func() bool {
		for _, r := range p.logged("admin API") {
			if at := r.text("address"); strings.HasPrefix(at, "unix:") {
				found = at
			}
		}
		return found != ""
	})
	return found
}

// descriptors returns how many the process has open.
func (c *child) descriptors() int {
	c.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.PID()))
	if err != nil {
		c.t.Skip("this system does not tell descriptors: ", err)
	}
	return len(entries)
}
