//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/stats"
)

// stage is a simulated server, the proxy, and a store that changes what the proxy is to do.
type stage struct {
	options
	state          string
	store          config.Store
	server, proxy  *child.Process
	behind         string // URL of the server
	address, admin string
}

// set starts everything. The service has no backend yet.
func set(ctx context.Context, o options, binary string, d database) (s *stage, err error) {
	s = &stage{options: o}
	defer func() {
		if err != nil {
			s.clear()
		}
	}()
	if s.state, err = os.MkdirTemp("", "reconfigure"); err != nil {
		return nil, err
	}
	if s.store, err = stores.Open(d.name, config.Options{Profiles: config.CheckProfiles}); err != nil {
		return nil, err
	}
	if err := s.change(ctx, config.Mutation{Verb: config.Add, Kind: config.KindService, Name: "echo", Values: config.Values{
		"path": "/echo", "profile": "echo", "ping-interval": "0s",
	}}); err != nil {
		return nil, err
	}
	addresses, err := child.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	s.behind, s.address, s.admin = "ws://"+addresses[0], addresses[1], addresses[2]
	if s.server, err = child.Start([]string{binary, "sim", "--listen", addresses[0]}); err != nil {
		return nil, err
	}
	if err := child.WaitFor(ctx, s.server, "simulated server", 10*time.Second, child.Accepts(addresses[0])); err != nil {
		return nil, err
	}
	if s.proxy, err = child.Start([]string{
		binary, "serve", "--listen", s.address, "--admin", s.admin, "--database", d.name, "--state-directory", s.state,
		"--log-level", "error", "--drain-timeout", "0s",
	}); err != nil {
		return nil, err
	}
	return s, child.WaitFor(ctx, s.proxy, "proxy", 10*time.Second, child.Accepts(s.address))
}

// clear ends everything.
func (s *stage) clear() {
	for _, p := range []*child.Process{s.proxy, s.server} {
		if p != nil {
			p.Stop()
		}
	}
	if s.store != nil {
		_ = s.store.Close()
	}
	_ = os.RemoveAll(s.state)
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

// stats asks the proxy for its statistics.
func (s *stage) stats(ctx context.Context) (all stats.Stats, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/api/v1/stats", nil)
	if err != nil {
		return all, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return all, err
	}
	defer response.Body.Close()
	return all, json.NewDecoder(response.Body).Decode(&all)
}

// await waits until the statistics are so.
func (s *stage) await(ctx context.Context, what string, so func(*stats.Stats) bool) error {
	return child.WaitFor(ctx, s.proxy, what, 30*time.Second, func(ctx context.Context) error {
		now, err := s.stats(ctx)
		if err == nil && !so(&now) {
			err = fmt.Errorf("not yet: %+v", now.Configuration)
		}
		return err
	})
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
