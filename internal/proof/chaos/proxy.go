package chaos

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

// machine is what the proxy of a scenario runs on.
type machine struct {
	descriptors int      // file-descriptor limit; 0 for the system's limit
	environment []string // added to this process's
	arguments   []string // further ones of the proxy
	flood       int      // idle connections that flood opens at once, and drops after some seconds
}

// proxy is a proxy that runs as a process of its own, with a configuration and a state directory of its own.
type proxy struct {
	*kit.Proxy
	config  *configuration
	machine machine
	secured string // address for clients with TLS; empty for none
	unused  int    // open files before it had backends; -1 where that cannot be known
}

// startProxy starts the binary, with services but without backends, and returns when it answers. With a certificate, it listens for TLS, too.
func startProxy(ctx context.Context, binary, name, directory string, config *configuration, m machine, certificate *stage.Certificate) (*proxy, error) {
	p := &proxy{config: config, machine: m}
	var err error
	if p.Proxy, err = kit.NewProxy(binary, name, directory); err != nil {
		return nil, err
	}
	config.file = filepath.Join(p.Directory, "config.yaml")
	if err := config.write(config.withoutBackends()); err != nil {
		return nil, err
	}
	arguments := append([]string{
		"--database", config.file, "--handshake-timeout", "3s", "--drain-timeout", "5s",
	}, m.arguments...)
	if certificate != nil {
		if p.secured, err = freeport.Address(); err != nil {
			return nil, err
		}
		arguments = append(arguments, "--tls-listen", p.secured, "--tls-cert", certificate.File(), "--tls-key", certificate.KeyFile())
	}
	p.Environment = m.environment
	if m.descriptors > 0 {
		p.Through = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, m.descriptors)}
	}
	if err := p.Start(ctx, arguments...); err != nil {
		p.KillAll()
		return nil, err
	}
	p.unused = p.OpenFiles()
	return p, nil
}

// goroutines ends the process so that it writes its stacks, and returns those of our code, the most frequent first.
func (p *proxy) goroutines() (stacks []string, err error) {
	if err := p.Signal(syscall.SIGQUIT); err != nil {
		return nil, err
	}
	p.Wait(kit.StartTimeout)
	for block := range strings.SplitSeq(p.Log(), "\n\n") {
		if strings.HasPrefix(block, "goroutine ") && strings.Contains(block, "wsbouncer/internal/") {
			stacks = append(stacks, block)
		}
	}
	if len(stacks) == 0 {
		return nil, fmt.Errorf("proxy %s has written no stacks: see %s", p.Name, p.LogFile())
	}
	return stacks, nil
}

// What may be left over: file descriptors and goroutines that the runtime starts once.
const (
	spareFiles      = 12
	spareGoroutines = 12
)

// drain removes all backends of a proxy and checks that no session, connection, open file or goroutine is left over.
func (r *run) drain(ctx context.Context, p *proxy, directory string) {
	wrong := func(kind, format string, args ...any) { r.journal.Violation(p.Name, kind, nil, format, args...) }
	if err := p.config.write(p.config.withoutBackends()); err != nil {
		wrong("the configuration cannot be written", "%v", err)
		return
	}
	left := ""
	err := p.Until(ctx, "nothing is left over", func() (bool, error) {
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
	fresh, err := startProxy(ctx, r.options.Binary, p.Name+"-fresh", directory, config, p.machine, nil)
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
		wrong("goroutines are left over", "%d; a fresh proxy has %d; see the end of %s", len(after), len(before), p.LogFile())
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
		note(p.OpenFiles()-p.unused-spareFiles, "more open files than before the backends were added, beyond %d", spareFiles)
	}
	return strings.Join(all, ", ")
}

// flood uses up a proxy's file descriptors with idle connections for two of every four seconds, until ctx ends.
func (r *run) flood(ctx context.Context, p *proxy) {
	var dialer net.Dialer
	for kit.Wait(ctx, 2*time.Second) == nil {
		r.journal.Event("%s: %d silent connections", p.Name, p.machine.flood)
		var conns []net.Conn
		for range p.machine.flood {
			conn, err := dialer.DialContext(ctx, "tcp", p.Listen)
			if err != nil {
				break
			}
			conns = append(conns, conn)
		}
		_ = kit.Wait(ctx, 2*time.Second)
		for _, conn := range conns {
			_ = conn.Close()
		}
		r.journal.Event("%s: closed the silent connections", p.Name)
	}
}
