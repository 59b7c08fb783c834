// Package demo shows the proxy at work in one process: simulated inference servers, the proxy in front of them, and
// clients that stream speech in real time and get transcripts back.
package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/app"
	"github.com/wsbouncer/wsbouncer/internal/sim"
	"github.com/wsbouncer/wsbouncer/internal/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/wav"
)

// Options are the settings of a demonstration.
type Options struct {
	Clients  int           // that stream at the same time
	Servers  int           // simulated inference servers
	Duration time.Duration // 0: until the context ends
	Listen   string        // address of the proxy for clients
	Admin    string        // address of the proxy's admin API
	Version  string
	// Out is where it is shown; Terminal tells that it is one, whose screen can be drawn anew.
	Out      io.Writer
	Terminal bool
	// Log gets the proxy's warnings.
	Log *slog.Logger
}

// Validate names what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Clients < 1 || o.Clients > 5000:
		return fmt.Errorf("--clients: %d is not between 1 and 5000", o.Clients)
	case o.Servers < 1 || o.Servers > 20:
		return fmt.Errorf("--servers: %d is not between 1 and 20", o.Servers)
	case o.Duration < 0:
		return fmt.Errorf("--duration: %v is negative", o.Duration)
	}
	return nil
}

// Run shows the demonstration until the context or the duration ends. It fails when a session did, or when a transcript
// was not that of its own audio.
func Run(ctx context.Context, o Options) error {
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		return fmt.Errorf("reading the speech: %w", err)
	}
	urls, stop, err := startServers(o.Servers, o.Log)
	if err != nil {
		return err
	}
	defer stop()
	settings := app.DefaultSettings()
	settings.Listen = []string{o.Listen}
	settings.Admin = o.Admin
	settings.Backends = urls
	settings.Connections = 2*o.Clients/o.Servers + 4 // each is used once, and replaced meanwhile
	settings.Warm = o.Clients/o.Servers/2 + 2
	settings.DrainTimeout = 0
	settings.CloseTimeout = time.Second
	proxy, err := app.Start(settings, o.Version, o.Log)
	if err != nil {
		return err
	}
	if err := waitReady(ctx, proxy); err != nil {
		proxy.Shutdown()
		return err
	}

	results := newResults()
	clientsCtx, endClients := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range o.Clients {
		c := &client{
			number: i, url: fmt.Sprintf("ws://%s/", proxy.Addresses()[0]), audio: audio, results: results,
			wait: time.Duration(i) * streamEvery / time.Duration(o.Clients),
		}
		clients.Go(func() { c.run(clientsCtx) })
	}
	view := &view{options: o, proxy: proxy, results: results, started: time.Now()}
	view.run(ctx)
	endClients()
	clients.Wait()
	proxy.Shutdown()
	return view.summary()
}

// startServers starts the simulated servers; stop ends them.
func startServers(n int, log *slog.Logger) (urls []string, stop func(), err error) {
	var servers []*sim.Server
	stop = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	for i := range n {
		s, err := sim.Start(sim.Options{
			Protocol: sim.Vosk, Latency: 20 * time.Millisecond, Jitter: 15 * time.Millisecond, Seed: uint64(i), Logger: log,
		})
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("starting a simulated server: %w", err)
		}
		servers = append(servers, s)
		urls = append(urls, s.URL())
	}
	return urls, stop, nil
}

// waitReady waits until every server has a connection.
func waitReady(ctx context.Context, proxy *app.Proxy) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for proxy.Ready() != nil {
		select {
		case <-ctx.Done():
			return proxy.Ready()
		case <-ticker.C:
		}
	}
	return nil
}
