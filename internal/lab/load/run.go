// Package load puts load on a WebSocket server and measures how it copes. The load is open-loop: each message is due at a
// fixed time, whether or not earlier ones were answered, and its latency counts from that time. So a server that stalls
// cannot hide it by slowing the clients down. The clients compare every answer with what they sent.
//
// Thousands of clients run on a few event loops (package loop), since load generator, proxy and servers often share a
// machine. [Run] runs a load; several goroutines may call it at once.
package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/wire/handshake"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// closeTimeout is how long a close handshake may take.
const closeTimeout = 3 * time.Second

// shortPoint divides the sampling interval. A point of the time series covers at least that part of the interval, since the
// rates of a shorter one would be mere chance.
const shortPoint = 10

// stage is what the lanes of a run share. It is static, except for the latches.
type stage struct {
	epoch       time.Time     // the zero of the run's clock
	script      *script       // what clients say
	period      time.Duration // between two messages of a client; 0 for none
	restTime    time.Duration // the shortest time between two wake-ups to send
	window      uint32        // 0 for no limit
	controlMask uint32        // of control frames
	redial      func(*client) // connects a client again

	sessionLength time.Duration // 0 for the whole run
	noJitter      bool
	drainDelay    time.Duration // how long to wait for the last echoes of a session

	greeted *latch // opened when each client has its first echo, or can no longer get it
	alive   *latch // opened when each client has failed
	drained *latch // opened when each lane has drained
	gone    *latch // opened when each client's connection has ended

	refusal atomic.Pointer[error] // of the first client that could not connect
}

// now returns the nanoseconds since the epoch.
func (s *stage) now() int64 { return int64(time.Since(s.epoch)) }

// run is one call of Run.
type run struct {
	Options
	*stage
	seen     collection
	targets  []*handshake.Target
	progress func(Progress)
	group    *loop.Group
	lanes    []*lane
	slots    chan struct{}  // one element for each dial under way; nil for no limit
	first    sync.WaitGroup // clients' first dials
	again    sync.WaitGroup // their further dials, which a churning client may begin while others still dial first
	sampler  *time.Ticker   // tells when the next point of the time series begins
	reported Progress       // the last report
	result   Result
}

// Run runs the load until its duration is over or ctx ends. In either case it waits for the last echoes, closes all
// connections and returns the result. It returns an error if there was nothing to measure: the options are invalid, or the
// machine does not allow the load. The result reports trouble with the server.
//
// Run calls progress, if it is not nil, on the caller's goroutine: when a phase begins, and at the options' interval.
func Run(ctx context.Context, o Options, progress func(Progress)) (*Result, error) {
	targets, err := o.Targets()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := CheckDescriptors(o.Connections); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	r := &run{Options: o, seen: newCollection(len(targets)), targets: targets, progress: progress}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer r.group.Close()
	dialling, stop := context.WithCancel(ctx)
	defer stop()
	r.redial = func(c *client) { r.dialAgain(dialling, c) }
	r.connect(ctx)
	r.collect()
	r.result.Interrupted = ctx.Err() != nil
	switch {
	case r.seen.total.Connected == 0:
	case r.result.Interrupted:
		r.first.Wait() // its context has ended
		r.drain()
	default:
		r.steady(ctx)
	}
	r.leave(stop)
	return &r.result, nil
}

// open starts the loops.
func (r *run) open() error {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	r.stage = &stage{
		epoch:       time.Now(),
		period:      r.interval(),
		restTime:    r.Tick,
		window:      uint32(r.Window),
		controlMask: random.Uint32(),
		greeted:     newLatch(r.Connections),
		alive:       newLatch(r.Connections),
		drained:     newLatch(r.Loops),

		sessionLength: r.SessionLength,
		noJitter:      r.NoJitter,
		drainDelay:    r.Drain,
	}
	r.script = newScript(r.Options, random)
	if r.DialParallel > 0 {
		r.slots = make(chan struct{}, r.DialParallel)
	}
	var err error
	// Clients stay on their loops, so the governor has nothing to do.
	r.group, err = loop.NewGroup(loop.Options{Max: r.Loops, Min: r.Loops, Interval: time.Hour})
	if err != nil {
		return err
	}
	for _, on := range r.group.Loops() {
		l := &lane{stage: r.stage, loop: on}
		for range r.targets {
			l.counts = append(l.counts, newCounts())
		}
		on.Call(func() { err = l.pacer.start(on, l.tick) })
		if err != nil {
			r.group.Close()
			return err
		}
		r.lanes = append(r.lanes, l)
	}
	return nil
}

// connect connects the clients. It returns when each has its first echo or has failed, or when the time is over.
func (r *run) connect(ctx context.Context) {
	r.report(Connecting)
	clients := make([]*client, r.Connections)
	for i := range clients {
		at := i % len(r.targets)
		// This spreads the clients of each target over the loops, too.
		c := &client{lane: r.lanes[(i+i/len(r.targets))%len(r.lanes)], target: r.targets[at], at: at, id: uint32(i)}
		c.talk = &echo{client: c}
		if r.sessionLength > 0 {
			c.talk = &churn{echo: echo{client: c}}
		}
		clients[i] = c
	}
	dialled := make(chan struct{})
	r.epoch = time.Now()
	r.sampler = time.NewTicker(r.SampleInterval)
	r.first.Go(func() { r.connectAll(ctx, clients, r.dial) })
	go func() {
		r.first.Wait()
		close(dialled)
	}()
	r.wait(nil, dialled, 0)
	r.wait(ctx.Done(), r.greeted.open, r.ConnectTimeout)
}

// steady runs the steady part, which is the one that counts.
func (r *run) steady(ctx context.Context) {
	most := 0
	r.each(func(l *lane) { most = max(most, len(l.clients)) })
	r.report(Steady)
	r.sampler.Reset(r.SampleInterval)
	before := r.count()
	start := r.now()
	end := start + int64(r.Duration)
	r.each(func(l *lane) {
		for i, c := range l.clients {
			turn := i*len(r.lanes) + l.loop.ID()
			c.base = start + int64(float64(r.period)*float64(turn)/float64(most*len(r.lanes)))
		}
		l.begin(end)
	})
	r.wait(ctx.Done(), r.alive.open, r.Duration)

	r.result.Interrupted = ctx.Err() != nil
	after := r.count()
	r.result.Duration = time.Duration(r.now() - start)
	r.result.targets(r.URLs)
	r.result.SetRates(before, after)
	r.drain()
}

// drain waits for the last echoes.
func (r *run) drain() {
	r.each((*lane).drain)
	r.report(Draining)
	half := max(r.Drain/2, 1)
	if !r.wait(nil, r.drained.open, half) {
		r.each((*lane).endSends)
		r.wait(nil, r.drained.open, half)
	}
	r.report(Done)
}

// leave ends all connections and fills in the result.
func (r *run) leave(stopDialling func()) {
	clients := 0
	r.each(func(l *lane) { clients += len(l.clients) })
	r.collect()
	active := r.seen.active()
	r.gone = newLatch(clients)
	r.each((*lane).close)
	stopDialling()
	r.again.Wait()
	r.wait(nil, r.gone.open, closeTimeout)
	r.each(func(l *lane) { l.pacer.stop() })
	r.sampler.Stop()
	r.collect()
	r.result.Series = r.seen.finish(time.Duration(r.now()), r.SampleInterval/shortPoint, active)
	r.fill(&r.result)
	if first := r.refusal.Load(); first != nil {
		r.result.Refusal = *first
	}
}

// each calls f for each lane on its loop.
func (r *run) each(f func(*lane)) {
	for _, l := range r.lanes {
		l.loop.Call(func() { f(l) })
	}
}

// collect takes what the lanes have counted.
func (r *run) collect() {
	for _, l := range r.lanes {
		for at := range r.targets {
			full := r.seen.take()
			l.loop.Call(func() { full, l.counts[at] = l.counts[at], full })
			r.seen.put(at, full)
		}
	}
}

// sample ends a point of the time series and begins the next one, in the given phase.
func (r *run) sample(next Phase) {
	r.collect()
	r.seen.close(time.Duration(r.now()), r.SampleInterval/shortPoint, next)
}

// count returns the numbers of all targets as they are now.
func (r *run) count() []Counts {
	r.collect()
	now := make([]Counts, len(r.targets))
	for at, c := range r.seen.byTarget {
		now[at] = c.Counts
	}
	return now
}

// wait reports progress until cancelled or happened is closed, or until the limit is over; 0 means no limit. It returns true
// if happened was closed.
func (r *run) wait(cancelled, happened <-chan struct{}, limit time.Duration) bool {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	ticker := time.NewTicker(r.ProgressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-happened:
			return true
		case <-cancelled:
			return false
		case <-over:
			return false
		case <-r.sampler.C:
			r.sample(r.reported.Phase)
		case <-ticker.C:
			r.report(r.reported.Phase)
		}
	}
}

// connectAll opens the connections of all clients with dial, and returns when each dial has begun. It runs on a goroutine of
// its own, which r.first counts.
func (r *run) connectAll(ctx context.Context, clients []*client, dial func(context.Context, *client)) {
	for i, c := range clients {
		due := r.Ramp * time.Duration(i) / time.Duration(len(clients))
		if r.Ramp > 0 && !tasks.Sleep(ctx, due-time.Duration(r.now())) {
			return
		}
		c.began = int64(due)
		if r.slots != nil {
			select {
			case r.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			// The time to wait for a slot is the load's own choice, and says nothing about the server.
			c.began = r.now()
		}
		r.first.Go(func() {
			dial(ctx, c)
			if r.slots != nil {
				<-r.slots
			}
		})
	}
}

// dial opens a client's connection and hands it to the client's loop.
func (r *run) dial(ctx context.Context, c *client) {
	socket, early, err := r.establish(ctx, c)
	connected := r.now()
	l := c.lane
	if err != nil {
		if ctx.Err() == nil { // otherwise the run was ended, and nothing failed
			l.loop.Post(func() { l.refused(c, err) })
		}
		return
	}
	if !l.loop.Post(func() { l.admit(c, socket, early, connected) }) {
		socket.Close()
	}
}

// dialAgain opens another connection for a client whose last session has ended. Call it on the client's loop.
func (r *run) dialAgain(ctx context.Context, c *client) {
	c.again, c.outcome = true, pending
	c.counts().Begun++
	r.again.Go(func() {
		if r.slots != nil {
			select {
			case r.slots <- struct{}{}:
				defer func() { <-r.slots }()
			case <-ctx.Done():
			}
		}
		began := r.now()
		socket, early, err := r.establish(ctx, c)
		connected := r.now()
		posted := c.lane.loop.Post(func() {
			c.began, c.took = began, connected-began
			c.dialled(socket, early, err, ctx.Err() != nil)
		})
		if !posted && err == nil {
			socket.Close()
		}
	})
}

// dialled handles the result of dialAgain. over says that the run was ended meanwhile.
func (c *client) dialled(socket loop.Socket, early []byte, err error, over bool) {
	switch {
	case err == nil && c.lane.closing:
		socket.Close()
		c.setOutcome(cut)
	case err == nil:
		c.counts().ConnectAgain.Record(c.took)
		c.join(socket, early)
	case over: // the run was ended, and nothing failed
		c.setOutcome(cut)
		c.lane.settle(c)
	default:
		c.talk.refused("connect again: " + Kind(err))
	}
}

// establish opens a connection.
func (r *run) establish(ctx context.Context, c *client) (socket loop.Socket, early []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	established, err := c.target.Dial(ctx)
	if err != nil {
		return socket, nil, err
	}
	socket, err = loop.Detach(established.Conn)
	if err != nil {
		_ = established.Conn.Close()
	}
	return socket, established.Early, err
}

// admit adds a connected client to the lane. since is when it was connected.
func (l *lane) admit(c *client, socket loop.Socket, early []byte, since int64) {
	counts := c.counts()
	counts.Begun++
	counts.Connected++
	counts.Connect.Record(since - c.began)
	counts.lastConnect = max(counts.lastConnect, since)
	l.clients = append(l.clients, c)
	c.join(socket, early)
}

// refused counts a client that could not connect.
func (l *lane) refused(c *client, err error) {
	c.outcome = refused
	counts := c.counts()
	counts.Begun++
	counts.ConnectFailures++
	counts.error("connect: " + Kind(err))
	l.refusal.CompareAndSwap(nil, &err)
	c.markGreeted()
	if l.sessionLength > 0 {
		l.clients = append(l.clients, c) // it tries again
		return
	}
	l.alive.count()
}

// latch opens after count was called a given number of times. Any goroutine may use it.
type latch struct {
	left atomic.Int64
	open chan struct{} // closed when left is 0
}

func newLatch(things int) *latch {
	l := &latch{open: make(chan struct{})}
	l.left.Store(int64(things))
	if things == 0 {
		close(l.open)
	}
	return l
}

// count counts one call. More calls than the latch waits for have no effect.
func (l *latch) count() {
	if l.left.Add(-1) == 0 {
		close(l.open)
	}
}

// Phase is a part of a run.
type Phase int

// The phases of a run, in their order. A run has only the first if no client connected, or if it was ended while connecting.
const (
	// Connecting: clients connect, and wait for their first echo.
	Connecting Phase = iota
	// Steady: clients send messages at the rate in the options.
	Steady
	// Draining: no more messages become due; clients wait for the last echoes.
	Draining
	// Done: clients wait for nothing more. The run is about to close the connections.
	Done
)

// String returns the phase's name.
func (p Phase) String() string {
	switch p {
	case Connecting:
		return "connecting"
	case Steady:
		return "steady"
	case Draining:
		return "draining"
	}
	return "done"
}

// Progress is how far a run has come.
type Progress struct {
	Phase   Phase
	Begins  bool          // this report is the first one of the phase
	Elapsed time.Duration // since clients began to connect

	Connections     int
	Connected       int   // clients that are connected at this moment
	ConnectFailures int64 // attempts to connect that failed, the first ones and further ones
	Sent            int64 // in the steady part
	Received        int64
	Lost            int64
	Mixed           int64
	Failed          int64   // connections that failed
	Sessions        int64   // complete ones
	Rate            float64 // echoes per second since the last report
	P50, P99        time.Duration
}

// connected returns how many clients are connected at this moment.
func (r *run) connected() (n int) {
	r.each(func(l *lane) {
		for _, c := range l.clients {
			if c.conn != nil && !c.conn.Closed() {
				n++
			}
		}
	})
	return n
}

// report reports the run's progress.
func (r *run) report(phase Phase) {
	last := r.reported
	begins := phase != last.Phase || last.Connections == 0
	if begins && phase != Connecting {
		r.sample(phase)
	} else {
		r.collect()
	}
	c := r.seen.total
	p := Progress{
		Phase: phase, Begins: begins, Elapsed: time.Duration(r.now()),
		Connections: r.Connections, Connected: r.connected(), ConnectFailures: int64(c.ConnectFailures) + c.Refused,
		Sent: c.Sent, Received: c.Received, Lost: c.Lost, Mixed: c.Mixed, Failed: c.Failed, Sessions: c.Complete,
		P50: c.Latency.Quantile(0.5), P99: c.Latency.Quantile(0.99),
	}
	if seconds := (p.Elapsed - last.Elapsed).Seconds(); seconds > 0 {
		p.Rate = float64(p.Received-last.Received) / seconds
	}
	r.reported = p
	r.progress(p)
}
