//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

const everythingRival = "everything"

// all is what the runs of the scenario share.
type all struct {
	key       string           // of the clients of the present run
	socket    string           // of its admin API
	collector *httptest.Server // takes traces
}

// everything returns the scenario that compares the proxy, with clients over TLS, with the same that has everything on.
func everything(outside metric) scenario {
	shared := new(all)
	return scenario{
		name: "everything", title: "Everything on",
		text: "Clients stream audio over TLS to 3 simulated Vosk servers: to the proxy alone, and to one with API keys, a tenant, limits, `failover: replay`, an access log, " +
			"traces of 1 % of the sessions, a dashboard, a scrape every 5 s and a tap of one session. Memory includes what replay keeps.",
		base: "wsbouncer", participants: shared.participants, open: shared.servers, observe: shared.observe, expected: secureRelayTime,
		metrics: []metric{
			{"cpu_us", "CPU per round trip, µs", 1, true, false, perRoundTrip(totalTime)},
			{"user_us", "of it in user mode, µs", 1, false, false, perRoundTrip(userTime)},
			{"open_kb", "memory with all sessions, KiB a session", 1, true, false, func(o observation) float64 {
				return o.open / 1024 / float64(max(1, o.load.Connected))
			}},
			{"p50_ms", "latency p50, ms", 2, false, false, func(o observation) float64 { return o.load.Latency.P50 }},
			{"p99_ms", "latency p99, ms", 2, true, false, func(o observation) float64 { return o.load.Latency.P99 }},
			outside,
		},
	}
}

func (a *all) participants(_ context.Context, st *stage, _ []rivals.Rival) ([]rivals.Rival, error) {
	full := rivals.WSBouncer(everythingRival, st.wsbouncer, "vosk", rivals.PoolSize)
	full.Command = func(t rivals.Task) ([]string, error) { return a.configure(st.wsbouncer, t) }
	return []rivals.Rival{rivals.WSBouncer("wsbouncer", st.wsbouncer, "vosk", rivals.PoolSize), full}, nil
}

// configure writes the configuration of the proxy with everything on, with a key for the clients of the run, and returns the command that serves it.
func (a *all) configure(binary string, t rivals.Task) ([]string, error) {
	database := filepath.Join(t.Dir, "services.yaml")
	each := strconv.Itoa(rivals.PoolSize(t))
	commands := [][]string{
		{"tenant", "add", "acme", "--session-limit", "100000", "--session-rate", "100000/s", "--byte-rate", "100GiB/s"},
		{
			"service", "add", "speech", "--path", "/", "--profile", "vosk", "--auth", "keys", "--failover", "replay", "--session-limit", "100000",
			"--client-message-rate", "1000000/s",
		},
	}
	for i, address := range t.Backends {
		commands = append(commands, []string{"backend", "add", fmt.Sprint("gpu-", i+1), "ws://" + address, "--service", "speech", "--connections", each})
	}
	commands = append(commands, []string{"key", "add", "load", "--tenant", "acme", "--session-limit", "100000", "--output", "json"})
	var key struct{ Key string }
	for i, arguments := range commands {
		out, err := kit.Operate(context.Background(), binary, append(arguments, "--database", database)...)
		if err != nil {
			return nil, err
		}
		if i == len(commands)-1 {
			if err := json.Unmarshal([]byte(out), &key); err != nil || key.Key == "" {
				return nil, fmt.Errorf("key add printed %q: %w", out, err)
			}
		}
	}
	a.key, a.socket = key.Key, filepath.Join(t.Dir, "admin.sock")
	return []string{
		binary, "serve", "--admin", t.Admin, "--log-level", "warn", "--database", database, "--tls-listen", t.Listen, "--tls-cert", t.Serves.File,
		"--tls-key", t.Serves.Key, "--state-directory", t.Dir, "--access-log", filepath.Join(t.Dir, "access.log"), "--otlp-endpoint", a.collector.URL, "--trace-ratio", "0.01",
	}, nil
}

// servers starts three simulated Vosk servers and a collector of traces, and makes a certificate for the proxies.
func (a *all) servers(ctx context.Context, st *stage) (b servers, err error) {
	a.collector = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	var running []*child.Process
	b.stop = func() {
		a.collector.Close()
		for _, p := range running {
			p.Stop()
		}
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.addresses, err = child.FreeAddresses(3); err != nil {
		return b, err
	}
	for _, address := range b.addresses {
		p, err := child.StartSimulator(ctx, st.tools, address, "vosk", "--quiet")
		if err != nil {
			return b, err
		}
		running = append(running, p)
	}
	b.serves, err = rivals.NewCertificate(st.dir)
	return b, err
}

// observe does what observe does, with a key and watchers if everything is on.
func (a *all) observe(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	w, err := startRival(ctx, st, r, l.sessions, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	var all watchers
	if r.Name == everythingRival {
		l.header = []handshake.Field{{Name: "Authorization", Value: "Bearer " + a.key}}
		all.start(ctx, w.admin, 1, func(ctx context.Context, _ *client.Client) error { return all.tap(ctx, a.socket) })
	}
	err = w.offer(ctx, l)
	err = cmp.Or(err, all.end(l.duration))
	if r.Name == everythingRival && all.tapped.Load() < int64(l.duration.Seconds()*l.rate) {
		err = cmp.Or(err, fmt.Errorf("the tap showed %d events", all.tapped.Load()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.overload = w.seen.load.overload(l)
	return w.seen, cmp.Or(err, w.failed, w.seen.load.broken())
}

// tap reads the frames of the first session until it ends.
func (w *watchers) tap(ctx context.Context, socket string) error {
	c, err := client.New("unix:"+socket, "") // only there may one tap without a token
	if err != nil {
		return err
	}
	defer c.Close()
	events, err := c.Stream(ctx, api.TapPath, api.TapQuery{Service: "speech", First: 1}.Values(), 0)
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
