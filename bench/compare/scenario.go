//go:build linux

package main

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// scenario is a kind of load and what is measured under it.
type scenario struct {
	name    string
	title   string
	text    string // for the report: the load, and how to read the numbers
	loads   []load
	rounds  int // maximum, if a round takes long; 0: no limit
	metrics []metric
	higher  []string // keys of the metrics of which more is better
	base    string
	without string // the rival whose numbers are subtracted where a metric says so

	participants participants
	// open starts the backends.
	open func(ctx context.Context, st *stage) (servers, error)
	// tune, if not nil, completes the loads with what it measures.
	tune func(ctx context.Context, st *stage, loads []load, b servers) error
	// observe runs one rival once.
	observe func(ctx context.Context, st *stage, r rivals.Rival, l load, b servers) (observation, error)
	// expected estimates how long that takes.
	expected func(l load) time.Duration
}

// servers are the backends of a scenario.
type servers struct {
	addresses []string
	ca        string // for TLS; else empty
	// serves is the certificate that proxies present to clients; nil without TLS.
	serves *rivals.Certificate
	stop   func()
}

// metric is one number of an observation. A number with added is the difference to the same round's run without a proxy.
type metric struct {
	key    string // in JSON
	title  string // in tables
	digits int
	ratio  bool // compare with the base rival
	added  bool // subtract the number of the run without
	// value returns it; NaN when the observation has none.
	value func(observation) float64
}

// observation is what one run of one rival shows.
type observation struct {
	load     loadResult
	running  loadResult // of the sessions that run meanwhile (bursts over TLS)
	cpu      child.CPU  // of the proxy, while the load was steady
	before   float64    // PSS once it was ready, in bytes
	open     float64    // PSS late in the load, with all sessions open
	peak     float64    // peak resident size
	busy     float64    // share of a processor that it used (scenario silent)
	others   float64    // processors that everything else used meanwhile
	rate     float64    // the highest rate that it carried, messages per second of all sessions (search)
	silence  silence    // of silent sessions
	overload string     // how it fell short of the load; its numbers are those of an overloaded proxy
}

// participants returns the rivals that take part, of all that were set up.
type participants func(ctx context.Context, st *stage, all []rivals.Rival) ([]rivals.Rival, error)

// The rivals that show little in some scenarios: one-shot where no session starts or ends, another way to send where few messages are sent, and the
// one that nobody would take for its speed.
const (
	oneShot = "wsbouncer-one-shot"
	noUring = "wsbouncer-no-uring"
	gorilla = "gorilla"
)

// allBut returns all rivals but those.
func allBut(names ...string) participants {
	return func(_ context.Context, _ *stage, all []rivals.Rival) ([]rivals.Rival, error) {
		return slices.DeleteFunc(slices.Clone(all), func(r rivals.Rival) bool { return slices.Contains(names, r.Name) }), nil
	}
}

// withDirect adds a run without a proxy.
func withDirect(others participants) participants {
	return func(ctx context.Context, st *stage, all []rivals.Rival) ([]rivals.Rival, error) {
		kept, err := others(ctx, st, all)
		return append([]rivals.Rival{rivals.Direct()}, kept...), err
	}
}

// perRoundTrip returns a metric: part of the processor time for each echo, in microseconds.
func perRoundTrip(part func(child.CPU) time.Duration) func(observation) float64 {
	return func(o observation) float64 {
		return float64(part(o.cpu)) / float64(time.Microsecond) / float64(max(1, o.load.Received))
	}
}

// The kernel counts the split in ticks, and the whole in nanoseconds.
func userTime(c child.CPU) time.Duration {
	return time.Duration(float64(c.Total) * float64(c.User) / float64(max(1, c.User+c.System)))
}

func totalTime(c child.CPU) time.Duration { return c.Total }

func mib(bytes func(observation) float64) func(observation) float64 {
	return func(o observation) float64 { return bytes(o) / (1 << 20) }
}

// enoughSessions is the least number of sessions that shows what a session adds to memory: with fewer, a garbage collection or a
// buffer of the process changes the result too much.
const enoughSessions = 3000

// perSession returns the memory that a session adds, in KiB.
func perSession(o observation) float64 {
	if o.load.Connected < enoughSessions {
		return math.NaN()
	}
	return (o.open - o.before) / 1024 / float64(o.load.Connected)
}

func others(o observation) float64 { return o.others }
