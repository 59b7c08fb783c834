package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// What may be left over: file descriptors and goroutines that the runtime starts once.
const (
	spareFiles      = 12
	spareGoroutines = 12
)

// drain removes all backends of a proxy and checks that no session, connection, open file or goroutine is left over.
func (r *run) drain(ctx context.Context, p *proxy, directory string) {
	wrong := func(kind, format string, args ...any) { r.ledger.wrong(p.name, kind, format, args...) }
	if err := p.config.write(p.config.withoutBackends()); err != nil {
		wrong("the configuration cannot be written", "%v", err)
		return
	}
	left := ""
	err := p.until(ctx, "nothing is left over", func() (bool, error) {
		left = r.left(ctx, p)
		return left == "", nil
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		wrong("something is left over", "%v: %s", err, left)
	}
	config := &configuration{services: p.config.services}
	fresh, err := startProxy(ctx, r.options.Binary, p.name+"-fresh", directory, config, p.machine)
	if err != nil {
		wrong("no fresh proxy to compare with", "%v", err)
		return
	}
	defer fresh.Kill()
	before, err := fresh.goroutines()
	if err != nil {
		wrong("the goroutines of the fresh proxy are unknown", "%v", err)
		return
	}
	after, err := p.goroutines()
	if err != nil {
		wrong("the goroutines are unknown", "%v", err)
		return
	}
	if len(after) > len(before)+spareGoroutines {
		wrong("goroutines are left over", "%d; a fresh proxy has %d; see the end of %s", len(after), len(before), filepath.Join(p.directory, "log"))
	}
}

// left describes the sessions and connections that a proxy and its servers still have; it is empty if there are none.
func (r *run) left(ctx context.Context, p *proxy) string {
	s, err := p.Stats(ctx)
	if err != nil {
		return err.Error()
	}
	var all []string
	note := func(n int, format string, args ...any) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d ", n)+fmt.Sprintf(format, args...))
		}
	}
	note(int(s.Sessions.Active), "sessions")
	note(len(s.Backends), "backends")
	for _, b := range s.Leaving {
		note(b.Leased, "leased connections of %s", b.Name)
		note(b.Resetting, "resetting connections of %s", b.Name)
		note(b.Retiring, "retiring connections of %s", b.Name)
	}
	for _, v := range s.Services {
		note(v.Queue.Waiting, "clients waiting in %s", v.Name)
	}
	for _, v := range r.services[p] {
		for _, w := range v.healthy {
			note(w.sim.Stats().Connections, "connections that %s sees", w.name)
		}
		if v.hostile != nil {
			note(v.hostile.read().open, "connections that %s sees", v.hostile.name)
		}
	}
	if p.unused >= 0 {
		note(p.openFiles()-p.unused-spareFiles, "more open files than before the backends were added, beyond %d", spareFiles)
	}
	return strings.Join(all, ", ")
}
