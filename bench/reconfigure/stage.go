//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// stage is a simulated server, the proxy, and the store of its configuration.
type stage struct {
	options
	store  config.Store
	server *child.Process
	proxy  *kit.Proxy
	behind string // URL of the server
}

// set starts everything. The service has no backend yet.
func set(ctx context.Context, o options, binary, directory string, d database) (s *stage, err error) {
	s = &stage{options: o}
	defer func() {
		if err != nil {
			s.clear()
		}
	}()
	if s.store, err = stores.Open(d.name, config.Options{Profiles: config.CheckProfiles}); err != nil {
		return nil, err
	}
	if err := s.change(ctx, config.Mutation{Verb: config.Add, Kind: config.KindService, Name: "echo", Values: config.Values{
		"path": "/echo", "profile": "echo", "ping-interval": "0s",
	}}); err != nil {
		return nil, err
	}
	server, address, err := child.StartSimulator(ctx, binary, "echo")
	if err != nil {
		return nil, err
	}
	s.server, s.behind = server, "ws://"+address
	s.proxy, err = child.StartProxy(ctx, binary, directory, "--database", d.name, "--log-level", "error", "--drain-timeout", "0s")
	return s, err
}

// clear ends everything.
func (s *stage) clear() {
	if s.proxy != nil {
		kit.StopAll(s.proxy.Process)
	}
	if s.server != nil {
		s.server.Stop()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// change writes a change.
func (s *stage) change(ctx context.Context, mutations ...config.Mutation) error {
	_, err := s.store.Apply(ctx, config.Change{Who: "bench", Mutations: mutations})
	return err
}

// backend returns a mutation that adds a backend.
func (s *stage) backend(name string, connections int) config.Mutation {
	return config.Mutation{Verb: config.Add, Kind: config.KindBackend, Name: name, Values: config.Values{
		"service": "echo", "url": s.behind + "/" + name, "connections": fmt.Sprint(connections),
	}}
}

// remove returns a mutation that removes one.
func remove(name string) config.Mutation {
	return config.Mutation{Verb: config.Remove, Kind: config.KindBackend, Name: name}
}

// await waits until the proxy's statistics are as they should be.
func (s *stage) await(ctx context.Context, what string, are func(*api.Stats) bool) error {
	return child.Await(ctx, s.proxy, what, are)
}

// show prints a row of the table.
func show[N time.Duration | float64](what, format string, values []N) {
	slices.Sort(values)
	fmt.Printf("| %s | "+format+" | "+format+" | "+format+" |\n", what, values[len(values)/2], values[0], values[len(values)-1])
}

// milliseconds returns times as numbers.
func milliseconds(times []time.Duration) (numbers []float64) {
	for _, t := range times {
		numbers = append(numbers, float64(t.Microseconds())/1000)
	}
	return numbers
}
