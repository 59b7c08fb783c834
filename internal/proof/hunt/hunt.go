// Package hunt looks for leaks: results of one session that reach another.
//
// [Run] holds many short sessions with a server, usually the proxy in front of simulated servers (package sim). Its clients stream
// audio; some end their session as the protocol says, others leave in the worst ways. The audio of each session carries its identity,
// and so do its settings and ids. Simulated servers put the identities of everything that caused a result into the result. So a client
// must receive no identity but its own. Any other is a leak, and the report shows what both sessions sent and received. Tests and
// the soak test (cmd) use it. Any goroutine may call it.
package hunt

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
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
	// Rate is how many sessions begin each second, as long as there are no more than Concurrency, whatever becomes of those before. Default 0: each
	// begins as soon as there is one less.
	Rate float64
	// Lasting has each session continue until Finish is closed. It waits for the answer to each message. Only for protocols in lockstep.
	Lasting bool
	// From, if not nil, returns the address that a session's client comes from.
	From func(session uint64) net.IP
	// Header has further lines of the upgrade requests.
	Header []string
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
	// Rest is the longest pause after each session. Default 0: none.
	Rest time.Duration
	// Finish, when closed, lets no new session begin; running sessions continue to their end. Default nil: never.
	Finish <-chan struct{}
	// Outcome, if not nil, is called with the outcome of each session, from any goroutine.
	Outcome func(o Outcome)
}

// withDefaults returns the options with their defaults filled in.
func (o Options) withDefaults() Options {
	o.Concurrency, o.MaxChunks, o.MaxLeaks, o.Traces = cmp.Or(o.Concurrency, 16), cmp.Or(o.MaxChunks, 6), cmp.Or(o.MaxLeaks, 5), cmp.Or(o.Traces, 4096)
	o.First, o.Timeout = cmp.Or(o.First, 1), cmp.Or(o.Timeout, 10*time.Second)
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
	d, err := DialogueNamed(o.Protocol, "")
	if err != nil {
		return nil, nil, err
	}
	for _, err := range []error{
		kit.Within("sessions", o.Sessions, 1, 1<<40), kit.Within("concurrency", o.Concurrency, 1, 10_000), kit.Within("max chunks", o.MaxChunks, 1, 1000),
		kit.Within("max leaks", o.MaxLeaks, 1, 1<<20), kit.Within("traces", o.Traces, 1, 1<<20), kit.Within("pace", o.Pace, 0, time.Hour),
		kit.Within("rest", o.Rest, 0, time.Hour), kit.Within("timeout", o.Timeout, time.Millisecond, time.Hour),
	} {
		if err != nil {
			return nil, nil, err
		}
	}
	if o.Lasting && (!d.Lockstep() || o.Finish == nil) {
		return nil, nil, fmt.Errorf("lasting: sessions of %q cannot last: use a protocol in lockstep, and Finish", o.Protocol)
	}
	if o.Exact && d.Final == nil {
		return nil, nil, fmt.Errorf("exact: the final results of %q cannot be distinguished from others", o.Protocol)
	}
	if !(o.Settings >= 0 && o.Settings <= 1) {
		return nil, nil, fmt.Errorf("settings: invalid probability %v: use 0 to 1", o.Settings)
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
	begin    time.Time

	next   atomic.Int64 // sessions begun
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
	h.report.Protocol, h.report.Errors = o.Protocol, make(map[string]int)
	if u.Scheme == "wss" {
		h.secure = versions(o.TLS, u.Hostname())
	}
	override := ""
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		override = u.RequestURI()
	}
	lines := slices.Clone(o.Header)
	if dialogue.Subprotocol() != "" {
		lines = append(lines, "Sec-WebSocket-Protocol: "+dialogue.Subprotocol())
	}
	h.request = func(path string) string { return wstest.UpgradeRequest(cmp.Or(override, path), lines...) }
	h.begin = time.Now()
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() { h.work(hunting) })
	}
	workers.Wait()
	h.report.Duration = time.Since(h.begin)
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
		if n > int64(h.options.Sessions) || !h.turn(ctx, n-1) {
			return
		}
		w.session(ctx, uint64(n-1))
	}
}

// turn waits for the time at which the n-th session begins, from 0. It returns false if no more are to begin.
func (h *hunt) turn(ctx context.Context, n int64) bool {
	if h.options.Rate == 0 {
		return true
	}
	at := h.begin.Add(time.Duration(float64(n) / h.options.Rate * float64(time.Second)))
	return kit.WaitOr(ctx, time.Until(at), h.options.Finish)
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
			To: got, Of: of, Message: decoded(message.Payload),
			ToTrace: h.traces.text(got), OfTrace: h.traces.text(of),
		})
	}
	if h.report.Leaks >= h.options.MaxLeaks {
		h.stop()
	}
}
