//go:build linux

package main

import (
	"context"
	"math"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// scenario is a kind of load and what is of interest under it.
type scenario struct {
	name    string
	title   string
	text    string // for the report: what is offered, and what to make of it
	loads   []load
	rounds  int // most, if it takes long; 0: as many as there are
	metrics []metric
	higher  []string // keys of the metrics of which more is better; of the others less is
	base    string
	without string // the rival whose numbers are subtracted where a metric says so

	// participants returns who takes part, of all that were set up.
	participants func(ctx context.Context, st *stage, all []rivals.Rival) ([]rivals.Rival, error)
	// open starts what stands behind the proxies.
	open func(ctx context.Context, st *stage) (servers, error)
	// observe runs one rival once.
	observe func(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error)
	// expected is how long that takes, about.
	expected func(l load) time.Duration
}

// servers are the backends of a scenario.
type servers struct {
	addresses []string
	ca        string // for TLS; else empty
	stop      func()
}

// metric is one number of an observation. What something adds is taken from the same round's run without it.
type metric struct {
	key    string // in JSON
	title  string // in tables
	digits int
	ratio  bool // compare with the base rival
	added  bool // subtract what the run without had
	// value returns it; NaN when the observation has none.
	value func(observation) float64
}

// observation is what one run of one rival shows.
type observation struct {
	load     loadResult
	cpu      child.CPU     // of the proxy, while the load was steady
	before   float64       // PSS once it was ready, in bytes
	open     float64       // PSS late in the load, with all sessions open
	peak     float64       // peak resident size
	filled   time.Duration // from its start until it was ready (idle scenario)
	busy     float64       // share of a processor that it used (idle scenario)
	others   float64       // processors that everything else kept busy meanwhile
	rate     float64       // the highest rate that it bore, messages per second of all sessions (search)
	overload string        // how it did not bear the load; its numbers are those of an overloaded proxy
}

// proxies are all rivals but the variant of ours that few scenarios are about.
func proxies(_ context.Context, _ *stage, all []rivals.Rival) ([]rivals.Rival, error) {
	var kept []rivals.Rival
	for _, r := range all {
		if r.Name != "wsbouncer-one-shot" {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// withVariant are all rivals.
func withVariant(_ context.Context, _ *stage, all []rivals.Rival) ([]rivals.Rival, error) {
	return all, nil
}

// withDirect has a run without a proxy as well.
func withDirect(ctx context.Context, st *stage, all []rivals.Rival) ([]rivals.Rival, error) {
	kept, err := proxies(ctx, st, all)
	return append([]rivals.Rival{rivals.Direct()}, kept...), err
}

// perRoundTrip is a part of the processor time for each echo, in microseconds.
func perRoundTrip(part func(child.CPU) time.Duration) func(observation) float64 {
	return func(o observation) float64 {
		return float64(part(o.cpu)) / float64(time.Microsecond) / float64(max(1, o.load.Received))
	}
}

// The kernel counts the split in ticks, and the whole in nanoseconds.
func userTime(c child.CPU) time.Duration {
	return time.Duration(float64(c.Total) * float64(c.User) / float64(max(1, c.User+c.System)))
}

func systemTime(c child.CPU) time.Duration { return c.Total - userTime(c) }

func totalTime(c child.CPU) time.Duration { return c.Total }

func mib(bytes func(observation) float64) func(observation) float64 {
	return func(o observation) float64 { return bytes(o) / (1 << 20) }
}

// enoughSessions is the number from which on what a session adds to memory can be told from what else changes meanwhile: a garbage
// collection, a buffer of the process.
const enoughSessions = 3000

// perSession is the memory that a session adds, in KiB.
func perSession(o observation) float64 {
	if o.load.Connected < enoughSessions {
		return math.NaN()
	}
	return (o.open - o.before) / 1024 / float64(o.load.Connected)
}

func others(o observation) float64 { return o.others }
