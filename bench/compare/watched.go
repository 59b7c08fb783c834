//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

const (
	dashboards     = 5
	scrapeInterval = 5 * time.Second
)

// watchers read everything that shows what a proxy does, as dashboards, `wsbouncer top` and Prometheus do.
type watchers struct {
	cancel  context.CancelFunc
	streams int // of events
	running sync.WaitGroup
	scrapes atomic.Int64
	lists   atomic.Int64 // of sessions, which all streams got
	tapped  atomic.Int64 // events of a tap

	mu     sync.Mutex
	failed error // guarded by mu; the first one
}

// start starts the watchers of the proxy with that admin API: dashboards, `wsbouncer top`, Prometheus, and more.
func (w *watchers) start(ctx context.Context, admin string, more ...func(ctx context.Context, c *client.Client) error) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.streams = dashboards + 1
	all := append([]func(context.Context, *client.Client) error{w.scrape}, more...)
	top := api.EventQuery{IntervalSeconds: 2, SessionQuery: api.SessionQuery{Sort: "age", Limit: 100}}
	for _, query := range append(make([]url.Values, dashboards), top.Values()) { // dashboards take the defaults
		all = append(all, func(ctx context.Context, c *client.Client) error { return w.stream(ctx, c, query) })
	}
	for _, watch := range all {
		w.running.Go(func() {
			c, err := client.New(admin, "")
			if err == nil {
				defer c.Close()
				err = watch(ctx, c)
			}
			if err != nil && ctx.Err() == nil {
				w.mu.Lock()
				w.failed = cmp.Or(w.failed, err)
				w.mu.Unlock()
			}
		})
	}
}

// end ends the watchers, and returns an error if they have not seen what they should in that time.
func (w *watchers) end(over time.Duration) error {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	w.running.Wait()
	if w.failed != nil {
		return w.failed
	}
	scrapes, lists := int64(over/scrapeInterval), int64(w.streams)*int64(over/(2*time.Second))
	if w.scrapes.Load() < scrapes || w.lists.Load() < lists {
		return fmt.Errorf("the watchers made %d scrapes and read %d lists of sessions in %v: expected %d and %d", w.scrapes.Load(), w.lists.Load(), over, scrapes, lists)
	}
	return nil
}

// stream reads a stream of events until the context ends.
func (w *watchers) stream(ctx context.Context, c *client.Client, query url.Values) error {
	events, err := c.Stream(ctx, api.EventsPath, query, 0)
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		name, _, err := events.Event()
		if err != nil {
			return err
		}
		if name == api.EventSessions {
			w.lists.Add(1)
		}
	}
}

// scrape reads the metrics again and again until the context ends.
func (w *watchers) scrape(ctx context.Context, c *client.Client) error {
	for {
		lines, err := c.Stream(ctx, "/metrics", nil, 0)
		for err == nil {
			_, err = lines.Line()
		}
		if lines != nil {
			_ = lines.Close()
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		w.scrapes.Add(1)
		if err := kit.Wait(ctx, scrapeInterval); err != nil {
			return err
		}
	}
}
