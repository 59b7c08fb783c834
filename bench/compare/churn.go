//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/results"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
	loads "github.com/wsbouncer/wsbouncer/internal/load"
)

// A wave of sessions begins every waveInterval, and its sessions last a sessionTime.
const (
	waveInterval = 100 * time.Millisecond
	sessionTime  = time.Second
)

// observeChurn lets waves of short sessions come and go, so that l.sessions are open at a time. Processor time counts from the
// first wave to the end of the last.
func observeChurn(ctx context.Context, st *stage, r rivals.Rival, l load, b behind) (observation, error) {
	// A wave closes while the next one connects, so twice as many may be there at once.
	w, err := startRival(ctx, st, r, 2*l.sessions, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	w.begin()
	done, err := churn(ctx, w.address, l)
	w.end()
	if err != nil {
		return observation{}, err
	}
	if w.Failure() != nil {
		return observation{}, w.Failure()
	}
	w.seen.load, w.seen.sessions = summary(done), 0
	w.seen.sessions = w.seen.load.Connected
	w.seen.peak = w.read(child.ReadPeak)
	if w.seen.sessions == 0 {
		w.failed = cmp.Or(w.failed, w.seen.load.broken())
	}
	return w.seen, w.failed
}

// churn starts the waves and waits for all of them to end.
func churn(ctx context.Context, address string, l load) ([]*loads.Result, error) {
	var running sync.WaitGroup
	var mu sync.Mutex // guards done and failed
	var done []*loads.Result
	var failed error
	each := l.sessions / int(sessionTime/waveInterval)
	ticker := time.NewTicker(waveInterval)
	defer ticker.Stop()
	for range int(l.duration / waveInterval) {
		running.Go(func() {
			result, err := loads.Run(ctx, loads.Options{
				URLs: []string{"ws://" + address + "/"}, Connections: each, Rate: l.rate, Size: l.size, Text: !l.binary,
				Duration: sessionTime, Drain: 2 * time.Second, Tick: time.Millisecond,
			}, nil)
			mu.Lock()
			defer mu.Unlock()
			if failed = errors.Join(failed, err); err == nil {
				done = append(done, result)
			}
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	running.Wait()
	return done, cmp.Or(ctx.Err(), failed)
}

// summary adds the waves up. The median is that of the waves' medians, the longest that of all.
func summary(waves []*loads.Result) loadResult {
	sum := loadResult{Figures: loads.Figures{Errors: map[string]int64{}}}
	var medians []float64
	for _, w := range waves {
		sum.Connections += w.Connections
		sum.Connected += w.Connected
		sum.ConnectFailures += w.ConnectFailures
		sum.Sent += w.Sent
		sum.Received += w.Received
		sum.Lost += w.Lost
		sum.Mixed += w.Mixed
		sum.Failed += w.Failed
		medians = append(medians, milliseconds(w.FirstEcho.Quantile(0.5)))
		sum.FirstEcho.Max = max(sum.FirstEcho.Max, milliseconds(w.FirstEcho.Max()))
		for kind, n := range w.Errors {
			sum.Errors[kind] += n
		}
	}
	sum.FirstEcho.P50 = results.NewSpread(medians).Median
	return sum
}
