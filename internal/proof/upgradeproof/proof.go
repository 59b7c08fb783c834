//go:build linux

// Package upgradeproof proves that replacing a running proxy by another version of the program cuts nothing: real processes replace each
// other under sessions that last and clients that come, while the connections of each server are counted as its kernel sees them. It also
// has upgrades fail, and expects that nobody notices.
package upgradeproof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/proxyprocess"
)

// Options say what to prove.
type Options struct {
	Binary, Other string        // two versions of the program, which replace each other in turn
	Sessions      int           // that last from the beginning to the end
	Rate          int           // new sessions a second, which last a few seconds
	Upgrades      int           // in a row
	Every         time.Duration // the time between two of them
	Servers       int
	Cap           int  // connections of each server
	Failures      bool // also a program that fails, and one that is killed in the middle
	// Pause is the longest that a client may take to get its session around an upgrade, at the 99th percentile; 0 for any time.
	Pause time.Duration
	// Uncounted: connections above a server's cap are reported, and no failure.
	Uncounted bool
	Directory string    // for logs and state; it must exist
	Out       io.Writer // gets the report
}

// Run carries out the proof. The error has everything that was found.
func Run(ctx context.Context, o Options) error {
	r := &run{o: o, began: time.Now()}
	for range o.Servers {
		server, err := sim.Start(sim.Options{})
		if err != nil {
			return err
		}
		defer server.Close()
		r.servers = append(r.servers, server)
	}
	if err := r.configure(); err != nil {
		return err
	}
	r.counter = startCounter(r.servers)
	defer r.counter.end()
	if err := r.start(ctx); err != nil {
		return err
	}
	defer r.killAll()
	err := r.play(ctx)
	r.report()
	return errors.Join(err, errors.Join(r.findings()...))
}

// run is one proof. One goroutine owns it, but for what its parts say.
type run struct {
	o        Options
	began    time.Time
	servers  []*sim.Server
	counter  *counter
	clients  *clients
	listen   string // address for clients
	proxies  []*process
	upgrades []upgrade
	found    []error
}

// upgrade is one upgrade that was made.
type upgrade struct {
	what     string
	at       time.Time // when it was asked for
	took     time.Duration
	from, to time.Time // around the moment when another process began to accept
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.o.Out, "%7.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

func (r *run) find(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	r.say("FOUND: %v", err)
	r.found = append(r.found, err)
}

// configure writes the configuration of the proxies.
func (r *run) configure() error {
	var b strings.Builder
	b.WriteString("services:\n  echo:\n    path: /echo\n    profile: echo\n    queue: 2000\n    queue-timeout: 30s\nbackends:\n")
	for i, server := range r.servers {
		fmt.Fprintf(&b, "  server-%d:\n    service: echo\n    url: %s\n    connections: %d\n    warm: %d\n", i+1, server.URL(), r.o.Cap, r.o.Cap/10)
	}
	return os.WriteFile(filepath.Join(r.o.Directory, "services.yaml"), []byte(b.String()), 0o600)
}

// play has the clients come, the proxies replace each other, and the clients go.
func (r *run) play(ctx context.Context) error {
	r.clients = newClients("ws://" + r.listen + "/echo")
	defer r.clients.close()
	if err := r.clients.stay(ctx, r.o.Sessions); err != nil {
		return err
	}
	r.say("%d sessions last from now on", r.o.Sessions)
	coming := r.clients.come(ctx, r.o.Rate)
	if err := sleep(ctx, r.o.Every); err != nil {
		return err
	}
	for i := range r.o.Upgrades {
		binary := r.o.Other
		if i%2 == 1 {
			binary = r.o.Binary
		}
		if err := r.upgrade(ctx, fmt.Sprintf("upgrade %d", i+1), binary); err != nil {
			return err
		}
		if r.o.Failures && i == 0 {
			if err := r.failures(ctx); err != nil {
				return err
			}
		}
		if err := sleep(ctx, r.o.Every); err != nil {
			return err
		}
	}
	coming()
	r.memory("before the sessions that lasted end")
	r.clients.leave()
	r.say("all clients have left")
	return r.ends(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report prints what was measured.
func (r *run) report() {
	c := r.clients
	if c == nil {
		return
	}
	calm, around := c.times(r.upgrades)
	fmt.Fprintf(r.o.Out, "\n%d upgrades; sessions: %d, of which %d lasted; messages: %d\n", len(r.upgrades), c.begun.Load(), r.o.Sessions, c.messages.Load())
	fmt.Fprintf(r.o.Out, "refused %d, reset %d, cut %d, messages lost %d\n", c.count(refused), c.count(reset), c.count(cut), c.count(lost))
	fmt.Fprintf(r.o.Out, "time to get a session: p50 %v, p99 %v, longest %v; within %v of a hand-over (%d sessions): p50 %v, p99 %v, longest %v\n",
		quantile(calm, .5), quantile(calm, .99), quantile(calm, 1), margin, len(around), quantile(around, .5), quantile(around, .99), quantile(around, 1))
	for i, most := range r.counter.most() {
		fmt.Fprintf(r.o.Out, "server %d: at most %d connections, cap %d\n", i+1, most, r.o.Cap)
	}
}

// findings returns what must not be.
func (r *run) findings() []error {
	found := r.found
	if r.clients != nil {
		found = append(found, r.clients.failures()...)
		if _, around := r.clients.times(r.upgrades); r.o.Pause > 0 && quantile(around, .99) > r.o.Pause {
			found = append(found, fmt.Errorf("around upgrades, clients got their sessions after %v at the 99th percentile; at most %v is allowed", quantile(around, .99), r.o.Pause))
		}
	}
	if err := proxyprocess.Races(r.o.Directory); err != nil {
		found = append(found, err)
	}
	for i, most := range r.counter.most() {
		if most > r.o.Cap && !r.o.Uncounted {
			found = append(found, fmt.Errorf("server %d had %d connections; its cap is %d", i+1, most, r.o.Cap))
		}
	}
	return found
}
