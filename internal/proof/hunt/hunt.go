// Package hunt looks for leaks: results of one session that reach another.
//
// [Run] holds many short sessions with a server, usually the proxy in front of simulated servers (package sim). Its clients stream
// audio; some end their session as the protocol says, others leave in the worst ways. The audio of each session carries its identity,
// and so do its settings and ids. Simulated servers put the identities of everything that caused a result into the result. So a client
// must receive no identity but its own. Any other is a leak, and the report shows what both sessions sent and received. Tests and
// the soak test (cmd) use it. Any goroutine may call it.
package hunt

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a hunt.
type Options struct {
	// URL is the address of the server, ws://host:port or wss://host:port. Its path and query, if any, replace those of the protocol.
	URL string
	// TLS says how a wss:// server is reached. A quarter of the connections use TLS 1.2 at most. Default: as crypto/tls does by default.
	TLS *tls.Config
	// Protocol is the name of one of Dialogues.
	Protocol string
	// Sessions is the number of all sessions.
	Sessions int
	// Concurrency is the number of sessions at a time. Default 16.
	Concurrency int
	// Seed makes the sessions repeatable: what they send and how they end, but not the timing. Default 0.
	Seed uint64
	// First is the identity of the first session; the next sessions have the next numbers. Hunts that share a server must not
	// share identities. Default 1.
	First uint64
	// Manners are the shares of the ways in which sessions end. Default DefaultManners.
	Manners Manners
	// Settings is the probability that a session sets what the protocol lets it set (hot words, prompt), with its identity.
	// Default 0.
	Settings float64
	// MaxChunks is the largest number of audio messages in a session. Default 6.
	MaxChunks int
	// Timeout is how long a session waits for an answer. Default 10 s.
	Timeout time.Duration
	// MaxLeaks is the number of leaks that ends the hunt. Default 5.
	MaxLeaks int
	// Traces is the number of recent sessions whose traces are kept, so that a leak shows both sides. Default 4096.
	Traces int
	// Exact checks that each session that ends cleanly gets each of its results once, and counts lost and repeated results in the
	// report. It works only for protocols whose final results can be distinguished from others. Default false.
	Exact bool
	// Pace is the longest pause before each chunk of audio, and after a session that failed. Default 0: no pauses.
	Pace time.Duration
	// Finish, when closed, lets no new session begin; running sessions continue to their end. Default nil: never.
	Finish <-chan struct{}
	// Outcome, if not nil, is called with the outcome of each session, from any goroutine.
	Outcome func(o Outcome)
	// Progress, if not nil, is called after each thousand sessions with their number so far, from any goroutine.
	Progress func(sessions int)
}

// withDefaults returns the options with their defaults filled in.
func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&o.Concurrency, 16)
	set(&o.MaxChunks, 6)
	set(&o.MaxLeaks, 5)
	set(&o.Traces, 4096)
	if o.First == 0 {
		o.First = 1
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Manners == (Manners{}) {
		o.Manners = DefaultManners
	}
	return o
}

// validate checks the options, and returns the URL and the dialogue that they name.
func (o Options) validate() (*url.URL, *Dialogue, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Port() == "" {
		return nil, nil, fmt.Errorf("url: invalid address %q: use ws://host:port or wss://host:port", o.URL)
	}
	d, err := DialogueNamed(o.Protocol)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range []struct {
		field string
		value int
		most  int
	}{
		{"sessions", o.Sessions, 1 << 40},
		{"concurrency", o.Concurrency, 10_000},
		{"max chunks", o.MaxChunks, 1000},
		{"max leaks", o.MaxLeaks, 1 << 20},
		{"traces", o.Traces, 1 << 20},
	} {
		if n.value < 1 || n.value > n.most {
			return nil, nil, fmt.Errorf("%s: %d is out of range: use 1 to %d", n.field, n.value, n.most)
		}
	}
	if o.Exact && d.Final == nil {
		return nil, nil, fmt.Errorf("exact: the final results of %q cannot be distinguished from others", o.Protocol)
	}
	if o.Pace < 0 || o.Pace > time.Hour {
		return nil, nil, fmt.Errorf("pace: %v is out of range: use 0s to 1h", o.Pace)
	}
	if !(o.Settings >= 0 && o.Settings <= 1) {
		return nil, nil, fmt.Errorf("settings: invalid probability %v: use 0 to 1", o.Settings)
	}
	if o.Timeout < time.Millisecond || o.Timeout > time.Hour {
		return nil, nil, fmt.Errorf("timeout: %v is out of range: use 1ms to 1h", o.Timeout)
	}
	return u, d, o.Manners.validate()
}

// hunt is one call of Run.
type hunt struct {
	options  Options
	dialogue *Dialogue
	address  string
	secure   []*tls.Config            // one is chosen for each connection; none for no TLS
	request  func(path string) string // the upgrade request for a path

	next   atomic.Int64 // sessions begun
	held   atomic.Int64 // sessions ended
	traces *ring
	stop   context.CancelFunc

	mu     sync.Mutex
	report Report // guarded by mu
}

// Run runs the sessions and returns a report. If ctx ends first, it returns the report so far with the error of ctx. It also ends
// after MaxLeaks leaks. A leak is not an error of Run: see [Report.Err].
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.withDefaults()
	u, dialogue, err := o.validate()
	if err != nil {
		return Report{}, err
	}
	hunting, stop := context.WithCancel(ctx)
	defer stop()
	h := &hunt{options: o, dialogue: dialogue, address: u.Host, stop: stop, traces: newRing(o.Traces, o.First)}
	h.report.Protocol = o.Protocol
	if u.Scheme == "wss" {
		h.secure = versions(o.TLS, u.Hostname())
	}
	override := ""
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		override = u.RequestURI()
	}
	h.request = func(path string) string { return upgradeRequest(u.Host, path, override, dialogue.Subprotocol) }
	begin := time.Now()
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() { h.work(hunting) })
	}
	workers.Wait()
	h.report.Duration = time.Since(begin)
	return h.report, ctx.Err()
}

// work runs one session after the other until the hunt ends.
func (h *hunt) work(ctx context.Context) {
	w := newWorker(h)
	defer func() {
		h.mu.Lock()
		h.report.add(&w.counts)
		h.mu.Unlock()
	}()
	for ctx.Err() == nil && !h.finishing() {
		n := h.next.Add(1)
		if n > int64(h.options.Sessions) {
			return
		}
		w.session(ctx, uint64(n-1))
		if held := h.held.Add(1); held%1000 == 0 && h.options.Progress != nil {
			h.options.Progress(int(held))
		}
	}
}

// finishing reports whether Finish is closed.
func (h *hunt) finishing() bool {
	select {
	case <-h.options.Finish:
		return true
	default:
		return false
	}
}

// leaked records a leak.
func (h *hunt) leaked(got, of uint64, message Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report.Leaks++
	if len(h.report.Found) < h.options.MaxLeaks {
		h.report.Found = append(h.report.Found, Leak{
			To: got, Of: of, Message: decoded(message.Payload[:min(len(message.Payload), maxTraced)]),
			ToTrace: h.traces.text(got), OfTrace: h.traces.text(of),
		})
	}
	if h.report.Leaks >= h.options.MaxLeaks {
		h.stop()
	}
}
