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
	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// Options are the settings of a demonstration.
type Options struct {
	Clients  int           // that stream at the same time
	Servers  int           // simulated inference servers
	Duration time.Duration // 0: until the context ends
	Listen   string        // address of the proxy for clients
	Admin    string        // address of the proxy's admin API
	Version  string
	Program  string // how the user calls wsbouncer, for the commands to try
	// Out gets the output. Terminal says that Out is a terminal, whose screen can be redrawn.
	Out      io.Writer
	Terminal bool
	// Log gets the proxy's warnings.
	Log *slog.Logger
}

// Validate returns an error that says what is wrong with the options.
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

// Run runs the demonstration until the context ends or the duration is over. It returns an error if a session failed, or if
// a transcript was not that of its own audio.
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
	set, err := stage.Start(ctx, stage.Options{
		Server:  sim.Options{Protocol: sim.Vosk, Latency: 20 * time.Millisecond, Jitter: 15 * time.Millisecond, Logger: o.Log},
		Servers: o.Servers, Version: o.Version, Log: o.Log,
		Proxy: func(s *app.Settings) {
			s.Listen, s.Admin = []string{o.Listen}, o.Admin
			s.Connections = 2*o.Clients/o.Servers + 4 // each is used once, and its replacement is dialed meanwhile
			s.Warm = o.Clients/o.Servers/2 + 2
			s.DrainTimeout = 0
			s.CloseTimeout = time.Second
		},
	})
	if err != nil {
		return err
	}

	results := newResults()
	clientsCtx, endClients := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for i := range o.Clients {
		c := &client{
			number: i, url: set.URL() + "/", audio: audio, results: results,
			wait: time.Duration(i) * streamEvery / time.Duration(o.Clients),
		}
		clients.Go(func() { c.run(clientsCtx) })
	}
	view := &view{options: o, proxy: set.Proxy(), results: results, started: time.Now()}
	view.run(ctx)
	endClients()
	clients.Wait()
	set.Close()
	return view.summary()
}
