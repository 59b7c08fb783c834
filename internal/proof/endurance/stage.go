//go:build linux

package endurance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/failoverproof"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

const databaseName = "endurance"

// state is what the next run needs of this one.
type state struct {
	Database string // directory of PostgreSQL
	Process  int    // of the proxy: an upgrade's outlives a crash of this program
}

// save writes the state, with the process that serves.
func (r *run) save() error {
	r.state.Process = r.proxy.PID()
	text, err := json.Marshal(r.state)
	if err != nil {
		return err
	}
	return os.WriteFile(r.o.file("state.json"), text, 0o600)
}

// stage starts servers, the database, the proxy and the first clients.
func (r *run) stage(ctx context.Context) (err error) {
	if text, err := os.ReadFile(r.o.file("state.json")); err == nil {
		_ = json.Unmarshal(text, &r.state) // a broken one begins anew
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.state.Process))
	if bytes.Contains(line, []byte(r.o.file("proxy"))) {
		_ = syscall.Kill(r.state.Process, syscall.SIGKILL)
	}
	for i := range 5 {
		all, o := &r.echoes, sim.Options{}
		if i > 1 { // two of three carry all sessions
			all, o = &r.talkers, sim.Options{Protocol: sim.Vosk, Latency: 10 * time.Millisecond, Jitter: 10 * time.Millisecond}
		}
		server, err := sim.Start(o)
		if err != nil {
			return err
		}
		*all = append(*all, server)
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.live, err = r.certify("tls"); err != nil {
		return err
	}
	if r.proxy, err = kit.NewProxy(r.o.Binary, "proxy", r.o.Directory); err != nil {
		return err
	}
	if r.secured, err = freeport.Address(); err != nil {
		return err
	}
	if err := r.proxy.Serve("--admin", "127.0.0.1:0", "--database", r.url(), "--tls-listen", r.secured, "--tls-cert", r.live.File(),
		"--tls-key", r.live.KeyFile(), "--access-log", r.o.file("access.log"), "--max-handshakes", "65536", "--handshake-timeout", "1m", // all clients come from one address
		"--log-level", "warn"); err != nil { // a line for each session would be 6 GB a day
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	if err := r.proxy.Ready(ctx); err != nil {
		return err
	}
	return r.rotate(ctx)
}

func (r *run) certify(folder string) (*stage.Certificate, error) {
	if err := os.MkdirAll(r.o.file(folder), 0o700); err != nil {
		return nil, err
	}
	return stage.NewCertificate(r.o.file(folder), stage.Lifetime)
}

// url returns the name of the database.
func (r *run) url() string { return r.database.URL(pgtest.User, pgtest.Password, databaseName) }

// prepare starts PostgreSQL, with the tables of the run before if there are any, and writes the configuration.
func (r *run) prepare(ctx context.Context) (err error) {
	r.database, err = pgtest.Open(r.state.Database)
	continues := err == nil
	if !continues {
		if r.database, err = pgtest.New(); err != nil {
			return err
		}
		r.state.Database = r.database.Directory
	}
	if err := r.database.Start(ctx); err != nil {
		return err
	}
	r.dsn = r.database.DSN(databaseName)
	if !continues {
		if err := pgtest.Execute(ctx, r.database.DSN("postgres"), "CREATE DATABASE "+databaseName); err != nil {
			return err
		}
	}
	configuration := r.o.file("configuration.yaml")
	if err := os.WriteFile(configuration, []byte(r.configuration()), 0o600); err != nil {
		return err
	}
	_, err = kit.OperateAll(ctx, r.o.Binary, r.url(), []string{"migrate"}, []string{"config", "import", configuration, "--with-tenants", "--yes"})
	return err
}

// configuration returns that of the proxy. There are places for the sessions of an old process and of a new one.
func (r *run) configuration() string {
	const service = "profile: %s, auth: keys, queue: 2000, queue-timeout: 30s, dial-timeout: 30s"
	var b strings.Builder
	fmt.Fprintf(&b, "services:\n  echo: {path: /echo, "+service+"}\n  stt: {path: /stt/, failover: replay, "+service+"}\nbackends:\n", sim.Echo, sim.Vosk)
	for i, server := range r.echoes {
		fmt.Fprintf(&b, "  echo-%d: {service: echo, url: '%s', connections: %d}\n", i+1, server.URL(), r.places())
	}
	for i, server := range r.talkers {
		fmt.Fprintf(&b, "  stt-%d: {service: stt, url: '%s', connections: %d}\n", i+1, server.URL(), 2*r.o.Sessions)
	}
	return b.String()
}

// places returns the connections of an echo server, which each change of the configuration changes.
func (r *run) places() int { return 20 + 4*r.o.Rate + r.changes%2 }

const (
	// patience is how long a client waits for its session, or for an answer.
	patience = time.Minute
	// longest is how long a session that moves among servers lasts at most.
	longest = 15 * time.Second
)

// come has clients come with a key, who trust the authorities of a file, until the returned function is called, which waits until all have left.
func (r *run) come(ctx context.Context, key, authorities string) (leave func(), err error) {
	trusted, err := os.ReadFile(authorities)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	finish, first := make(chan struct{}), uint64(r.turn)*1e9
	var crowds sync.WaitGroup
	crowds.Go(func() {
		report, err := hunt.Run(ctx, hunt.Options{
			URL: "wss://" + r.secured + "/echo", TLS: &tls.Config{RootCAs: pool, ClientSessionCache: tls.NewLRUClientSessionCache(64)},
			Header: []string{"Authorization: Bearer " + key}, Protocol: sim.Echo, First: first, Sessions: 1 << 30, Concurrency: min(30*r.o.Rate, 10_000),
			Rate: float64(r.o.Rate), MaxChunks: 3, Exact: true, Pace: time.Second, Timeout: patience, Finish: finish,
			Outcome: func(o hunt.Outcome) {
				r.happened("sessions that came", 1)
				if !o.Succeeded() {
					r.find("a session that came failed", "session %d, after %v: %s %s\n%s", o.Session, time.Since(o.Began), o.Kind, o.Reason, o.Trace())
				}
			},
		})
		if err == nil {
			err = report.Err()
		}
		if ctx.Err() == nil && err != nil {
			r.find("sessions that came were mixed up", "%v", err)
		}
	})
	crowds.Go(func() {
		length := min(longest, r.o.Rotate/2)
		report, err := failoverproof.Run(ctx, failoverproof.Options{
			Protocol: sim.Vosk, Sessions: r.o.Sessions, First: first, Seed: first, MinLength: length / 3, MaxLength: length, Patience: patience,
			Outside: &failoverproof.Outside{
				URLs: []string{"wss://" + r.secured + "/stt"}, Header: []handshake.Field{{Name: "Authorization", Value: "Bearer " + key}},
				Authority: authorities, Finish: finish,
			},
		})
		r.happened("sessions that moved among servers", report.Sessions)
		if err == nil {
			err = report.Err()
		}
		if ctx.Err() == nil && err != nil {
			r.find("sessions did not outlive their servers", "%v", err)
		}
	})
	return sync.OnceFunc(func() { close(finish); crowds.Wait() }), nil
}
