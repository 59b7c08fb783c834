package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/api"
)

// pollEvery is the time between two requests for the statistics.
const pollEvery = 250 * time.Millisecond

// sayEvery is how often unchanged progress is repeated.
const sayEvery = 15 * time.Second

// getter reads from an admin API; a [client.Client].
type getter interface {
	Get(ctx context.Context, path string, query url.Values, to any) error
}

// waiter waits until backends of a proxy have reached the desired state.
type waiter struct {
	proxy    getter
	names    []string // of backends
	to       transition
	version  string // of the configuration
	timeout  time.Duration
	every    time.Duration
	messages io.Writer

	said   string
	saidAt time.Time
}

// run returns nil when nothing is left to wait for, or an error that says what is left.
func (w *waiter) run(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	left := "no answer yet"
	for {
		now, err := w.left(ctx)
		switch {
		case err == nil && now == "":
			fmt.Fprintf(w.messages, "%s: done after %v\n", strings.Join(w.names, ", "), time.Since(began).Round(time.Second/10))
			return nil
		case err == nil:
			left = now
		case ctx.Err() == nil && !errors.As(err, new(*client.UnreachableError)): // an unreachable proxy may be restarting
			return err
		case ctx.Err() == nil:
			left = err.Error()
		}
		if ctx.Err() == nil {
			w.say(left)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not done after %v: %s; the configuration change stays in force", w.timeout, left)
			}
			return fmt.Errorf("interrupted: %s; the configuration change stays in force", left)
		}
	}
}

// inForceTimeout is how long a proxy may take to put a change in force before its backends are emptied.
const inForceTimeout = 30 * time.Second

// inForce waits until the backends have the desired state.
func (w *waiter) inForce(ctx context.Context) error {
	first := *w
	first.timeout, first.messages = inForceTimeout, io.Discard
	first.to.left = func(*api.Backend) string { return "" }
	return first.run(ctx)
}

// say prints what is left, when that changes and every sayEvery.
func (w *waiter) say(left string) {
	now := time.Now()
	const least = time.Second
	if since := now.Sub(w.saidAt); since < least || left == w.said && since < sayEvery {
		return
	}
	w.said, w.saidAt = left, now
	fmt.Fprintln(w.messages, left)
}

// left returns in words what is left to wait for; empty for nothing.
func (w *waiter) left(ctx context.Context) (string, error) {
	var now api.Stats
	if err := w.proxy.Get(ctx, api.StatsPath, nil, &now); err != nil {
		return "", err
	}
	if len(now.Backends) > 0 && !knowsBackends(&now) {
		return "", errors.New("this proxy is an older version: its statistics do not name the backends, so --wait cannot tell what is left")
	}
	var words []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(w.names))) {
		all := now.BackendsOf(name)
		if len(all) == 0 && now.Lookup(name) == nil || slices.ContainsFunc(all, func(b *api.Backend) bool { return b.State != w.to.state }) {
			words = append(words, name+": version "+w.version+" is not in force yet")
			continue
		}
		for _, b := range all {
			if text := w.to.left(b); text != "" {
				words = append(words, b.Name+": "+text)
			}
		}
	}
	return strings.Join(words, "; "), nil
}
