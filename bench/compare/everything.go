//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// The rows of the scenario that need more than flags: a credential, watchers, another proxy.
const (
	keysRow       = "keys"
	jwtRow        = "jwt"
	fleetRow      = "fleet"
	watchedRow    = "watched"
	everythingRow = "everything"
)

// all is what the runs of the scenario share.
type all struct {
	key       string           // of the clients of the present run
	token     string           // of the clients, for the whole scenario
	keySet    string           // file with the key that has signed it
	collector *httptest.Server // takes traces
	database  *pgtest.Server   // of fleets; nil if this system has none
	fleets    int              // databases that were made in it
	other     *kit.Proxy       // of the present run's fleet
}

// speechService is the name of the only service, also of a proxy that gets it from flags.
const speechService = "default"

// everything returns the scenario that compares the proxy, with clients over TLS, with the same that has one more thing on, or everything.
func everything() scenario {
	shared := new(all)
	return scenario{
		name: "everything", title: "What features cost",
		text: "Clients stream audio to 3 simulated Vosk servers over TLS, but for `plain`. `keys` adds API keys, a tenant and limits, `jwt` JSON Web Tokens, " +
			"`replay` `failover: replay`, `watched` 5 dashboards, `top`, a scrape every 5 s, a tap of one session, an access log and traces of 1 % of the sessions, " +
			"`fleet` a ledger in PostgreSQL with a second proxy in it, and `everything` all of `keys`, `replay` and `watched`. Memory includes what replay keeps.",
		base: "wsbouncer", participants: shared.participants, open: shared.servers, observe: shared.observe, expected: secureRelayTime,
		metrics: []metric{
			cpu, user,
			{"open_kb", "memory with all sessions, KiB a session", 1, true, false, func(o observation) float64 {
				return o.open / 1024 / float64(max(1, o.load.Connected))
			}},
			p50, p99, outside,
		},
	}
}

// participants returns the rows.
func (a *all) participants(_ context.Context, st *stage, _ []rivals.Rival) ([]rivals.Rival, error) {
	row := func(name string, flags func(t rivals.Task) []string) rivals.Rival {
		r := rivals.WSBouncer(name, st.wsbouncer, "vosk", rivals.PoolSize)
		plain := r.Command
		r.Command = func(t rivals.Task) ([]string, error) {
			argv, err := plain(t)
			return append(argv, flags(t)...), err
		}
		return r
	}
	configured := func(name string, configure func(t rivals.Task) ([]string, error)) rivals.Rival {
		r := rivals.WSBouncer(name, st.wsbouncer, "vosk", func(t rivals.Task) int { return 1 + t.Sessions/len(t.Backends) })
		r.Command = func(t rivals.Task) ([]string, error) {
			flags, err := configure(t)
			return append([]string{
				st.wsbouncer, "serve", "--admin", t.Admin, "--log-level", "warn", "--state-directory", t.Dir,
				"--tls-listen", t.Listen, "--tls-cert", t.Serves.File, "--tls-key", t.Serves.Key,
			}, flags...), err
		}
		return r
	}
	none := func(rivals.Task) []string { return nil }
	return st.wanted([]rivals.Rival{
		row("plain", none), row("wsbouncer", none),
		configured(keysRow, func(t rivals.Task) ([]string, error) {
			database := filepath.Join(t.Dir, "services.yaml")
			return []string{"--database", database}, a.configure(st.wsbouncer, database, t)
		}),
		row(jwtRow, func(rivals.Task) []string { return []string{"--auth", "jwt", "--jwt-keys", "file:" + a.keySet} }),
		row("replay", func(rivals.Task) []string { return []string{"--failover", "replay"} }),
		row(watchedRow, a.watching),
		configured(fleetRow, func(t rivals.Task) ([]string, error) { return a.join(st.wsbouncer, t) }),
		configured(everythingRow, func(t rivals.Task) ([]string, error) {
			database := filepath.Join(t.Dir, "services.yaml")
			return append(a.watching(t), "--database", database), a.configure(st.wsbouncer, database, t, "--failover", "replay")
		}),
	}), nil
}

// watching returns the flags for what shows what the proxy does.
func (a *all) watching(t rivals.Task) []string {
	return []string{
		"--admin-socket", filepath.Join(t.Dir, "admin.sock"), "--access-log", filepath.Join(t.Dir, "access.log"), "--otlp-endpoint", a.collector.URL, "--trace-ratio", "0.01",
	}
}

// configure writes a configuration with limits, and a key for the clients of the run.
func (a *all) configure(binary, database string, t rivals.Task, service ...string) error {
	commands := slices.Concat([][]string{
		append([]string{
			"service", "add", speechService, "--path", "/", "--profile", "vosk", "--auth", "keys", "--session-limit", "100000", "--client-message-rate", "1000000/s",
		}, service...),
		{"tenant", "add", "acme", "--session-limit", "100000", "--session-rate", "100000/s", "--byte-rate", "100GiB/s"},
	}, addBackends(t, 1), [][]string{{"key", "add", "load", "--tenant", "acme", "--session-limit", "100000", "--output", "json"}})
	out, err := kit.OperateAll(context.Background(), binary, database, commands...)
	if err != nil {
		return err
	}
	var key struct{ Key string }
	if err := json.Unmarshal([]byte(out), &key); err != nil || key.Key == "" {
		return fmt.Errorf("key add printed %q: %w", out, err)
	}
	a.key = key.Key
	return nil
}

// addBackends returns the commands that add the backends of a task, each with room for that many pools.
func addBackends(t rivals.Task, pools int) (commands [][]string) {
	for i, address := range t.Backends {
		commands = append(commands, []string{
			"backend", "add", fmt.Sprint("gpu-", i+1), "ws://" + address, "--service", speechService, "--connections", strconv.Itoa(pools * rivals.PoolSize(t)),
		})
	}
	return commands
}

// join makes a database with room for two proxies, starts the other one, and returns the flags for the first.
func (a *all) join(binary string, t rivals.Task) ([]string, error) {
	if a.database == nil {
		return nil, fmt.Errorf("%w: %w", rivals.ErrSkipped, pgtest.ErrNone)
	}
	ctx, name := context.Background(), fmt.Sprint("fleet_", a.fleets)
	a.fleets++
	if err := pgtest.Execute(ctx, a.database.DSN("postgres"), "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	url := a.database.URL(pgtest.User, pgtest.Password, name)
	_, err := kit.OperateAll(ctx, binary, url, slices.Concat([][]string{{"migrate"}, {"service", "add", speechService, "--path", "/", "--profile", "vosk"}}, addBackends(t, 2))...)
	if err != nil {
		return nil, err
	}
	admin, err := child.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	a.other, err = child.StartProxy(ctx, binary, t.Dir, "--database", url, "--proxy-name", "other", "--admin", admin[0], "--log-level", "warn", "--drain-timeout", "0s")
	return []string{"--database", url, "--proxy-name", "measured"}, err
}

// leave ends the other proxy, if there is one.
func (a *all) leave() {
	if a.other != nil {
		kit.StopAll(a.other.Process)
		a.other = nil
	}
}

// servers starts three simulated Vosk servers, a collector of traces and a database, and makes a certificate for the proxies and a token for clients.
func (a *all) servers(ctx context.Context, st *stage) (b servers, err error) {
	a.collector = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	var running []*child.Process
	b.stop = func() {
		a.collector.Close()
		for _, p := range running {
			p.Stop()
		}
		if a.database != nil {
			a.database.Remove()
		}
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	a.database, err = pgtest.New()
	if err == nil {
		err = a.database.Start(ctx)
	}
	if err != nil && !errors.Is(err, pgtest.ErrNone) {
		return b, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return b, err
	}
	signer := &tokentest.Signer{ID: "bench", Algorithm: "ES256", Private: private}
	a.token = signer.Sign(tokentest.Fields{"sub": "load", "exp": time.Now().Add(24 * time.Hour).Unix()})
	a.keySet = filepath.Join(st.dir, "jwks.json")
	if err := os.WriteFile(a.keySet, tokentest.KeySet(signer.JWK()), 0o600); err != nil {
		return b, err
	}
	for range 3 {
		p, address, err := child.StartSimulator(ctx, st.tools, "vosk", "--quiet")
		if err != nil {
			return b, err
		}
		running, b.addresses = append(running, p), append(b.addresses, address)
	}
	b.serves, err = rivals.NewCertificate(st.dir)
	return b, err
}

// observe does what observe does, with a credential, watchers or another proxy in the rows that have them.
func (a *all) observe(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	if r.Name == "plain" {
		b.serves = nil
	}
	defer a.leave()
	w, err := startRival(ctx, st, r, l.sessions, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	credential := map[string]string{keysRow: a.key, everythingRow: a.key, jwtRow: a.token}[r.Name]
	if credential != "" {
		l.header = []handshake.Field{{Name: "Authorization", Value: "Bearer " + credential}}
	}
	var all watchers
	if r.Name == watchedRow || r.Name == everythingRow {
		all.start(ctx, w.admin, func(ctx context.Context, _ *client.Client) error {
			return all.tap(ctx, filepath.Join(w.dir, "admin.sock"))
		})
	}
	err = w.offer(ctx, l)
	err = cmp.Or(err, all.end(l.duration))
	if all.streams > 0 && all.tapped.Load() < int64(l.duration.Seconds()*l.rate) {
		err = cmp.Or(err, fmt.Errorf("the tap showed %d events", all.tapped.Load()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.overload = w.seen.load.overload(l)
	return w.seen, cmp.Or(err, w.failed, w.seen.load.broken())
}

// tap reads the frames of the first session until it ends. Its service is the only one.
func (w *watchers) tap(ctx context.Context, socket string) error {
	c, err := client.New("unix:"+socket, "") // only there may one tap without a token
	if err != nil {
		return err
	}
	defer c.Close()
	events, err := c.Stream(ctx, api.TapPath, api.TapQuery{Service: speechService, First: 1}.Values(), 0)
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		if _, err := events.Line(); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		w.tapped.Add(1)
	}
}
