package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/admin"
	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/session"
)

// Proxy is a running proxy. Its methods may be called from any goroutine.
type Proxy struct {
	plan      *plan
	version   string
	log       *slog.Logger
	started   time.Time
	loops     *loop.Group
	backends  []*backend.Backend
	sessions  *session.Server
	listeners []net.Listener
	admin     *http.Server
	adminAt   net.Listener
	drained   context.Context // ends when draining begins
	drain     context.CancelFunc
}

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
	for _, target := range plan.targets {
		p.backends = append(p.backends, backend.New(backend.Options{
			Target: target, Profile: plan.profile, Cap: settings.Connections, Warm: settings.warm(),
			DialTimeout: settings.DialTimeout, ResetTimeout: settings.ResetTimeout, CloseTimeout: settings.CloseTimeout,
			Loops: p.loops, Log: log,
		}))
	}
	service := &session.Service{Name: "default", Path: settings.Path, Backends: p.backends}
	p.sessions = session.NewServer(session.Options{
		Services: []*session.Service{service}, Loops: p.loops,
		MaxMessage: settings.MaxMessage, MaxHead: settings.MaxHead,
		HandshakeTimeout: settings.HandshakeTimeout, CloseTimeout: settings.CloseTimeout,
		IdleTimeout: settings.IdleTimeout, MaxDuration: settings.MaxSession,
		Origins: settings.Origins, Log: log,
	})
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
		Handler:           admin.Handler(admin.Source{Ready: p.Ready, Stats: p.Stats}, p.log),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	return nil
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

// Ready returns nil when every backend has a connection and the proxy is not draining, or else why it is not ready.
func (p *Proxy) Ready() error {
	if p.drained.Err() != nil {
		return errors.New("not ready: draining")
	}
	for _, b := range p.backends {
		if stats := b.Stats(); stats.Idle+stats.Leased+stats.Resetting == 0 {
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
func (p *Proxy) Stats() admin.Stats {
	sessions := p.sessions.Stats()
	stats := admin.Stats{
		Version: p.version, UptimeSeconds: time.Since(p.started).Seconds(), Draining: p.drained.Err() != nil,
		Sessions: admin.Sessions{
			Active: sessions.Active, Total: sessions.Total, Refused: sessions.Refused, Ended: sessions.Ended,
		},
		Relayed: admin.Relayed(sessions.Relayed),
	}
	for _, b := range p.backends {
		health, book := b.Health(), b.Stats()
		stats.Backends = append(stats.Backends, admin.Backend{
			URL: b.URL(), Profile: b.Profile().Name, Warm: p.plan.settings.warm(),
			Reachable: health.Reachable, Since: health.Since, Reason: health.Reason,
			Retired: book.Totals.Discarded + book.Totals.RetiredIdle,
			Stats:   book,
		})
	}
	stats.Loops.Loops, stats.Loops.Moved = p.loops.Stats()
	for _, l := range stats.Loops.Loops {
		if l.Awake {
			stats.Loops.Awake++
		}
	}
	return stats
}
