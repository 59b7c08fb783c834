// Package failoverproof proves that sessions outlive their servers.
//
// [Run] holds many sessions at a time with the proxy in front of a few simulated servers (package sim), which die in the middle of a frame,
// hang, fall behind, close, and are drained, at random, all the time. With Cuts, clients' connections break as well, and they come back
// (docs/reconnect.md). Clients stream audio whose chunks carry marks (sim.Mark), so that
// each chunk can be followed to the final result that answers it. At the end, every chunk of every session must be in exactly one final
// result, in order, with the right times and numbers, and no client must have seen another's. The
// targets failover and reconnect of the Makefile run it (cmd).
package failoverproof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/protocol/speaker"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/secure"
)

// Options are the settings of a proof.
type Options struct {
	// Protocol is the name of one of [Protocols].
	Protocol string
	// Sessions is the number of sessions at a time. Default 300.
	Sessions int
	// Events is how many times something happens to a server. Default 0: nothing does.
	Events int
	// Cuts is how many times a client's connection breaks, after which it comes back (docs/reconnect.md). Default 0: clients cannot come back.
	Cuts int
	// Kinds are what may happen. Default: everything.
	Kinds []Kind
	// Duration ends the events, however many there were; with 0 Events, it is how long new sessions begin. Default 1 minute.
	Duration time.Duration
	// Every is the mean time between two events. Default 1 s, in which a session gets an answer.
	Every time.Duration
	// Seed makes what sessions say and what happens to servers repeatable, but not the timing.
	Seed uint64
	// First is the identity of the first session. Default 1.
	First uint64
	// Servers is the number of servers. Default 4.
	Servers int
	// Speed is how many times faster than real time clients speak. Default 1.
	Speed float64
	// MinLength and MaxLength are how much audio a session has. Default 5 s and 30 s.
	MinLength, MaxLength time.Duration
	// Utterance is how many chunks the speaker says between two pauses. Default: 2 to 6 at random.
	Utterance int
	// Latency is how long servers take for an answer; up to twice as long at random. Default 10 ms.
	Latency time.Duration
	// Age is how long servers let a connection live; they say so Notice before, as Gemini does, unless that is 0. Default 0: for ever. The profile knows
	// the age, or what they say.
	Age, Notice time.Duration
	// Memory is the proxy's replay-memory in bytes. Default: the proxy's own.
	Memory int64
	// Pieces has each message of a client come in two pieces, with a pause between them. Clients that come back send whole ones.
	Pieces bool
	// Patience is how long a session waits for what must come. Default 30 s.
	Patience time.Duration
	// Profile is the name of the profile, and ProfileFile the file that has it. Default: the protocol's own.
	Profile, ProfileFile string
	// Direct lets clients speak with a server, without the proxy.
	Direct bool
	// Outside is what clients speak with if the proof starts neither proxy nor servers; nil if it does. Then no events happen.
	Outside *Outside
	// Log gets a line for each event and for each session that failed, and what the proxy logs if Verbose; nil for nowhere.
	Log     io.Writer
	Verbose bool

	overcount bool // clients take a message of which only the beginning has arrived for received, as if the proxy counted so: a planted fault
}

// Outside are proxies that the caller has started, and has things happen to.
type Outside struct {
	// URLs are the proxies' addresses, which sessions take in turn.
	URLs []string
	// Header has the fields that clients send.
	Header []handshake.Field
	// Authority is a file with who has signed the proxies' certificates; empty for the system's authorities.
	Authority string
	// Finish is closed when no more sessions are to begin; nil for when the events have happened, or the duration is over.
	Finish <-chan struct{}
	// Servers are those behind the proxies, to which events may happen; an operator moves no sessions, though.
	Servers []*sim.Server
	// Killed is set before a proxy's process is killed, to its part of session ids. From then on, that process's clients may find their session
	// gone, and begin a new one with what no final result has answered.
	Killed atomic.Pointer[string]
}

func (o Options) withDefaults() Options {
	o.Sessions = cmp.Or(o.Sessions, 300)
	o.Duration = cmp.Or(o.Duration, time.Minute)
	o.Every = cmp.Or(o.Every, time.Second)
	o.First = cmp.Or(o.First, 1)
	o.Servers = cmp.Or(o.Servers, 4)
	o.Speed = cmp.Or(o.Speed, 1)
	o.MinLength = cmp.Or(o.MinLength, 5*time.Second)
	o.MaxLength = cmp.Or(o.MaxLength, max(o.MinLength, 30*time.Second))
	o.Latency = cmp.Or(o.Latency, 10*time.Millisecond)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	if o.Log == nil {
		o.Log = io.Discard
	}
	if len(o.Kinds) == 0 {
		o.Kinds = Kinds()
	}
	if o.Outside != nil {
		o.Kinds = slices.DeleteFunc(slices.Clone(o.Kinds), func(k Kind) bool { return k == Move })
	}
	return o
}

// validate returns an error that names the wrong option, its value and what to use instead.
func (o Options) validate() (*protocol, error) {
	p, err := protocolNamed(o.Protocol)
	if err != nil {
		return nil, err
	}
	for _, err := range []error{
		kit.Within("sessions", o.Sessions, 1, 10_000), kit.Within("events", o.Events, 0, 1_000_000), kit.Within("servers", o.Servers, 1, 64),
		kit.Within("cuts", o.Cuts, 0, 1_000_000), kit.Within("duration", o.Duration, time.Second, time.Hour), kit.Within("time between events", o.Every, 10*time.Millisecond, time.Hour),
		kit.Within("shortest length", o.MinLength, time.Millisecond, time.Hour), kit.Within("greatest length", o.MaxLength, o.MinLength, time.Hour),
		kit.Within("latency", o.Latency, 0, time.Hour), kit.Within("patience", o.Patience, time.Second, time.Hour), kit.Within("speed", o.Speed, 0.1, 100),
	} {
		if err != nil {
			return nil, err
		}
	}
	if o.MaxLength/p.chunk > 65535 {
		return nil, fmt.Errorf("greatest length: %v is out of range: marks count up to 65535 chunks of %v", o.MaxLength, p.chunk)
	}
	if o.Outside != nil && len(o.Outside.Servers) == 0 && o.Events > 0 {
		return nil, fmt.Errorf("outside: %d events cannot happen to servers that the proof does not have: use 0", o.Events)
	}
	if o.Direct && o.Cuts > 0 {
		return nil, fmt.Errorf("cuts: %d cuts need a proxy: use 0", o.Cuts)
	}
	if o.Direct && o.Events > 0 {
		return nil, fmt.Errorf("direct: without the proxy, no session survives %d events: use 0", o.Events)
	}
	return p, nil
}

// proof is one call of Run.
type proof struct {
	o      Options
	p      *protocol
	scene  *scene
	finish chan struct{} // closed when no more sessions are to begin
	next   atomic.Uint64

	mu      sync.Mutex
	report  Report       // guarded by mu
	clients []*returning // guarded by mu: that can come back
}

// Run holds sessions while things happen to servers, until all events have happened or the duration is over, and the sessions have come to
// their end. A fault is no error of Run: see [Report.Err].
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.withDefaults()
	p, err := o.validate()
	if err != nil {
		return Report{}, err
	}
	run := &proof{o: o, p: p, finish: make(chan struct{})}
	run.next.Store(o.First)
	run.report.Protocol, run.report.Seed, run.report.AskedEvents, run.report.AskedCuts = o.Protocol, o.Seed, o.Events, o.Cuts
	if run.scene, err = newScene(ctx, o); err != nil {
		return Report{}, err
	}
	defer run.scene.close()
	begin := time.Now()
	var workers sync.WaitGroup
	for i := range o.Sessions {
		workers.Go(func() { run.work(ctx, i) })
	}
	var cutting sync.WaitGroup
	cutting.Go(func() { run.cut(ctx) })
	var events map[Kind]int
	if o.Outside == nil || o.Outside.Finish == nil {
		events, err = run.sabotage(ctx)
	} else {
		select {
		case <-o.Outside.Finish:
		case <-ctx.Done():
		}
	}
	cutting.Wait()
	close(run.finish)
	workers.Wait()
	run.report.Duration = time.Since(begin)
	run.report.Events = events
	run.scene.count(&run.report)
	if err == nil {
		err = ctx.Err()
	}
	return run.report, err
}

// work holds one session after the other, at least one. The first ones do not begin all at once.
func (r *proof) work(ctx context.Context, n int) {
	spread := min(time.Second, r.o.MinLength)
	for wait := spread * time.Duration(n) / time.Duration(r.o.Sessions); kit.Wait(ctx, wait) == nil; wait = 0 {
		r.session(ctx)
		select {
		case <-r.finish:
			return
		default:
		}
	}
}

// pause waits, and returns false if no more sessions are to begin.
func (r *proof) pause(ctx context.Context, d time.Duration) bool { return kit.WaitOr(ctx, d, r.finish) }

// session holds one session.
func (r *proof) session(ctx context.Context) {
	t := newTalk(&r.o, r.p, r.next.Add(1)-1)
	err := r.connect(ctx, t)
	for err == nil {
		err = t.hold(ctx)
		c, ok := t.conn.(*returning)
		if refused, was := errors.AsType[*refusal](err); !ok || !was || !refused.gone() || r.o.Outside == nil || !c.wasOf(r.o.Outside.Killed.Load()) {
			break
		}
		r.mu.Lock()
		r.report.takeReturns(c)
		r.report.Returns.refused-- // for the new session that begins
		r.report.Returns.begun = append(r.report.Returns.begun, c.goneAfter)
		r.clients = slices.DeleteFunc(r.clients, func(c *returning) bool { return c == t.conn })
		r.mu.Unlock()
		t.again()
		err = r.connect(ctx, t)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.trace.Add("FAILED %v", err)
		fmt.Fprintf(r.o.Log, "%s session %d failed: %v\n", time.Now().Format("15:04:05.000"), t.session, err)
	}
	r.mu.Lock()
	r.report.take(t, err)
	r.clients = slices.DeleteFunc(r.clients, func(c *returning) bool { return c == t.conn })
	r.mu.Unlock()
	if err != nil {
		r.pause(ctx, 100*time.Millisecond)
	}
}

// connect connects a session.
func (r *proof) connect(ctx context.Context, t *talk) error {
	target, err := r.target(t)
	if err != nil {
		return err
	}
	if r.o.Cuts > 0 {
		return r.connectReturning(ctx, t)
	}
	dialing, cancel := context.WithTimeout(ctx, r.o.Patience)
	defer cancel()
	established, err := target.Dial(dialing)
	if err != nil {
		return fmt.Errorf("dialing: %w", err)
	}
	if r.o.Pieces {
		established.Conn = &inPieces{established.Conn, t.dice}
	}
	t.conn = speaker.NewConn(established, r.o.Patience)
	t.trace.Add("begins as %v", established.Conn.LocalAddr())
	return nil
}

// inPieces is a connection over which all that is written goes in two pieces. It belongs to its session's goroutine.
type inPieces struct {
	net.Conn
	dice *rand.Rand
}

// Write implements [net.Conn].
func (c *inPieces) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:c.dice.IntN(len(b))])
	if err != nil {
		return n, err
	}
	time.Sleep(time.Duration(c.dice.Int64N(int64(longestPause))))
	rest, err := c.Conn.Write(b[n:])
	return n + rest, err
}

// longestPause is the longest pause between two pieces.
const longestPause = 20 * time.Millisecond

// target returns where a session goes, with the path that it asks for.
func (r *proof) target(t *talk) (*handshake.Target, error) {
	u, err := url.Parse(r.scene.url(t.session) + r.p.Path(&t.progress))
	if err != nil {
		return nil, err
	}
	target, err := handshake.ParseTarget(u.String())
	if err != nil {
		return nil, err
	}
	target.Protocol = r.p.Subprotocol()
	if outside := r.o.Outside; outside != nil {
		target.Header = outside.Header
		if target.Secure() {
			target.SetTLS(secure.Settings{CA: outside.Authority, ServerName: u.Hostname()})
		}
	}
	return target, nil
}
