//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/lab/load"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// changeInterval is the time between two changes: ten a second.
const changeInterval = 100 * time.Millisecond

// relay measures the proxy's processor time per round trip under one load, with and without changes in turn.
func (s *stage) relay(ctx context.Context) error {
	if err := s.change(ctx, s.backend("relay", sessions+100)); err != nil {
		return err
	}
	if err := s.await(ctx, "the pool is full", func(now *api.Stats) bool {
		return len(now.Backends) == 1 && now.Backends[0].Idle >= sessions
	}); err != nil {
		return err
	}
	if err := s.idle(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() {
		result, err := load.Run(ctx, load.Options{
			URLs: []string{"ws://" + s.proxy.Listen + "/echo"}, Connections: sessions, Ramp: time.Second, Rate: rate, Size: 1024, Text: true,
			Duration: time.Duration(2*s.rounds+2) * (s.phase + time.Second),
		}, nil)
		if err == nil {
			err = result.Err()
		}
		ended <- err
	}()
	if err := s.await(ctx, "all sessions run", func(now *api.Stats) bool { return now.Sessions.Active == int64(sessions) }); err != nil {
		return err
	}
	var ratios, quiet []float64
	for round := range s.rounds {
		var cost [2]float64
		for part := range 2 {
			changing := (round + part) % 2 // 1 with changes; each comes first in turn
			c, err := s.cost(ctx, changing == 1)
			if err != nil {
				return err
			}
			cost[changing] = c
		}
		quiet, ratios = append(quiet, cost[0]), append(ratios, cost[1]/cost[0])
	}
	end()
	<-ended // it was cut short
	show(fmt.Sprintf("proxy CPU per round trip without changes, us (%d sessions x %d/s)", sessions, rate), "%.1f", quiet)
	show("the same with 10 changes a second, ratio", "%.3f", ratios)
	return nil
}

// idle measures the processor time that a proxy without sessions spends on changes.
func (s *stage) idle(ctx context.Context) error {
	var spent [2]float64
	for part, changing := range []bool{false, true} {
		start, err := child.ReadCPU(s.proxy.PID())
		if err != nil {
			return err
		}
		if err := s.spend(ctx, changing); err != nil {
			return err
		}
		end, err := child.ReadCPU(s.proxy.PID())
		if err != nil {
			return err
		}
		spent[part] = float64(end.Since(start).Total.Microseconds()) / 1000 / s.phase.Seconds()
	}
	show("proxy CPU without sessions or changes, ms per second", "%.2f", spent[:1])
	show("the same with 10 changes a second", "%.2f", spent[1:])
	return nil
}

// cost returns the proxy's processor time per round trip in one part of a round, in microseconds.
func (s *stage) cost(ctx context.Context, changing bool) (float64, error) {
	before, err := s.proxy.Stats(ctx)
	if err != nil {
		return 0, err
	}
	start, err := child.ReadCPU(s.proxy.PID())
	if err != nil {
		return 0, err
	}
	if err := s.spend(ctx, changing); err != nil {
		return 0, err
	}
	end, err := child.ReadCPU(s.proxy.PID())
	if err != nil {
		return 0, err
	}
	after, err := s.proxy.Stats(ctx)
	if err != nil {
		return 0, err
	}
	if applied := after.Configuration.Changes - before.Configuration.Changes; changing && applied == 0 {
		return 0, fmt.Errorf("no change came into force")
	}
	n := after.Relayed.FramesFromBackends - before.Relayed.FramesFromBackends
	return float64(end.Since(start).Total.Nanoseconds()) / 1000 / float64(n), nil
}

// spend waits for one part of a round, and makes changes meanwhile if asked to.
func (s *stage) spend(ctx context.Context, changing bool) error {
	over := time.NewTimer(s.phase)
	defer over.Stop()
	ticker := time.NewTicker(changeInterval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if !changing {
			continue
		}
		if err := s.change(ctx, config.Mutation{Verb: config.Set, Kind: config.KindBackend, Name: "relay", Values: config.Values{
			"weight": fmt.Sprint(1 + n%2), // which needs nothing to be dialed or closed
		}}); err != nil {
			return err
		}
	}
}
