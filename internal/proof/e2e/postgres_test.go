//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// TestPostgresFailures has a server of its own, which it kills.
func TestPostgresFailures(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	failures(t, server, postgresDatabase(t, server, "failures"))
}

// TestPostgres is the other tests with a PostgreSQL server, which share one.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	t.Run("live", func(t *testing.T) { live(t, postgresDatabase(t, server, "live")) })
	t.Run("two proxies", func(t *testing.T) { twoProxies(t, postgresDatabase(t, server, "two")) })
	t.Run("concurrent writers", func(t *testing.T) { concurrentWriters(t, postgresDatabase(t, server, "writers")) })
	t.Run("bad rows", func(t *testing.T) { badRows(t, postgresDatabase(t, server, "bad")) })
	t.Run("bad password", func(t *testing.T) { badPassword(t, server, postgresDatabase(t, server, "password")) })
	t.Run("views without it", func(t *testing.T) { viewsWithoutPostgres(t, server, postgresDatabase(t, server, "views")) })
}

func TestConcurrentWritersSQLite(t *testing.T) {
	t.Parallel()
	concurrentWriters(t, sqliteDatabase(t))
}

// addEcho adds a service, and one backend of it.
func (d *database) addEcho(url string, connections int) {
	d.t.Helper()
	d.command("service", "add", "echo", "--path", "/echo", "--profile", "echo", "--slow-start", "0s")
	d.command("backend", "add", "gpu", url, "--service", "echo", "--connections", strconv.Itoa(connections))
}

// twoProxies has each of two proxies see what is changed through the other.
func twoProxies(t *testing.T, d *database) {
	d.addEcho(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL, 1)
	proxies := [2]*proxy{d.serve(), d.serve()}
	for _, p := range proxies {
		wstest.Eventually(t, "the proxy has it in force", func() bool { return p.backend("gpu").Cap == 1 })
	}
	var took []time.Duration
	for n := 2; n <= 11; n++ {
		mustRun(t, "backend", "set", "gpu", "--connections", strconv.Itoa(n), "--admin", proxies[n%2].socket())
		begun := time.Now()
		wstest.Eventually(t, "the other proxy has it in force", func() bool { return proxies[1-n%2].backend("gpu").Cap == n })
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("after a command was done, its change was in force in the other proxy within %v (median), %v (most)", took[len(took)/2], took[len(took)-1])
	// The cap is shared: both have all its places together but the one in reserve, and never more than there are.
	wstest.Eventually(t, "both have 10 connections together, of 11", func() bool {
		n := 0
		for _, p := range proxies {
			b := p.backend("gpu")
			n += b.Idle + b.Leased
		}
		if n > 11 {
			t.Errorf("they have %d connections together, of 11", n)
		}
		return n >= 10
	})
}

// concurrentWriters has many commands count in one field at the same time. None is lost.
func concurrentWriters(t *testing.T, d *database) {
	const writers = 8
	d.addEcho("ws://127.0.0.1:9", 1)
	var tasks sync.WaitGroup
	var conflicts atomic.Int64
	for i := range writers {
		tasks.Go(func() {
			for deadline := wstest.Deadline(); time.Now().Before(deadline); {
				var seen struct {
					Version  string
					Backends []struct{ Connections int }
				}
				shown := runCommand(t, "config", "show", "--output", "json", "--database", d.name)
				if err := json.Unmarshal([]byte(shown.stdout), &seen); err != nil || len(seen.Backends) != 1 || seen.Version == "" {
					t.Errorf("writer %d: %v\n%s%s", i, err, shown.stdout, shown.stderr)
					return
				}
				r := runCommand(t, "backend", "set", "gpu", "--connections", strconv.Itoa(seen.Backends[0].Connections+1),
					"--expect", seen.Version, "--who", fmt.Sprint("writer ", i), "--database", d.name)
				switch {
				case r.status == 0:
					return
				case strings.Contains(r.stderr, "the configuration was changed meanwhile"):
					conflicts.Add(1)
				case strings.Contains(r.stderr, " locked for "): // try again, as mustRun does
				default:
					t.Errorf("writer %d: status %d\n%s", i, r.status, r.stderr)
					return
				}
			}
			t.Errorf("writer %d never succeeded", i)
		})
	}
	tasks.Wait()
	t.Logf("%d writers, %d conflicts", writers, conflicts.Load())
	if out := d.command("backend", "show", "gpu").stdout; !strings.Contains(out, strconv.Itoa(1+writers)) {
		t.Errorf("after %d writers have added one each to 1:\n%s", writers, out)
	}
	history := d.command("config", "history").stdout
	for i := range writers {
		if strings.Count(history, fmt.Sprint("writer ", i)) != 1 {
			t.Errorf("writer %d is not in the history once:\n%s", i, history)
		}
	}
}

// failures has PostgreSQL fail in every way while clients talk. They notice nothing.
func failures(t *testing.T, server *pgtest.Server, d *database) {
	at := func() string { return fmt.Sprintf("127.0.0.1:%d", server.Port) }
	way, err := kit.NewForwarder(at())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	d.name = fmt.Sprintf("postgres://%s:%s@%s/failures?sslmode=disable", pgtest.User, pgtest.Password, way.Address())
	echo := wstest.StartLibraryServer(t, wstest.LibraryEcho)
	d.addEcho(echo.URL, 40)
	state := t.TempDir()
	p := d.serve("--state-directory", state)
	p.awaitCap("gpu", 40)
	crowd := gather(t, p, "/echo", 20, 2)

	// check checks what must hold whatever becomes of the database: clients are served, and monitoring says so.
	check := func(p *proxy, state string) {
		t.Helper()
		c := dialFree(t, p.url("/echo"))
		c.echo(state)
		c.close(1000, "")
		if status, body := p.get("/readyz"); status != http.StatusOK {
			t.Errorf("/readyz: %d %s", status, body)
		}
		_, metrics := p.get("/metrics")
		if line := fmt.Sprintf("wsbouncer_config_state{state=%q} 1", state); !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
	resize := func(how string, n int) {
		t.Helper()
		begun := time.Now()
		d.sql("UPDATE {backends} SET connections = %d", n)
		p.awaitCap("gpu", n)
		t.Logf("%s: a change was in force after %v", how, time.Since(begun).Round(time.Millisecond))
		check(p, "current")
	}
	resize("as it should be", 41)

	began := time.Now()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	s := p.awaitState("stale")
	if since := s.Configuration.Since; since.Before(began) || since.After(time.Now()) || s.Configuration.Failures == 0 || s.Configuration.Version == "" {
		t.Errorf("killed at %v: %+v", began, s.Configuration)
	}
	t.Logf("killed: %s", s.Configuration.Reason)
	check(p, "stale")
	restartPostgres(t, server)
	p.awaitState("current")
	resize("restarted", 42)

	_ = server.Stop()
	server.Port = port(t, wstest.FreeAddress(t))
	restartPostgres(t, server)
	way.Lead(at())
	resize("failed over to another port", 43)

	way.Slow(100 * time.Millisecond) // an exchange with the ledger may take 1.5 s, which 200 ms leave no busy machine
	resize("100 ms each way", 44)
	way.Slow(0)

	d.sql("ALTER SYSTEM SET default_transaction_read_only = on")
	d.sql("SELECT pg_reload_conf()")
	wstest.Eventually(t, "commands are told that it can only be read", func() bool {
		r := runCommand(t, "backend", "set", "gpu", "--connections", "45", "--admin", p.socket())
		return r.status == 1 && strings.Contains(r.stderr, "is read-only")
	})
	check(p, "current")
	d.sql("ALTER SYSTEM RESET default_transaction_read_only")
	d.sql("SELECT pg_reload_conf()")
	wstest.Eventually(t, "it can be written again", func() bool { return d.trySQL("UPDATE {backends} SET weight = 2") == nil })
	resize("written to again", 46)
	t.Log(crowd.leave())

	// A start without the database: by the copy, if it is of this database.
	p.stop()
	_ = server.Stop()
	p = d.serve("--state-directory", state)
	s = p.awaitState("copied")
	p.awaitCap("gpu", 46)
	check(p, "copied")
	copied := p.awaitLog("cannot read the configuration, serving with its last good copy")
	if !strings.Contains(copied.text("reason"), way.Address()) || copied.text("version") != s.Configuration.Version {
		t.Errorf("logged %v; the statistics have %+v", copied, s.Configuration)
	}
	without := runCommand(t, "serve", "--listen", "127.0.0.1:0", "--database", d.name, "--state-directory", t.TempDir())
	if without.status != 1 || !strings.Contains(without.stderr, "no copy to start with") || strings.Contains(without.stderr, pgtest.Password) {
		t.Errorf("without a copy: status %d\n%s", without.status, without.stderr)
	}
	restartPostgres(t, server)
	p.awaitState("current")
	resize("back after a start without it", 47)
	if log := strings.Join(p.stderr.Lines(), "\n"); strings.Contains(log, pgtest.Password) {
		t.Errorf("the log has the password:\n%s", log)
	}
	p.signal(syscall.SIGTERM)
	p.wait(0)
}

// port returns the port of an address.
func port(t testing.TB, address string) int {
	t.Helper()
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
