//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/rivals"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	dashboards     = 5
	scrapeInterval = 5 * time.Second
	watchedRival   = "watched"
)

// withAndWithoutWatchers returns the rivals of the watched scenario: the proxy alone, and the proxy that logs records of sessions and is
// watched.
func withAndWithoutWatchers(_ context.Context, st *stage, _ []rivals.Rival) ([]rivals.Rival, error) {
	return []rivals.Rival{
		rivals.WSBouncer("wsbouncer", st.wsbouncer, "echo", rivals.PoolSize),
		rivals.WSBouncer(watchedRival, st.wsbouncer, "echo", rivals.PoolSize, "--log-level", "info"),
	}, nil
}

// observeWatched does what observe does, with watchers if the rival is the watched one.
func observeWatched(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error) {
	w, err := startRival(ctx, st, r, l.sessions+l.spare, b)
	if err != nil {
		return observation{}, err
	}
	defer w.stop()
	var all watchers
	if r.Name == watchedRival {
		all.start(ctx, w.admin)
	}
	err = w.offer(ctx, l)
	err = cmp.Or(err, all.end(l.duration))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.busy = float64(w.seen.cpu.Total) / float64(l.duration)
	w.seen.overload = w.seen.load.overload(l)
	return w.seen, cmp.Or(err, w.failed, w.seen.load.broken())
}

// watchers read everything that shows what a proxy does, as dashboards, `wsbouncer top` and Prometheus do.
type watchers struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	scrapes atomic.Int64
	lists   atomic.Int64 // of sessions, which all streams got

	mu     sync.Mutex
	failed error // guarded by mu; the first one
}

// start starts the watchers of the proxy with that admin API.
func (w *watchers) start(ctx context.Context, admin string) {
	ctx, w.cancel = context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{}}
	run := func(f func() error) {
		w.running.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				w.mu.Lock()
				w.failed = cmp.Or(w.failed, err)
				w.mu.Unlock()
			}
		})
	}
	top := api.EventQuery{IntervalSeconds: 2, SessionQuery: api.SessionQuery{Sort: "age", Limit: 100}}
	for _, query := range append(make([]string, dashboards), top.Values().Encode()) { // dashboards take the defaults
		run(func() error { return w.stream(ctx, client, "http://"+admin+api.EventsPath+"?"+query) })
	}
	run(func() error { return w.scrape(ctx, client, "http://"+admin+"/metrics") })
	context.AfterFunc(ctx, client.CloseIdleConnections)
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
	scrapes, lists := int64(over/scrapeInterval), int64((dashboards+1)*(over/(2*time.Second)))
	if w.scrapes.Load() < scrapes || w.lists.Load() < lists {
		return fmt.Errorf("the watchers made %d scrapes and read %d lists of sessions in %v: expected %d and %d", w.scrapes.Load(), w.lists.Load(), over, scrapes, lists)
	}
	return nil
}

// stream reads a stream of events until the context ends.
func (w *watchers) stream(ctx context.Context, client *http.Client, url string) error {
	body, err := open(ctx, client, url)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "event: "+api.EventSessions) {
			w.lists.Add(1)
		}
	}
	return cmp.Or(lines.Err(), errors.New("the proxy ended the stream of events"))
}

// scrape reads the metrics again and again until the context ends.
func (w *watchers) scrape(ctx context.Context, client *http.Client, url string) error {
	ticker := time.NewTicker(scrapeInterval)
	defer ticker.Stop()
	for {
		body, err := open(ctx, client, url)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, body)
		_ = body.Close()
		if err != nil {
			return err
		}
		w.scrapes.Add(1)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// open fetches a page, which must be answered with 200. The caller closes its body.
func open(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return response.Body, nil
}
