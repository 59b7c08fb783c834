package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wsbouncer/wsbouncer/internal/admin"
	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/metrics"
	"github.com/wsbouncer/wsbouncer/internal/pool"
	"github.com/wsbouncer/wsbouncer/internal/session"
	"github.com/wsbouncer/wsbouncer/internal/stats"
)

// Proxy is a running proxy. Its methods may be called from any goroutine.
type Proxy struct {
	plan       *plan
	version    string
	log        *slog.Logger
	started    time.Time
	loops      *loop.Group
	group      *pool.Group[*backend.Conn]
	backends   []*backend.Backend
	sessions   *session.Server
	listeners  []net.Listener
	admin      *http.Server
	adminAt    net.Listener
	drained    context.Context // ends when draining begins
	drain      context.CancelFunc
	background sync.WaitGroup // goroutines that end when draining begins
}

// variantMaxIdle is for how long connections of a variant are kept warm that no client has come for.
const variantMaxIdle = 10 * time.Minute

// Start checks the settings, opens the listeners and begins to serve and to fill the pools. Backends that cannot be
// reached are no error: they are tried until they can. Shutdown ends the proxy.
func Start(settings Settings, version string, log *slog.Logger) (*Proxy, error) {
	plan, err := settings.plan()
	if err != nil {
		return nil, err
	}
	p := &Proxy{plan: plan, version: version, log: log, started: time.Now()}
	p.drained, p.drain = context.WithCancel(context.Background())
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.loops, err = loop.NewGroup(loop.Options{Max: settings.Loops})
	if err != nil {
		p.closeListeners()
		return nil, fmt.Errorf("starting event loops: %w", err)
	}
	variants := new(backend.Variants)
	p.group = pool.NewGroup[*backend.Conn](pool.Options{Balance: plan.balance, Queue: settings.Queue})
	for _, b := range plan.backends {
		p.backends = append(p.backends, backend.New(backend.Options{
			Target: b.target, Profile: plan.profile, Variants: variants, Group: p.group, Settings: b.settings, Mode: b.mode, Probe: b.probe,
			DialTimeout: settings.DialTimeout, DialParallel: settings.DialParallel,
			ResetTimeout: settings.ResetTimeout, CloseTimeout: settings.CloseTimeout,
			MaxAge: settings.ConnectionMaxAge, MaxIdle: settings.ConnectionMaxIdle, VariantMaxIdle: variantMaxIdle,
			MaxSessions:  uint64(settings.ConnectionMaxSessions),
			PingInterval: settings.PingInterval, PingTimeout: settings.PingTimeout,
			CircuitFailures: settings.CircuitFailures, SlowStart: settings.SlowStart,
			Loops: p.loops, Log: log,
		}))
	}
	service := &session.Service{
		Name: "default", Path: settings.Path, Profile: plan.profile, Variants: variants, Group: p.group, QueueTimeout: settings.QueueTimeout, HashBy: plan.hashBy,
	}
	p.sessions = session.NewServer(session.Options{
		Services: []*session.Service{service}, Loops: p.loops,
		MaxMessage: settings.MaxMessage, MaxHead: settings.MaxHead,
		HandshakeTimeout: settings.HandshakeTimeout, CloseTimeout: settings.CloseTimeout,
		IdleTimeout: settings.IdleTimeout, MaxDuration: settings.MaxSession,
		Origins: settings.Origins, Log: log,
	})
	p.background.Go(func() { p.trimmer(p.drained) })
	for _, listener := range p.listeners {
		p.sessions.Serve(listener)
		log.Info("listening", "address", listener.Addr().String())
	}
	if p.admin != nil {
		go func() { _ = p.admin.Serve(p.adminAt) }() // until Shutdown closes it
		log.Info("admin API", "address", "http://"+p.adminAt.Addr().String())
	}
	return p, nil
}

// listen opens all addresses, or none.
func (p *Proxy) listen() error {
	for _, address := range p.plan.settings.Listen {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			p.closeListeners()
			return fmt.Errorf("--listen: %w", err)
		}
		p.listeners = append(p.listeners, listener)
	}
	if p.plan.settings.Admin == "" {
		return nil
	}
	listener, err := net.Listen("tcp", p.plan.settings.Admin)
	if err != nil {
		p.closeListeners()
		return fmt.Errorf("--admin: %w", err)
	}
	p.adminAt = listener
	p.admin = &http.Server{
		Handler:           admin.Handler(admin.Source{Ready: p.Ready, Stats: p.Stats, Metrics: p.metrics()}, p.log),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// metrics returns what answers Prometheus: the statistics, and what the Go runtime and the operating system say of the
// process. If one metric cannot be had, the others are still shown.
func (p *Proxy) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(p.Stats),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry:      registry, // for the number of scrapes that failed
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(p.log.Handler(), slog.LevelWarn),
	})
}

func (p *Proxy) closeListeners() {
	for _, listener := range p.listeners {
		_ = listener.Close()
	}
	if p.adminAt != nil {
		_ = p.adminAt.Close()
	}
}

// Addresses returns where clients are served.
func (p *Proxy) Addresses() []net.Addr {
	var addresses []net.Addr
	for _, listener := range p.listeners {
		addresses = append(addresses, listener.Addr())
	}
	return addresses
}

// AdminAddress returns where the admin API is served; nil when it is not.
func (p *Proxy) AdminAddress() net.Addr {
	if p.adminAt == nil {
		return nil
	}
	return p.adminAt.Addr()
}

// Ready returns nil when every enabled backend that keeps connections warm has one and the proxy is not draining, or else why it is not ready.
func (p *Proxy) Ready() error {
	if p.drained.Err() != nil {
		return errors.New("not ready: draining")
	}
	for _, b := range p.backends {
		book := b.Stats()
		if book.State == pool.Enabled.String() && book.Warm > 0 && book.Idle+book.Leased+book.Resetting == 0 {
			reason := b.Health().Reason
			if reason == "" { // the last attempt to dial was fine, and what came of it is gone
				reason = "the last one was lost, the next is on its way"
			}
			return fmt.Errorf("not ready: no connection to %s: %s", b.URL(), reason)
		}
	}
	return nil
}

// Stats returns the statistics of all parts.
func (p *Proxy) Stats() stats.Stats {
	sessions := p.sessions.Stats()
	all := stats.Stats{
		Version: p.version, UptimeSeconds: time.Since(p.started).Seconds(), Draining: p.drained.Err() != nil,
		Sessions: stats.Sessions{
			Active: sessions.Active, Total: sessions.Total, Refused: sessions.Refused, Ended: sessions.Ended,
		},
		Relayed: stats.Relayed(sessions.Relayed),
	}
	settings := &p.plan.settings
	all.Services = []stats.Service{{
		Name: "default", Path: settings.Path, Profile: p.plan.profile.Name, Balance: p.plan.balance.String(), Queue: p.group.Queue(),
	}}
	for _, b := range p.backends {
		book := b.Stats()
		all.Backends = append(all.Backends, stats.Backend{
			URL: b.URL(), Profile: b.Profile().Name, Health: b.Health(), Stats: book, Retired: book.Totals.Reasons.Sum(),
			Variants: variantsOf(b),
		})
	}
	all.Loops.Loops, all.Loops.Moved = p.loops.Stats()
	for _, l := range all.Loops.Loops {
		if l.Awake {
			all.Loops.Awake++
		}
	}
	return all
}

// variantsOf returns what there is of each variant of connections, and nothing where all connections are alike.
func variantsOf(b *backend.Backend) []pool.VariantStats {
	variants := b.Variants()
	if len(variants) == 1 && variants[0].Variant == "" {
		return nil
	}
	return variants
}
