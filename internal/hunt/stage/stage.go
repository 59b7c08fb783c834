// Package stage sets up what a leak hunt is held on: simulated servers of one protocol, and the proxy in front of them, in this
// process and on ports of the loopback interface. It is for tests and the soak test.
package stage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/sim"
	"github.com/wsbouncer/wsbouncer/internal/stats"
)

// Options are the settings of a stage.
type Options struct {
	// Server are the settings of the simulated servers: their protocol, and what is nasty about them.
	Server sim.Options
	// Servers is how many there are. Default 2.
	Servers int
	// Connections is the most that the proxy has to each of them: the fewer, the more sessions share one. Default 4.
	Connections int
	// Proxy changes the proxy's settings, when not nil: at least the name of the profile.
	Proxy func(s *app.Settings)
	// Log gets what the proxy logs. Default: nobody.
	Log *slog.Logger
}

// Stage is a proxy with its servers. Its methods may be called from any goroutine.
type Stage struct {
	proxy   *app.Proxy
	servers []*sim.Server
}

// Start starts servers and proxy, and waits until the proxy has connections, or until ctx ends. The caller closes the stage.
func Start(ctx context.Context, o Options) (*Stage, error) {
	if o.Servers == 0 {
		o.Servers = 2
	}
	if o.Connections == 0 {
		o.Connections = 4
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := new(Stage)
	settings := app.DefaultSettings()
	settings.Listen = []string{"127.0.0.1:0"}
	settings.Connections = o.Connections
	// Clients that wait for one of few connections are not to be turned away; broken sessions are part of the hunt, and must not
	// take a server out of service.
	settings.Queue = 10_000
	settings.QueueTimeout = 30 * time.Second
	settings.CircuitFailures = 1_000_000
	settings.CloseTimeout = time.Second
	settings.DrainTimeout = 0
	for i := range o.Servers {
		server := o.Server
		server.Seed += uint64(i)
		started, err := sim.Start(server)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("starting a simulated server: %w", err)
		}
		s.servers = append(s.servers, started)
		settings.Backends = append(settings.Backends, started.URL())
	}
	if o.Proxy != nil {
		o.Proxy(&settings)
	}
	var err error
	if s.proxy, err = app.Start(settings, "stage", o.Log); err != nil {
		s.Close()
		return nil, fmt.Errorf("starting the proxy: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ready waits until the proxy is.
func (s *Stage) ready(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.proxy.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// URL returns the proxy's address for clients.
func (s *Stage) URL() string { return "ws://" + s.proxy.Addresses()[0].String() }

// Stats returns the proxy's statistics.
func (s *Stage) Stats() stats.Stats { return s.proxy.Stats() }

// Accepted returns how many connections the proxy has made to the servers.
func (s *Stage) Accepted() (n uint64) {
	for _, server := range s.servers {
		n += server.Stats().Accepted
	}
	return n
}

// Close ends the proxy, and then the servers.
func (s *Stage) Close() {
	if s.proxy != nil {
		s.proxy.Shutdown()
	}
	for _, server := range s.servers {
		server.Close()
	}
}
