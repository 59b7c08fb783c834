//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// large measures how long a store takes to load and validate many backends, and how long it takes to find the one that changed.
func (s *stage) large(ctx context.Context) error {
	kit.StopAll(s.proxy.Process) // it would load them at the same time
	before, err := s.store.Load(ctx)
	if err != nil {
		return err
	}
	content := before.Content()
	for i := range backends {
		b := config.DefaultBackend()
		b.Service, b.URL = "echo", fmt.Sprintf("ws://10.%d.%d.%d:2700", i>>16, i>>8&255, i&255)
		b.Labels = map[string]string{"zone": "a", "rack": fmt.Sprint(i % 40)}
		content.Backends[fmt.Sprintf("gpu-%05d", i)] = b
	}
	last, err := s.store.Apply(ctx, config.Change{Expect: before.Version(), Who: "bench", Content: &content})
	if err != nil {
		return err
	}
	var loads, diffs, sums []time.Duration
	for i := range changes {
		if err := s.change(ctx, config.Mutation{Verb: config.Set, Kind: config.KindBackend, Name: "gpu-00007", Values: config.Values{
			"connections": fmt.Sprint(10 + i),
		}}); err != nil {
			return err
		}
		begun := time.Now()
		next, err := s.store.Load(ctx)
		if err != nil {
			return err
		}
		loaded := time.Now()
		if edits := last.Diff(next); len(edits) != 1 {
			return fmt.Errorf("%d edits, want one", len(edits))
		}
		ended := time.Now()
		loads, diffs, sums = append(loads, loaded.Sub(begun)), append(diffs, ended.Sub(loaded)), append(sums, ended.Sub(begun))
		last = next
	}
	show(fmt.Sprintf("load and validate %d backends, ms", backends), "%.1f", milliseconds(loads))
	show("compare them with those before, ms", "%.1f", milliseconds(diffs))
	show("both, ms", "%.1f", milliseconds(sums))
	return nil
}
