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

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
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
	present  bool // proxies that cannot be asked are not waited for

	said   string // without what only the passing of time changes
	saidAt time.Time
}

// staysInForce ends the errors of a waiter.
const staysInForce = "; the configuration change stays in force"

// run returns nil when nothing is left to wait for, or an error that says what is left.
func (w *waiter) run(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	left := "no answer yet"
	for more := true; more; more = tasks.Sleep(ctx, w.every) {
		now, same, err := w.left(ctx)
		switch {
		case err == nil && now == "":
			fmt.Fprintf(w.messages, "%s: done after %v\n", strings.Join(w.names, ", "), time.Since(began).Round(time.Second/10))
			return nil
		case err == nil:
			left = now
		case ctx.Err() == nil && !errors.As(err, new(*client.UnreachableError)): // an unreachable proxy may be restarting
			return err
		case ctx.Err() == nil:
			left, same = err.Error(), err.Error()
		}
		if ctx.Err() == nil {
			w.say(left, same)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("not done after %v: %s%s", w.timeout, left, staysInForce)
	}
	return fmt.Errorf("interrupted: %s%s", left, staysInForce)
}

// inForceTimeout is how long a proxy may take to put a change in force before its backends are emptied.
const inForceTimeout = 30 * time.Second

// inForce waits until the backends have the desired state.
func (w *waiter) inForce(ctx context.Context) error {
	first := *w
	first.timeout, first.messages, first.present = inForceTimeout, io.Discard, true
	first.to.left = func(*api.Backend) string { return "" }
	return first.run(ctx)
}

// say prints what is left, when same changes and every sayEvery.
func (w *waiter) say(left, same string) {
	now := time.Now()
	const least = time.Second
	if since := now.Sub(w.saidAt); since < least || same == w.said && since < sayEvery {
		return
	}
	w.said, w.saidAt = same, now
	fmt.Fprintln(w.messages, left)
}

// late reports whether backends do not have the desired state yet, and in a fleet at which proxies.
func (w *waiter) late(all []*api.Backend) (where string, late bool) {
	var proxies []string
	for _, b := range all {
		late = late || b.State != w.to.state
		for _, p := range b.Proxies {
			if p.State != w.to.state && !slices.Contains(proxies, p.Proxy) {
				proxies = append(proxies, p.Proxy)
			}
		}
	}
	if len(proxies) > 0 {
		return " at " + strings.Join(proxies, ", "), true
	}
	return "", late
}

// sessionsBy says how many sessions of a backend each proxy of a fleet serves; empty for one proxy.
func sessionsBy(b *api.Backend) string {
	var all []string
	for _, p := range b.Proxies {
		if n := p.Leased + p.Resetting; n > 0 {
			all = append(all, fmt.Sprintf("%s %d", p.Proxy, n))
		}
	}
	if len(b.Proxies) < 2 || len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

// left returns in words what is left to wait for; empty for nothing. same is equal as long as nothing but the passing of time has changed that.
func (w *waiter) left(ctx context.Context) (text, same string, err error) {
	var now api.Stats
	if err := w.proxy.Get(ctx, api.StatsPath, nil, &now); err != nil {
		return "", "", err
	}
	var words []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(w.names))) {
		all := now.BackendsOf(name)
		if where, late := w.late(all); late || len(all) == 0 && now.Lookup(name) == nil {
			words = append(words, name+": version "+w.version+" is not in force yet"+where)
			continue
		}
		if len(all) == 0 && w.to.state == enabling.state { // nothing is served before its name has servers
			words = append(words, strings.TrimSuffix(name+": no server was found yet: "+now.Lookup(name).Reason, ": "))
		}
		for _, b := range all {
			if text := w.to.left(b); text != "" {
				words = append(words, b.Name+": "+text+sessionsBy(b))
			}
		}
	}
	same = strings.Join(words, "; ")
	if now.Fleet != nil && !w.present {
		for i := range now.Fleet.Missing {
			m := &now.Fleet.Missing[i]
			words = append(words, m.String()+" (once it is known to be gone: wsbouncer proxy forget "+m.ID+")")
			same += "; " + m.ID // Why says for how long it was not seen
		}
	}
	return strings.Join(words, "; "), same, nil
}
