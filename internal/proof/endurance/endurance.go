//go:build linux

// Package endurance proves that a proxy can run for days: that nothing it uses grows.
//
// Clients come all the time, over TLS and with API keys, and others speak while servers are killed. Meanwhile an operator reloads the settings, changes
// the configuration, replaces keys and certificates, upgrades the running process and restarts PostgreSQL. What the proxy uses is sampled into a file,
// and each figure's slope is held against a limit. A run that was interrupted continues in its directory.
package endurance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/lab/stage"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// Options say what to prove.
type Options struct {
	Binary    string
	Duration  time.Duration // under load, of all runs in the directory together
	Warmup    time.Duration // how long a process, and the run, may grow before it is judged
	Tolerance float64       // multiplies the limits, for short runs
	Rate      int           // new sessions a second, which last up to three seconds
	Sessions  int           // at a time, that move to other servers when theirs are killed
	Directory string        // for samples, the report, logs and state; it is made if necessary
	Out       io.Writer     // gets a line for each event, and the report

	// The times between two samples, killed servers, reloads, replacements of keys and certificates, restarts of PostgreSQL, and upgrades.
	Sample, Kill, Reload, Rotate, Restart, Upgrade time.Duration
}

// Validate returns an error that names the wrong option, its value and what to use instead.
func (o *Options) Validate() error {
	const least, most = 100 * time.Millisecond, 366 * 24 * time.Hour
	return errors.Join(kit.Within("duration", o.Duration, least, most), kit.Within("warmup", o.Warmup, 0, o.Duration),
		kit.Within("tolerance", o.Tolerance, 0.001, 1e9), kit.Within("rate", o.Rate, 1, 5000), kit.Within("sessions", o.Sessions, 1, 5000),
		kit.Within("sample", o.Sample, least, most), kit.Within("kill", o.Kill, least, most), kit.Within("reload", o.Reload, least, most),
		kit.Within("rotate", o.Rotate, least, most), kit.Within("restart", o.Restart, least, most), kit.Within("upgrade", o.Upgrade, least, most))
}

func (o *Options) file(name string) string { return filepath.Join(o.Directory, name) }

// run is one run in the directory. One goroutine owns it, but for the fields that are guarded.
type run struct {
	o       Options
	journal *kit.Journal
	records *os.File
	begin   time.Time     // of the load
	before  time.Duration // under load, in earlier runs

	state    state
	echoes   []*sim.Server // of the sessions that come
	talkers  []*sim.Server // that are killed
	database *pgtest.Server
	dsn      string // of the database's superuser
	proxy    *kit.Proxy
	secured  string             // address of the proxy for TLS
	live     *stage.Certificate // that the proxy serves
	next     *stage.Certificate // after that one; nil for the first clients
	key      string             // name of the clients' key
	leave    func()             // ends the clients, and waits for them
	// Numbers of changes of the configuration, replacements of the key and the certificate, and restarts of PostgreSQL.
	changes, turn, restarts int

	mu    sync.Mutex
	count map[string]int // guarded by mu: what happened since the last record
	found map[string]int // guarded by mu: what must not happen, since then
}

// Run carries out the proof, or what is left of it. The error says what was found, and the report shows it.
func Run(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Directory, 0o755); err != nil {
		return err
	}
	all, err := readRecords(o.recordFile())
	if err != nil {
		return err
	}
	r := &run{o: o, count: make(map[string]int), found: make(map[string]int), leave: func() {}}
	if len(all) > 0 {
		r.before = time.Duration(all[len(all)-1].Hours * float64(time.Hour))
	}
	if r.before < o.Duration {
		if err := r.play(ctx); err != nil {
			return err
		}
		if all, err = readRecords(o.recordFile()); err != nil {
			return err
		}
	}
	return o.conclude(all)
}

// play has everything happen until the time is over.
func (r *run) play(ctx context.Context) (err error) {
	if r.records, err = os.OpenFile(r.o.recordFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer r.records.Close()
	events, err := os.OpenFile(r.o.file("events"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer events.Close()
	r.journal = kit.NewJournal(io.MultiWriter(r.o.Out, events))
	r.journal.Event("%v of %v are left, in %s", (r.o.Duration - r.before).Round(time.Second), r.o.Duration, r.o.Directory)
	defer r.clear()
	playing, stop := context.WithCancel(ctx)
	defer stop()
	if err := r.stage(playing); err != nil {
		return err
	}
	r.begin = time.Now()
	crew := kit.NewCrew(playing)
	defer crew.End()
	crew.Go(r.sample)
	crew.Go(r.kill)
	if err := r.operate(playing); err != nil {
		if ctx.Err() == nil {
			r.find("the proof could not continue", "%v", err)
		}
		stop()
		crew.End()
		return errors.Join(err, r.write(&record{}))
	}
	r.leave()
	crew.End()
	if err := r.proxy.End(endTimeout); err != nil {
		r.find("the proxy did not end well", "%v", err)
	}
	if err := r.write(&record{}); err != nil {
		return err
	}
	r.database.Remove()
	return nil
}

// happened counts what the report shows.
func (r *run) happened(what string, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[what] += times
}

// mostFound is how many of a kind are described between two records.
const mostFound = 10

// find records something that must not happen.
func (r *run) find(kind, format string, args ...any) {
	r.mu.Lock()
	r.found[kind]++
	described := r.found[kind] <= mostFound
	r.mu.Unlock()
	if described {
		r.journal.Event("FOUND %s: %s", kind, fmt.Sprintf(format, args...))
	}
}

// hours returns how long there has been load.
func (r *run) hours() float64 { return (r.before + time.Since(r.begin)).Hours() }

// clear ends what is left, and keeps the database.
func (r *run) clear() {
	if r.proxy != nil {
		r.proxy.KillAll()
	}
	r.leave()
	if r.database != nil {
		_ = r.database.Stop()
	}
	for _, server := range append(r.echoes, r.talkers...) {
		server.Close()
	}
}
