// Package problems keeps what is wrong with the running proxy: once a second it has package diagnosis look at the statistics, logs which
// problems begin and end, and keeps those of the past, also on disk ([History]).
package problems

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// interval is how often the proxy looks.
const interval = time.Second

// Options are the settings of a keeper.
type Options struct {
	// Source returns the statistics and what was counted. Only the keeper's goroutine calls it.
	Source func() (api.Stats, meter.Snapshot)
	// File is where the past is kept; empty for in memory only.
	File string
	// Mine reports whether the file is this process's to read and write, and NotMine is why it is not. A nil Mine means that it is.
	Mine    func() bool
	NotMine error
	Guard   *panics.Guard // recovers from panics in the keeper's goroutine; nil lets them end the process
	Log     *slog.Logger
}

// Keeper knows what is wrong. Its methods may be called from any goroutine. A nil keeper knows nothing, and says that nothing is wrong.
type Keeper struct {
	options Options // static
	started time.Time
	history *History
	end     chan struct{}
	once    sync.Once
	running sync.WaitGroup // the goroutine
	watch   diagnosis.Watch
	state   atomic.Pointer[state]
}

// state is what the last look has found. It does not change.
type state struct {
	problems []api.Problem
	replies  map[diagnosis.BackendName]diagnosis.Reply
}

// New returns a keeper that has not looked yet. Close ends it.
func New(o Options) *Keeper {
	k := &Keeper{options: o, started: time.Now(), end: make(chan struct{}), history: openHistory(&o)}
	k.watch.Carry(k.history.open())
	k.state.Store(&state{problems: []api.Problem{}})
	return k
}

// Start has the keeper look from now on. It is called once.
func (k *Keeper) Start() { k.running.Go(k.run) }

// Close ends the keeper, and waits until its goroutine has ended and the past is written.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.once.Do(func() { close(k.end) })
	k.running.Wait()
	for _, p := range k.Problems() {
		if p.Kind == string(diagnosis.ProxyDraining) { // it ends with the process; all others may continue in the next one
			k.history.ended(&api.PastProblem{Problem: p, Ended: time.Now().UTC()})
		}
	}
	k.history.close()
}

// HandOver has the keeper write nothing more: a successor keeps the past from now on.
func (k *Keeper) HandOver() {
	if k != nil {
		k.history.handOver()
	}
}

// Problems returns what is wrong now, by whom it hurts. The caller must not change it.
func (k *Keeper) Problems() []api.Problem {
	if k == nil {
		return []api.Problem{}
	}
	return k.state.Load().problems
}

// Reply returns how long a typical session of a backend takes to its first reply lately; the zero value if that is not known.
func (k *Keeper) Reply(service, backend string) diagnosis.Reply {
	if k == nil {
		return diagnosis.Reply{}
	}
	return k.state.Load().replies[diagnosis.BackendName{Service: service, Backend: backend}]
}

// List returns what is wrong now, and what was. The caller must not change it.
func (k *Keeper) List() api.ProblemList {
	list := api.ProblemList{Problems: k.Problems(), Past: []api.PastProblem{}}
	if k != nil {
		list.Past, list.Unsaved = k.history.past()
	}
	return list
}

func (k *Keeper) run() {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		k.guarded(k.look)
		select {
		case <-k.end:
			return
		case <-tick.C:
		}
	}
}

// guarded calls f and survives its panic, if the options say so.
func (k *Keeper) guarded(f func()) {
	defer k.options.Guard.Recover("problems", nil)
	f()
}

// look looks once.
func (k *Keeper) look() {
	stats, meters := k.options.Source()
	now := time.Now()
	out := k.watch.Observe(&diagnosis.Observation{Now: now, Elapsed: now.Sub(k.started), Stats: &stats, Meters: &meters})
	k.state.Store(&state{problems: out.Problems, replies: k.watch.Replies()})
	for i := range out.Begun {
		p := &out.Begun[i]
		k.options.Log.Warn("problem", attributes(p)...)
		k.history.begun(p)
	}
	for i := range out.Ended {
		p := &out.Ended[i]
		k.options.Log.Info("problem has ended", "kind", p.Kind, "what", p.What, "lasted", p.Ended.Sub(p.Since).Round(time.Second))
		k.history.ended(p)
	}
	k.history.report()
}

func attributes(p *api.Problem) []any {
	all := []any{"kind", p.Kind, "what", p.What, "evidence", p.Text}
	if p.Cure != "" {
		all = append(all, "cure", p.Cure)
	}
	return all
}
