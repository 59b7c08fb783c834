//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
)

// force measures how long it takes until the first session runs on a new backend. A client waits in the queue of a service that has
// no other backend.
func (s *stage) force(ctx context.Context) error {
	target, err := handshake.ParseTarget("ws://" + s.proxy.Listen + "/echo")
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range changes {
		name := fmt.Sprint("gpu-", i)
		served := make(chan error, 1)
		var at time.Time
		go func() {
			client, err := target.Dial(ctx)
			at = time.Now()
			if err == nil {
				err = client.Conn.Close()
			}
			served <- err
		}()
		if err := s.await(ctx, "a client that waits", func(now *api.Stats) bool {
			return len(now.Services) == 1 && now.Services[0].Queue.Waiting == 1
		}); err != nil {
			return err
		}
		begun := time.Now()
		if err := s.change(ctx, s.backend(name, 4)); err != nil {
			return err
		}
		if err := <-served; err != nil {
			return err
		}
		took = append(took, at.Sub(begun))
		if err := s.change(ctx, remove(name)); err != nil {
			return err
		}
		if err := s.await(ctx, "the backend goes", func(now *api.Stats) bool { return len(now.Backends)+len(now.Leaving) == 0 }); err != nil {
			return err
		}
	}
	show(fmt.Sprintf("first session on a new backend, ms (%d changes)", changes), "%.1f", milliseconds(took))
	return nil
}
