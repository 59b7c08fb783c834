//go:build linux

package scenes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// scene is one kind of trouble.
type scene struct {
	name    string
	trouble string // in a few words, for the table
	// kind must be named, and with are those that may be named besides it; nothing else may.
	kind diagnosis.Kind
	with []diagnosis.Kind
	// lasts is how long it runs without trouble, if that is longer than [Options.Healthy].
	lasts time.Duration
	// spared: the clients that come before the trouble notice nothing. None of their sessions may fail.
	spared bool
	// set makes the servers, starts the proxy and the clients. begin makes the trouble, and end ends it; without end it cannot be ended, and without
	// begin there is none.
	set, begin, end func(ctx context.Context, t *stage) error
}

// usual is what most scenes need: servers with room for all clients.
func usual(servers int) func(ctx context.Context, t *stage) error {
	return func(ctx context.Context, t *stage) error {
		t.cap = 24
		if err := t.addServers(servers, sim.Vosk); err != nil {
			return err
		}
		if err := t.serve(ctx); err != nil {
			return err
		}
		return t.speak(6*servers, "")
	}
}

// of makes a step of something that cannot fail.
func of(do func(t *stage)) func(ctx context.Context, t *stage) error {
	return func(_ context.Context, t *stage) error {
		do(t)
		return nil
	}
}

// slower delays what a server sends and gets, so that its replies come a multiple of the usual time later.
func slower(factor int) func(ctx context.Context, t *stage) error {
	return of(func(t *stage) { t.servers[0].way.Slow(time.Duration(factor-1) * latency / 2) })
}

var atFullSpeed = of(func(t *stage) { t.servers[0].way.Slow(0) })

// kill and revive do so with the first servers.
func kill(n int) func(ctx context.Context, t *stage) error {
	return of(func(t *stage) {
		for _, s := range t.servers[:n] {
			s.Kill()
		}
	})
}

func revive(n int) func(ctx context.Context, t *stage) error {
	return func(_ context.Context, t *stage) error {
		for _, s := range t.servers[:n] {
			if err := s.Revive(); err != nil {
				return err
			}
		}
		return nil
	}
}

// table has all scenes.
var table = []scene{
	{
		name: "healthy", trouble: "none: clients come and go, and a crowd of them every 15 s", lasts: 2 * spikeInterval, spared: true,
		set: func(ctx context.Context, t *stage) error {
			if err := usual(3)(ctx, t); err != nil {
				return err
			}
			return t.spikes(50)
		},
	},
	{
		name: "hung", trouble: "a server hangs: it answers pings and nothing else", kind: diagnosis.BackendHung, set: usual(3),
		begin: of(func(t *stage) { t.servers[0].Stall() }), end: of(func(t *stage) { t.servers[0].Resume() }),
	},
	{name: "slow-3", trouble: "a server is 3 times slower than its peers", kind: diagnosis.BackendSlow, set: usual(3), begin: slower(3), end: atFullSpeed},
	{name: "slow-15", trouble: "a server is 15 times slower than its peers", kind: diagnosis.BackendSlow, set: usual(3), begin: slower(15), end: atFullSpeed},
	{
		name: "flapping", trouble: "a server dies and comes back again and again", kind: diagnosis.BackendFlapping,
		with: []diagnosis.Kind{diagnosis.BackendUnreachable, diagnosis.BackendFailing, diagnosis.SessionsFailing, diagnosis.BackendEjected}, set: usual(3),
		begin: func(ctx context.Context, t *stage) error {
			for range 3 {
				t.servers[0].Kill()
				if err := t.sees(ctx, t.servers[0], false); err != nil {
					return err
				}
				if err := t.servers[0].Revive(); err != nil {
					return err
				}
				if err := t.sees(ctx, t.servers[0], true); err != nil {
					return err
				}
			}
			return nil
		},
		end: of(func(*stage) {}), // it lives
	},
	{
		name: "full", trouble: "more clients than places: some wait", kind: diagnosis.ServiceWaiting, with: []diagnosis.Kind{diagnosis.ServiceNearlyFull, diagnosis.BackendFull},
		set: func(ctx context.Context, t *stage) error {
			t.cap = 4
			if err := t.addServers(2, sim.Vosk); err != nil {
				return err
			}
			if err := t.serve(ctx); err != nil {
				return err
			}
			return t.speak(4, "")
		},
		begin: func(_ context.Context, t *stage) error { return t.speak(16, "") }, end: of((*stage).quiet),
	},
	{
		name: "wrong-key", trouble: "a server refuses the proxy's key", kind: diagnosis.BackendRefusing, with: []diagnosis.Kind{diagnosis.SessionsFailing}, set: usual(3),
		begin: of(func(t *stage) {
			t.servers[0].deny.Store(true)
			t.servers[0].way.Lead(t.servers[0].Addr().String()) // its connections are lost
		}),
		end: of(func(t *stage) { t.servers[0].deny.Store(false) }),
	},
	{
		name: "wrong-profile", trouble: "a server speaks another protocol than its profile", kind: diagnosis.BackendWrongProtocol,
		with: []diagnosis.Kind{diagnosis.SessionsFailing, diagnosis.BackendEjected},
		set: func(ctx context.Context, t *stage) (err error) {
			if t.stranger, err = sim.Start(sim.Options{Protocol: sim.AssemblyAI}); err != nil {
				return err
			}
			t.closers = append(t.closers, t.stranger.Close)
			return usual(3)(ctx, t)
		},
		begin: of(func(t *stage) { t.servers[0].way.Lead(t.stranger.Addr().String()) }),
		end:   of(func(t *stage) { t.servers[0].way.Lead(t.servers[0].Addr().String()) }),
	},
	{
		name: "half-dead", trouble: "half of a service's servers die", kind: diagnosis.ServiceDegraded, with: []diagnosis.Kind{diagnosis.SessionsFailing}, set: usual(4),
		begin: kill(2), end: revive(2),
	},
	{
		name: "all-dead", trouble: "all servers of a service die", kind: diagnosis.ServiceDown,
		with: []diagnosis.Kind{diagnosis.Refusals, diagnosis.SessionsFailing}, set: usual(2), begin: kill(2), end: revive(2),
	},
	{
		name: "database-away", trouble: "the database is away", kind: diagnosis.ConfigurationStale, with: []diagnosis.Kind{diagnosis.FleetUnreachable},
		set: onPostgres, begin: func(_ context.Context, t *stage) error { return t.database.Kill() },
		end: func(ctx context.Context, t *stage) error { return t.database.Start(ctx) },
	},
	{
		name: "cut-off", trouble: "the proxy is cut off from the database, without an error", kind: diagnosis.FleetUnreachable,
		with: []diagnosis.Kind{diagnosis.ConfigurationStale}, set: onPostgres,
		begin: of(func(t *stage) { t.way.Become(kit.Hanging) }), end: of(func(t *stage) { t.way.Become(kit.Open) }),
	},
	{
		name: "disk-full", trouble: "the disk of the state directory is full", kind: diagnosis.DiskFull,
		with: []diagnosis.Kind{diagnosis.DiskLow, diagnosis.ConfigurationUnsaved, diagnosis.ConfigurationStale, diagnosis.FleetUnreachable},
		set: func(ctx context.Context, t *stage) error {
			t.state = filepath.Join(t.directory, "disk")
			if err := os.Mkdir(t.state, 0o700); err != nil {
				return err
			}
			if err := unix.Mount("tmpfs", t.state, "tmpfs", 0, "size=8m"); err != nil {
				return fmt.Errorf("%w: a small file system cannot be mounted: %w", errSkipped, err)
			}
			t.closers = append(t.closers, func() { _ = unix.Unmount(t.state, unix.MNT_DETACH) })
			return usual(2)(ctx, t)
		},
		begin: func(_ context.Context, t *stage) error { return fill(filepath.Join(t.state, "recordings")) },
		end:   func(_ context.Context, t *stage) error { return os.Remove(filepath.Join(t.state, "recordings")) },
	},
	{
		name: "certificate-expired", trouble: "the certificate for clients expires", kind: diagnosis.CertificateExpired, with: []diagnosis.Kind{diagnosis.CertificateExpiring},
		set: func(ctx context.Context, t *stage) error {
			if err := t.certify(100 * 24 * time.Hour); err != nil {
				return err
			}
			address, err := freeport.Address()
			if err != nil {
				return err
			}
			t.arguments = []string{"--tls-listen", address, "--tls-cert", t.certificate.File(), "--tls-key", t.certificate.KeyFile()}
			return usual(2)(ctx, t)
		},
		begin: func(_ context.Context, t *stage) error { return t.certify(8 * time.Second) },
		end:   func(_ context.Context, t *stage) error { return t.certify(100 * 24 * time.Hour) },
	},
	{
		name: "queue-full", trouble: "one tenant fills the queue", kind: diagnosis.TenantFillsQueue,
		with:  []diagnosis.Kind{diagnosis.ServiceWaiting, diagnosis.ServiceQueueFull, diagnosis.Refusals, diagnosis.ServiceNearlyFull},
		set:   tenants(4, 0, ", queue: 20"),
		begin: func(_ context.Context, t *stage) error { return t.speak(60, "?key="+t.keys[1]) }, end: of((*stage).quiet),
	},
	{
		name: "noisy-neighbour", trouble: "a tenant is over its limit, and no other notices", kind: diagnosis.LimitReached, with: []diagnosis.Kind{diagnosis.Refusals},
		spared: true, set: tenants(48, 8, ""),
		begin: func(_ context.Context, t *stage) error { return t.speak(30, "?key="+t.keys[1]) }, end: of((*stage).quiet),
	},
}

// onPostgres runs the proxy on a database, through a network that can be cut.
func onPostgres(ctx context.Context, t *stage) error {
	database, err := pgtest.New()
	if err != nil {
		return fmt.Errorf("%w: %w", errSkipped, err)
	}
	t.database = database
	t.closers = append(t.closers, database.Remove)
	if err := database.Start(ctx); err != nil {
		return err
	}
	if t.way, err = kit.NewForwarder(database.Address()); err != nil {
		return err
	}
	t.closers = append(t.closers, t.way.Close)
	t.source, t.through = pgtest.URLAt(database.Address(), "postgres"), pgtest.URLAt(t.way.Address(), "postgres")
	if _, err := kit.Operate(ctx, t.options.Binary, "migrate", "--database", t.source); err != nil {
		return err
	}
	return usual(2)(ctx, t)
}

// tenants runs the proxy with two tenants, the second of which may have that many sessions; 0 for any number.
func tenants(places, limit int, service string) func(ctx context.Context, t *stage) error {
	return func(ctx context.Context, t *stage) error {
		t.cap = places
		t.service = ", auth: keys, auth-from: ['query:key']" + service
		t.tenants = []string{"acme", "globex"}
		t.more = fmt.Sprintf("tenants:\n  globex: {session-limit: %d}\n", limit)
		if err := t.addServers(1, sim.Vosk); err != nil {
			return err
		}
		if err := t.serve(ctx); err != nil {
			return err
		}
		return t.speak(2, "?key="+t.keys[0])
	}
}

// fill fills the file system of a file with it.
func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	return nil
}
