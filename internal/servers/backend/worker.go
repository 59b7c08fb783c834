package backend

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/servers/health"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// reviewEvery is the time between two reviews without a signal, plus jitter.
const reviewEvery = 5 * time.Second

// worker brings a backend's pool to the wanted size. It is one goroutine that alone decides to dial or to retire idle
// connections: it asks the server's health what may be dialed and the pool what is wanted. Everybody else only signals it,
// and many signals are one. It knows nothing of sockets, so that it can be tested without any.
type worker[C any] struct {
	// Static.
	pool   *pool.Pool[C]
	report *report
	now    func() pool.Instant
	// establish dials a connection and fills the slot, or returns why it could not. It is called in its own goroutine.
	establish func(context.Context, *pool.Slot[C]) error
	// retire closes a connection whose slot is retiring. It must not block.
	retire func(C)
	// descriptors are what connections are dialed with; nil for without limits.
	descriptors *machine.Descriptors
	// heard returns how many frames the server has sent in all sessions; nil if they are not counted.
	heard func() uint64
	// permission is [Options.Permission].
	permission Permission
	// guard recovers from panics; nil for not at all.
	guard *panics.Guard
	// peer is what the backend's peers are compared with; nil for no comparison. It has its own lock, which comes before mu.
	peer *member

	wanted  chan struct{}  // of size one: review health and pool
	changed chan struct{}  // of size one: the pool has changed, for Close
	results chan result[C] // from the dialing goroutines
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}

	// Owned by the worker's goroutine.
	dialing   int                // goroutines that dial
	dials     context.Context    // of the dials since the settings last changed
	stopDials context.CancelFunc // cancels them
	told      advice             // what the pool was last told

	mu     sync.Mutex
	health *health.Tracker // guarded by mu
	limits limits          // guarded by mu
}

// limits are what the configuration says to a worker.
type limits struct {
	health.Limits
	maxIdle time.Duration // for connections beyond the warm ones
	// variantMaxIdle is for how long connections of a variant are kept warm that no client asks for; 0 for ever.
	variantMaxIdle time.Duration
}

// advice is what a worker tells its pool about the server's health.
type advice struct {
	usable, dialable, predial bool
	held                      bool
	share                     float64
	ceiling                   health.Ceiling
	fullAt, trial             int
}

func (w *worker[C]) init() {
	w.wanted = make(chan struct{}, 1)
	w.changed = make(chan struct{}, 1)
	w.results = make(chan result[C])
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.dials, w.stopDials = context.WithCancel(w.ctx)
	w.done = make(chan struct{})
	w.health = health.New(w.limits.Limits)
	w.told = advice{usable: true, dialable: true, predial: true, share: 1}
}

// signal asks the worker to review the pool. It never blocks.
func (w *worker[C]) signal() {
	tasks.Wake(w.wanted)
	tasks.Wake(w.changed)
}

// stop ends the worker and waits for the dialing goroutines, or until ctx ends.
func (w *worker[C]) stop(ctx context.Context) {
	w.cancel()
	select {
	case <-w.done:
	case <-ctx.Done(): // a dial may read a secret on a mount that hangs
	}
}

// dialParallel is how many connections to a server are dialed at once.
const dialParallel = 32

// limits returns what the options say to the worker.
func (o *Options) limits() limits {
	return limits{
		Limits: health.Limits{
			Parallel: dialParallel, Failures: o.CircuitFailures, SlowStart: o.SlowStart, StallTimeout: o.StallTimeout, StallCheck: o.stallCheck(),
			LagLimit: o.LagLimit,
		},
		maxIdle: o.MaxIdle, variantMaxIdle: o.VariantMaxIdle,
	}
}

// stallCheck returns what brings the server back after its sessions have stalled.
func (o *Options) stallCheck() health.StallCheck {
	switch {
	case o.Canary != nil:
		return health.CanaryCheck
	case o.Probe != nil:
		return health.ProbeCheck
	}
	return health.NoCheck
}

// configure changes the limits.
func (w *worker[C]) configure(l limits) {
	w.tell(func(t *health.Tracker) {
		w.limits = l
		t.Configure(l.Limits, w.now())
	})
}

func (w *worker[C]) run() {
	defer close(w.done)
	for !w.work() {
		select {
		case <-time.After(time.Second): // what has made it panic may do so again
		case <-w.ctx.Done():
		}
	}
}

// work is what the worker does until it is stopped. It returns false when it has panicked.
func (w *worker[C]) work() (ended bool) {
	defer w.guard.Recover("backend's worker", nil)
	timer := time.NewTimer(time.Hour) // set before it is awaited
	defer timer.Stop()
	for w.ctx.Err() == nil { // select would not prefer the end to a signal
		timer.Reset(w.review())
		select {
		case <-w.wanted:
		case <-timer.C:
		case r := <-w.results:
			w.dialed(r)
		case <-w.ctx.Done():
		}
	}
	for w.dialing > 0 {
		w.dialed(<-w.results)
	}
	return true
}

// review asks health and pool what to do, does it, and returns when to review again at the latest.
func (w *worker[C]) review() time.Duration {
	now := w.now()
	w.comparePeers(now)
	w.hear(now)
	connections := connectionsOf(w.pool.Stats())
	var limits limits
	var permit health.Permit
	w.locked(func(t *health.Tracker) { limits, permit = w.limits, t.Review(now, connections) })
	if permit.Renewed {
		w.giveUpDials(permit.Failing)
	}
	w.publish(now)
	w.retireUnwanted(&limits, &permit, now)
	return min(w.dialWanted(&permit, now), again(&limits), permit.Within)
}

// outdatedGrace is for how long dials continue when the settings have changed. A server that gets a dial that is given up may hold it for a
// moment, beside the one that is dialed instead; most dials need less time than this, and one that hangs does not hold up the new ones.
const outdatedGrace = time.Second

// giveUpDials gives up the dials in progress, which began with settings that are outdated: at once if dialing fails anyway.
func (w *worker[C]) giveUpDials(failing bool) {
	if failing {
		w.stopDials()
	} else {
		time.AfterFunc(outdatedGrace, w.stopDials)
	}
	w.dials, w.stopDials = context.WithCancel(w.ctx)
}

// again returns when to review again if nothing happens, as far as the worker itself is concerned.
func again(l *limits) time.Duration {
	next := reviewEvery + rand.N(reviewEvery)
	if l.maxIdle > 0 {
		next = min(next, max(l.maxIdle/4, 10*time.Millisecond))
	}
	return next
}

// publish reports what has changed of the server's health, and tells the pool.
func (w *worker[C]) publish(now pool.Instant) {
	var changes []health.Change
	var next advice
	w.locked(func(t *health.Tracker) {
		changes = t.Changes()
		next = advice{t.Usable(), w.told.dialable, t.Predial(now), t.Held(now), t.Share(), t.Ceiling(), t.FullAt(), t.Trial()}
	})
	for _, change := range changes {
		w.report.changed(change)
	}
	told := w.told
	w.told = next
	if told.usable && !next.usable { // before what would let clients that wait begin sessions there
		w.pool.SetUsable(false)
	}
	if next.predial != told.predial {
		w.pool.SetPredial(next.predial)
	}
	if next.ceiling != told.ceiling {
		w.pool.SetCeiling(next.ceiling.Value)
		w.report.setCeiling(next.ceiling)
	}
	if next.fullAt != told.fullAt {
		w.report.setFullAt(next.fullAt)
	}
	if next.held != told.held {
		w.pool.SetHeld(next.held)
	}
	if next.share != told.share {
		w.pool.SetRamp(next.share)
	}
	if next.trial != told.trial {
		w.pool.SetTrial(next.trial > 0)
	}
	if next.usable && !told.usable {
		w.pool.SetUsable(true)
	}
}

// setDialable tells the pool whether this backend dials for clients that wait. If it does not, the others do.
func (w *worker[C]) setDialable(dialable bool) {
	if w.told.dialable != dialable {
		w.told.dialable = dialable
		w.pool.SetDialable(dialable)
	}
}

// retireUnwanted retires idle connections that should not be there, and those to be replaced, as long as they can be.
func (w *worker[C]) retireUnwanted(l *limits, p *health.Permit, now pool.Instant) {
	for p.Replace > 0 {
		conn, ok := w.pool.RetireOutdated(p.Replace)
		if !ok {
			break
		}
		w.retire(conn)
	}
	if l.variantMaxIdle > 0 {
		w.pool.Forget(now - pool.Instant(l.variantMaxIdle))
	}
	idleSince := now - pool.Instant(l.maxIdle) + 1 // idle for exactly so long is long enough
	for {
		conn, ok := w.pool.RetireSurplus(idleSince)
		if !ok {
			return
		}
		w.retire(conn)
	}
}

// tell tells the server's health of an event, and has the worker review it. It may be called from any goroutine.
func (w *worker[C]) tell(event func(*health.Tracker)) {
	w.locked(event)
	tasks.Wake(w.wanted)
}

// locked calls f with the mutex held.
func (w *worker[C]) locked(f func(*health.Tracker)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.health)
}

// lostOnProbation notes that a connection was lost soon after it was established, and before it served a session.
func (w *worker[C]) lostOnProbation(reason string) {
	w.tell(func(t *health.Tracker) { t.LostOnProbation(reason, w.now()) })
}

// tellIf is tell for an event that needs a review only if it returns that it has changed anything.
func (w *worker[C]) tellIf(event func(*health.Tracker) (changed bool)) {
	changed := false
	w.locked(func(t *health.Tracker) { changed = event(t) })
	if changed {
		tasks.Wake(w.wanted)
	}
}

// serves notes that a connection begins to serve a session.
func (w *worker[C]) serves() { w.tellIf(func(t *health.Tracker) bool { return t.Serves(w.now()) }) }

// hear tells the server's health whether sessions get results, if that matters now.
func (w *worker[C]) hear(now pool.Instant) {
	inDoubt := false
	w.locked(func(t *health.Tracker) { inDoubt = t.InDoubt(now) })
	if !inDoubt || w.heard == nil {
		return
	}
	frames := w.heard()
	w.locked(func(t *health.Tracker) { t.Heard(frames, now) })
}

// sessionBegan notes that a client's session began.
func (w *worker[C]) sessionBegan(client Client, now pool.Instant) {
	w.locked(func(t *health.Tracker) { t.SessionBegan(client, now) })
	w.peer.sessionBegan(now)
}

// sessionEnded notes how a session ended.
func (w *worker[C]) sessionEnded(e health.SessionEnd, now pool.Instant) {
	changed := false
	w.locked(func(t *health.Tracker) { changed = t.SessionEnded(e, now) })
	if e.Fault != "" && !e.Alike {
		w.report.update(func(h *Health) { h.Broken++ })
		if !e.Outdated {
			w.peer.sessionFailed(now)
		}
	}
	if changed { // now that the peers know
		tasks.Wake(w.wanted)
	}
}

// sessionStalled notes that a session has had no result for too long. It is about to end, or to move.
func (w *worker[C]) sessionStalled(e health.Stall) {
	w.tell(func(t *health.Tracker) { t.SessionStalled(e, w.now()) })
}

// sessionAnswered notes that a session that began then has a result.
func (w *worker[C]) sessionAnswered(began pool.Instant) {
	w.tellIf(func(t *health.Tracker) bool { return t.SessionAnswered(began, w.now()) })
}

// sessionsLag notes how late the server's results come. It returns whether a session should leave the server.
func (w *worker[C]) sessionsLag(r health.LagReading) (overfull bool) {
	book := w.pool.Stats()
	r.InUse, r.Cap = book.Leased+book.Resetting, book.Cap
	w.tellIf(func(t *health.Tracker) (changed bool) {
		changed, overfull = t.SessionsLag(r, w.now())
		return changed
	})
	return overfull
}

// checked notes that the server has answered a probe or, if canary is set, a canary.
func (w *worker[C]) checked(canary bool) {
	w.tell(func(t *health.Tracker) {
		if canary {
			t.CanaryAnswered(w.now())
		} else {
			t.ProbeAnswered(w.now())
		}
	})
}

// sessionRefused notes that the server refused a client's session because it is full. Its connection is still leased.
// No other session begins there until the worker has decided for how long none may.
func (w *worker[C]) sessionRefused(client Client) {
	others := connectionsOf(w.pool.Stats()).InUse - 1
	w.pool.SetHeld(true) // before the worker knows why: it would not lift a hold that came after it has told the pool that there is none
	w.tell(func(t *health.Tracker) { t.SessionRefused(client, others, w.now()) })
}

// forgetStall notes that sessions which have stalled say nothing about the server any longer.
func (w *worker[C]) forgetStall() { w.tell(func(t *health.Tracker) { t.ForgetStall(w.now()) }) }

// renew notes that the backend is dialed with other settings from now on. What happened before is forgotten.
func (w *worker[C]) renew() { w.tell((*health.Tracker).Renew) }

// probed notes the verdict of the active probe.
func (w *worker[C]) probed(up bool, reason string) {
	w.report.setProbe(up, reason)
	w.tell(func(t *health.Tracker) { t.Probed(up, w.now()) })
}

// probeEnded notes that the probe has ended, and whether another one follows.
func (w *worker[C]) probeEnded(another bool) {
	w.report.noProbe()
	if !another {
		w.tell(func(t *health.Tracker) { t.Probed(true, w.now()) })
	}
}

// canaryAnswered notes the verdict of the canary.
func (w *worker[C]) canaryAnswered(up bool, reason string) {
	w.report.setCanary(up, reason)
	w.tell(func(t *health.Tracker) { t.CanaryPlayed(up, w.now()) })
}

// canaryEnded notes that canaries are no longer played.
func (w *worker[C]) canaryEnded() {
	w.report.noCanary()
	w.tell(func(t *health.Tracker) { t.CanaryPlayed(true, w.now()) })
}

// comparePeers ejects the backend as an outlier, or takes it back in, by how its sessions go in comparison with its peers'.
func (w *worker[C]) comparePeers(now pool.Instant) {
	w.peer.compare(now, func(own *health.Sessions, peers func() health.Peers) (ejected bool) {
		w.locked(func(t *health.Tracker) { ejected = t.ComparePeers(own, peers, now) })
		return ejected
	})
}
