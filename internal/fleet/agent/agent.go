// Package agent carries what a proxy's pools use and want to the ledger of its fleet, and what the ledger grants to the pools.
//
// An [Agent] has one goroutine that makes the exchanges, one at a time: about once a second, and immediately when clients wait for places or
// others do. It opens the ledger when it can, and again when it was lost. A second goroutine looks for proof that proxies are dead which
// are no longer seen (prover.go). What a proxy does while the database is away is in databaseoutage.go. The protocol is package fleet's; package app starts the agent and ends it. Nothing on the path of a
// frame or of a lease comes here.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Pools are the proxy's pools. Both methods may be called from any goroutine, and do not wait for I/O.
type Pools interface {
	// Usage returns how the pools use each server of the configuration, and each other one at which they still have connections.
	Usage() map[string]fleet.Usage
	// SetGrants says how many connections to each server the pools may have; 0 to those that are missing. When it returns, nothing is
	// dialed beyond that. Nil: nothing is shared, and they may use the whole caps.
	SetGrants(map[string]int)
}

// Presence finds out whether proxies live. Dead and Meet may wait for the network until ctx ends, and are called for several proxies at a
// time, but never for one. Tidy is called while neither runs.
type Presence interface {
	// Dead reports whether a proxy is proven dead, and by what. suspected: it was not seen for some time; otherwise only those proofs
	// are looked for that need no network.
	Dead(ctx context.Context, m fleet.Member, suspected bool) (how string, dead bool)
	// Meet reaches a proxy that lives at its address, so that it proves something if that refuses later.
	Meet(ctx context.Context, m fleet.Member)
	// Hold keeps a process with the same state directory, which lives, from being proven dead by others with it, until release is called.
	Hold(id fleet.ID) (release func(), err error)
	// Alone reports whether no other process with the same state directory runs; false if that cannot be known. Any goroutine may call it.
	Alone() bool
	// Tidy removes what is left of processes that are no longer in a ledger.
	Tidy(members []fleet.Member)
}

// Memory remembers, over restarts of the process, whether its proxy was ever beside another one in the ledger. Its methods are called by the
// agent's goroutine.
type Memory interface {
	// Alone reports whether the proxy was alone at all of its exchanges; false if that is not known.
	Alone() bool
	// Note notes whether it is alone: once it was not, that stays. It is called after each exchange, and must be cheap if nothing has changed.
	Note(alone bool)
}

// Options are what an agent is made with.
type Options struct {
	// Open opens the store of the ledger. It is called again after an error.
	Open func() (fleet.Store, error)
	// Ledger is the ledger as people and logs may see it: without a password.
	Ledger string
	// Local: all proxies of the ledger run on this host, and the store notifies of each change by another process. While such a proxy is
	// alone, it makes no exchange. A local ledger that cannot be used is no reason not to serve if no other process runs.
	Local  bool
	Holder fleet.HolderOptions
	Pools  Pools
	// About says what the proxy is and does at this moment. It is called by the agent's goroutine.
	About    func() fleet.Member
	Presence Presence // nil for none: no proxy is ever proven dead
	// Memory says whether the proxy has always been alone in the ledger. If so, and it runs alone, it starts with the whole caps while
	// the ledger cannot be reached. Nil: it waits for the ledger, with Holder.Without places of each server.
	Memory Memory
	// Learned is called by the agent's goroutine after each exchange, and when the ledger is lost. It must not call the agent. May be nil.
	Learned func(*Status)
	// Now is the clock; nil for the machine's.
	Now func() fleet.Instant
	Log *slog.Logger
}

// Agent is a proxy's part in its fleet. Its methods may be called from any goroutine.
type Agent struct {
	o      Options
	status atomic.Pointer[Status]
	// expires is the [fleet.Instant] from which on others may have the places; 0 for never. It is written by the goroutine of run.
	expires atomic.Int64
	shared  atomic.Pointer[fleet.Store] // the store, for Forget; nil while there is none

	poked         chan struct{}      // of size one
	syncs         chan chan struct{} // who waits for an exchange that begins from now on
	newNeighbours chan *neighbour
	received      chan receivedMessage
	leaving       chan context.Context
	left          bool               // the ledger no longer knows the proxy; static once done is closed
	done          chan struct{}      // closed when both goroutines have ended
	end           context.CancelFunc // ends them

	// All below is owned by the goroutine of run.
	holder       *fleet.Holder
	store        fleet.Store     // nil while there is none
	changed      <-chan struct{} // of store
	unwatch      context.CancelFunc
	usage        map[string]fleet.Usage // as the holder was last given it
	limits       map[string]int         // that the pools have; nil for the whole caps
	limitsSet    bool                   // whether they have any
	kept         map[string]int         // while unshared gives way to an exchange: what the pools have; nil otherwise
	answered     bool                   // there was an answer
	assumesAlone bool                   // there was no answer, but the proxy was alone before, so the pools have the whole caps
	unshared     bool                   // a local ledger cannot be used, and no other could use it, so the pools have the whole caps
	expired      bool                   // others may have the places, since the ledger was not reached for so long
	failures     int                    // exchanges that failed one after the other
	next         fleet.Instant          // when the next exchange is due
	lookAt       fleet.Instant          // when to look again whether an exchange is due sooner; 0 for never
	last         fleet.Instant          // when the last one began, or its report was sent
	waiters      []chan struct{}        // for whom syncs asked
	view         view                   // what the last answers had
	proofs       *prover

	neighbours []*neighbour
	offers     map[string]*neighbour // to whom places are offered, by server
	listeners  sync.WaitGroup        // goroutines that listen to neighbours
}

const (
	// timeout is the longest that an exchange may take, and fullTimeout one with a full report: many proxies may join at once.
	timeout, fullTimeout = fleet.HeartbeatInterval * 3 / 2, 3 * time.Second
	// gap is the shortest time between the beginnings of two exchanges.
	gap = 100 * time.Millisecond
	// The waits after exchanges that failed: from the shortest, doubled each time, to the longest.
	shortestWait, longestWait = fleet.HeartbeatInterval / 2, 2 * time.Second
	// refusedWait is the wait after an exchange that the database refused: a person has to do something first.
	refusedWait = 15 * time.Second
)

// Start returns an agent that begins to make exchanges. End it with [Agent.Leave].
func Start(o Options) *Agent {
	if o.Now == nil {
		o.Now = now
	}
	ctx, end := context.WithCancel(context.Background())
	a := &Agent{
		o: o, holder: fleet.NewHolder(o.Holder), end: end,
		newNeighbours: make(chan *neighbour), received: make(chan receivedMessage), offers: make(map[string]*neighbour),
		poked: make(chan struct{}, 1), syncs: make(chan chan struct{}), leaving: make(chan context.Context), done: make(chan struct{}),
	}
	a.view.init()
	a.proofs = newProver(o.Presence)
	a.status.Store(&Status{Mode: Waiting, Ledger: o.Ledger, Self: o.Holder.ID, Since: time.Now()})
	go func() {
		defer close(a.done)
		proving := make(chan struct{})
		go func() {
			defer close(proving)
			a.proofs.run(ctx)
		}()
		a.run(ctx)
		end()
		<-proving
	}()
	return a
}

// Poke notifies the agent that what the pools want has changed: clients wait for places, places that others want are free, the configuration or what
// the proxy does has changed. It does not wait.
func (a *Agent) Poke() {
	tasks.Wake(a.poked)
}

// Sync waits until an exchange that begins from now on has ended, well or badly, or ctx ends.
func (a *Agent) Sync(ctx context.Context) {
	ended := make(chan struct{})
	select {
	case a.syncs <- ended:
	case <-a.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-ended:
	case <-a.done:
	case <-ctx.Done():
	}
}

// Forget removes a proxy that an operator declares dead from the ledger. It returns [fleet.ErrUnknown] if there is none.
func (a *Agent) Forget(ctx context.Context, id fleet.ID) error {
	store := a.shared.Load()
	if store == nil {
		return fleet.ErrUnreachable
	}
	if err := (*store).Forget(ctx, id); err != nil {
		return err
	}
	a.Sync(ctx)
	return nil
}

// Leave ends the agent. If the pools have no connections, it gives all places back and removes the proxy from the ledger, for
// which it waits until ctx ends; otherwise, or if the ledger is not reached, it leaves the places to the proxy that proves that the process has ended, and
// returns false.
func (a *Agent) Leave(ctx context.Context) (left bool) {
	select {
	case a.leaving <- ctx:
	case <-a.done:
	}
	<-a.done
	return a.left
}

// run makes the exchanges until ctx ends or Leave is called.
func (a *Agent) run(ctx context.Context) {
	defer a.close()
	listening, deaf := context.WithCancel(ctx)
	defer deaf()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case leaving := <-a.leaving:
			a.left = a.leave(leaving)
			return
		case ended := <-a.syncs:
			a.waiters = append(a.waiters, ended)
			a.hurry()
		case <-a.poked:
			a.lookAt = max(a.o.Now(), a.last+fleet.Instant(gap))
		case _, open := <-a.changed:
			if !open {
				a.changed = nil
			}
			a.hurry()
		case n := <-a.newNeighbours:
			a.addNeighbour(listening, n)
		case h := <-a.received:
			a.receive(&h)
		case death := <-a.proofs.deaths:
			a.died(death)
			a.hurry()
		case <-timer.C:
			a.act(ctx)
		}
		timer.Reset(time.Duration(a.wake() - a.o.Now()))
	}
}

// act does what is due.
func (a *Agent) act(ctx context.Context) {
	at := a.o.Now()
	if a.lookAt > 0 && at >= a.lookAt {
		a.lookAt = 0
		if a.observe(); a.holder.Due(at) || a.hasUnreported() {
			a.hurry()
		}
		a.lend()
	}
	switch expires, ok := a.holder.Expired(); {
	case at >= a.next && a.mayRest():
		a.rest()
	case at >= a.next:
		a.exchange(ctx)
	case ok && at >= expires && !a.expired: // others may take the places from now on
		a.expire(at)
	}
}

// hurry makes the next exchange begin immediately, or a gap after the last; while the ledger fails, no sooner than it would.
func (a *Agent) hurry() {
	if a.failures > 0 && len(a.waiters) == 0 {
		return
	}
	a.view.resting = false
	a.next = min(a.next, max(a.o.Now(), a.last+fleet.Instant(gap)))
}

// wake returns when the loop has something to do.
func (a *Agent) wake() fleet.Instant {
	at := a.next
	if a.lookAt > 0 {
		at = min(at, a.lookAt)
	}
	if expires, ok := a.holder.Expired(); ok && !a.expired {
		at = min(at, expires)
	}
	return at
}

// mayRest reports whether no exchange is needed, since no other proxy is there, and the store notifies when one comes.
func (a *Agent) mayRest() bool {
	return a.o.Local && a.o.Holder.Timeout == 0 && a.changed != nil && a.view.resting
}

// rest looks whether there is something to report after all.
func (a *Agent) rest() {
	if a.observe(); a.holder.Due(a.o.Now()) || a.hasUnreported() {
		a.hurry()
		return
	}
	a.next = a.o.Now() + jitter(fleet.HeartbeatInterval)
	a.publish()
}

// hasUnreported reports whether the ledger does not know of a server, or of its cap as it is now, or of what the proxy does.
func (a *Agent) hasUnreported() bool {
	about := a.o.About()
	return about.State != a.view.reportedState || about.Config != a.view.reportedConfig ||
		!maps.EqualFunc(a.usage, a.view.reportedCaps, func(u fleet.Usage, reported int) bool { return u.Cap == reported })
}

// jitter returns a little less than d, so that proxies that were started together do not stay together, and that two heartbeat intervals, in which places
// move, and the gaps after them take less than two seconds.
func jitter(d time.Duration) fleet.Instant {
	return fleet.Instant(float64(d) * (0.8 + 0.15*rand.Float64()))
}

// observe gives the holder how the pools use the servers.
func (a *Agent) observe() {
	usage := a.o.Pools.Usage()
	for server, u := range usage {
		u.Used = max(u.Used, a.kept[server]) // they may dial up to this before there is an answer
		a.holder.Use(server, u)
	}
	a.usage = usage
}

// exchange makes one exchange.
func (a *Agent) exchange(ctx context.Context) {
	a.last = a.o.Now()
	waiters := a.waiters
	a.waiters = nil
	err := a.open(ctx)
	if err == nil {
		err = a.try(ctx)
	}
	if ctx.Err() != nil {
		return // the agent ends
	}
	if err != nil {
		a.failed(err)
		a.lend()
	}
	for _, ended := range waiters {
		close(ended)
	}
}

// open opens the store if there is none.
func (a *Agent) open(ctx context.Context) error {
	if a.store != nil {
		return nil
	}
	store, err := a.o.Open()
	if err != nil {
		return err
	}
	a.store = store
	a.shared.Store(&store)
	watching, unwatch := context.WithCancel(ctx)
	a.changed, a.unwatch = store.Changed(watching), unwatch
	return nil
}

// try carries out an exchange with the store.
func (a *Agent) try(ctx context.Context) error {
	if a.unshared {
		a.keep()
	}
	a.observe()
	about := a.o.About()
	if about.State == fleet.Draining {
		a.holder.Drain()
	}
	r := a.holder.Report(a.o.Now())
	a.apply() // what the report gives back must be out of use before the ledger hears of it
	r.About = about
	asked := a.o.Now()
	a.last = asked // from here on the holder counts the gap, too, within which nothing is due
	limit := timeout
	if r.Full {
		limit = fullTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := a.store.Exchange(ctx, r)
	at := a.o.Now()
	if err != nil {
		a.holder.Failed(r, at)
		if !a.unshared {
			a.apply()
		}
		return err
	}
	a.holder.Answered(r, answer, asked, at)
	if expires, ok := a.holder.Expired(); ok {
		a.expires.Store(int64(expires))
	}
	first := !a.answered
	a.answered, a.assumesAlone, a.unshared, a.kept, a.expired = true, false, false, nil, false
	if a.apply() { // places that no connection uses can be given back now, and no connection that closes will cause it
		a.observe()
	}
	a.failures = 0
	a.next = asked + jitter(a.holder.HeartbeatInterval(a.store.Notifies()))
	a.view.took = time.Duration(at - asked)
	a.learn(r, answer, at, first)
	a.settleLoans(answer.Frozen || answer.Stale || answer.Again)
	if a.o.Memory != nil && !answer.Stale {
		a.o.Memory.Note(!a.hasOthers(about.Instance))
	}
	if a.holder.Due(at + fleet.Instant(gap)) {
		a.next = a.last + fleet.Instant(gap)
	}
	a.publish()
	return nil
}

// apply gives the pools the limits of the holder, and reports whether they are new to them.
func (a *Agent) apply() (changed bool) {
	limits := a.holder.Limits()
	for server, n := range a.kept {
		limits[server] = max(limits[server], n)
	}
	return a.setLimits(limits)
}

// setLimits gives the pools their limits, unless they have them.
func (a *Agent) setLimits(limits map[string]int) (changed bool) {
	if a.limitsSet && maps.Equal(limits, a.limits) && (limits == nil) == (a.limits == nil) {
		return false
	}
	a.limitsSet, a.limits = true, maps.Clone(limits)
	a.o.Pools.SetGrants(limits)
	return true
}

// leave is [Agent.Leave].
func (a *Agent) leave(ctx context.Context) (left bool) {
	if a.store == nil || !a.answered { // a report may have arrived whose answer was lost
		return a.store == nil
	}
	for server, u := range a.o.Pools.Usage() {
		if u.Used > 0 {
			a.o.Log.Warn("leaving the fleet with connections: their places are free when the process has ended", "server", secret.URL(server), "connections", u.Used)
			return false
		}
	}
	a.returnLoans()
	if n := a.holder.Lent(); n > 0 {
		a.o.Log.Warn("leaving the fleet while another process of this host uses places of this one: they are free when the ledger knows of it", "places", n)
		return false
	}
	a.holder.Leave()
	a.apply()
	var err error
	for range 3 { // the first may be asked for a full report
		a.observe()
		r := a.holder.Report(a.o.Now())
		r.About = a.o.About()
		trying, cancel := context.WithTimeout(ctx, timeout)
		asked := a.o.Now()
		var answer *fleet.Answer
		answer, err = a.store.Exchange(trying, r)
		cancel()
		switch {
		case err != nil:
			a.holder.Failed(r, a.o.Now())
		case r.Leaves && !answer.Again && !answer.Stale:
			a.o.Log.Info("left the fleet: all places are given back")
			return true
		default:
			a.holder.Answered(r, answer, asked, a.o.Now())
		}
	}
	if err == nil {
		err = errors.New("the ledger asks again and again what this proxy holds")
	}
	a.o.Log.Warn("cannot leave the fleet: the places are free when another proxy has proven that this process has ended", "reason", err)
	return false
}

// close closes the store.
func (a *Agent) close() {
	a.closeNeighbours()
	if a.unwatch != nil {
		a.unwatch()
	}
	if a.store != nil {
		a.shared.Store(nil)
		_ = a.store.Close()
	}
}
