// Package health decides, from what happens to the connections and sessions of one server, whether sessions may begin there,
// whether connections may be dialed and when, and how large a share of the clients the server gets.
//
// It does no I/O, starts no goroutine, takes no lock and reads no clock: its caller tells a [Tracker] what happens and when, asks it
// what to do, and guards it. All times come from one clock.
package health

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// Instant is a time on the clock of the server's pool.
type Instant = pool.Instant

// Limits are the settings. They can change at any time.
type Limits struct {
	Parallel  int           // most connections dialed at once; at least 1
	Failures  int           // in a row, that open the circuit; at least 1
	SlowStart time.Duration // until a server that was out of service gets its full share; 0 for at once
	// StallTimeout is after how long a session that has had no result has stalled; 0 if sessions are not watched for that.
	StallTimeout time.Duration
	// StallCheck is what brings a server back whose sessions have stalled.
	StallCheck StallCheck
	// LagLimit is the most that results may be late before no session begins; 0 for no limit.
	LagLimit time.Duration
}

// Tracker is the health of one server. It is for one goroutine at a time.
type Tracker struct {
	limits Limits
	random random

	circuit   circuit
	probation probation
	ceiling   ceiling
	lag       lagGuard
	hold      hold
	outlier   outlier
	stall     stall
	slowStart slowStart
	sessions  sessionLog

	dialing    int     // connections that are being dialed
	parallel   int     // most dialed at once for now: fewer after a failure
	shortUntil Instant // nothing is dialed before, since something was short on this machine

	generation int  // counts the changes of settings that [Tracker.Renew] was told of and Review has seen
	renewed    bool // Review has not seen the last one yet

	predialRefused bool    // the server has refused a connection that bore no client's values, and has accepted none since
	predialAt      Instant // no connection is dialed ahead of clients before

	probeDown  bool
	canaryDown bool
	full       int   // sessions refused because the server is full, since the last Review
	refused    votes // clients whose sessions these were, and those before
	beside     int   // sessions that the server served beside the last of them
	turnedAway votes // clients that the server had no connection for, since it last accepted one

	usable  bool // what Usable returns
	reached reachability
	changes []Change
}

// reachability is what was last reported about dialing.
type reachability struct {
	known, yes bool
	reason     string
}

// New returns the health of a server of which nothing bad is known.
func New(l Limits) *Tracker {
	t := &Tracker{limits: l, parallel: l.Parallel, usable: true}
	t.circuit.after, t.slowStart.steps = l.Failures, shareSteps
	return t
}

// Configure changes the limits. Sessions that may lag more than before say nothing about the server. That the server has stalled is void if sessions may
// wait for longer now, or are no longer watched: none of them could show that it works again.
func (t *Tracker) Configure(l Limits, now Instant) {
	t.parallel = min(t.parallel, l.Parallel)
	void := l.StallTimeout == 0 || l.StallTimeout > t.limits.StallTimeout
	freed := l.LagLimit == 0 || l.LagLimit > t.limits.LagLimit
	t.limits, t.circuit.after = l, l.Failures
	if void {
		t.ForgetStall(now)
	}
	if freed {
		t.forgetLag()
	}
}

// Connections are the numbers of a pool's connections that matter here.
type Connections struct {
	Cap   int
	InUse int // by sessions, resets included
	Held  int // by the server: all but those being dialed
	All   int
	// Needed tells that sessions wait for a server, and no other server can take them.
	Needed bool
}

// Serves notes that a connection begins to serve a session: the server does not close all at once. It returns whether that has
// changed anything.
func (t *Tracker) Serves(now Instant) (changed bool) {
	suspect := t.probation.suspect()
	t.probation.lost = 0
	if suspect {
		t.recover(now)
	}
	return suspect
}

// fail notes that the server cannot be reached.
func (t *Tracker) fail(reason string, now Instant) {
	t.parallel = 1 // to see that it is back, one attempt at a time is enough
	was := t.circuit.state
	t.circuit.fail(now)
	t.reach(reachability{true, false, reason})
	if t.circuit.state == Open && was != Open {
		t.changes = append(t.changes, CircuitChange{Open, reason})
	}
	t.reconsider(now)
}

// recover notes that connections can be established.
func (t *Tracker) recover(now Instant) {
	if t.circuit.established() {
		t.changes = append(t.changes, CircuitChange{State: Closed})
	}
	t.reach(reachability{known: true, yes: true})
	t.reconsider(now)
}

func (t *Tracker) reach(r reachability) {
	if t.reached != r {
		t.reached = r
		t.changes = append(t.changes, ReachabilityChange{r.yes, r.reason})
	}
}

// SessionBegan notes that a client's session began. SessionEnded ends it.
func (t *Tracker) SessionBegan(client Client, now Instant) { t.sessions.begin(client, now) }

// SessionEnded notes how a session ended. It returns whether that may have changed anything that Review looks at.
func (t *Tracker) SessionEnded(e SessionEnd, now Instant) (changed bool) {
	before := t.sessions.broken
	t.sessions.end(&e)
	switch {
	case e.Fault != "" && e.Outdated: // it says nothing about those to come
	case e.Fault != "":
		t.sessions.fail(&e, now)
	case !e.Neutral:
		t.sessions.succeed()
		t.circuit.sessionWentWell()
	}
	return before > 0 || e.Fault != ""
}

// InDoubt reports whether Review is about to judge a failure while other sessions continue, so that Heard is to be called before.
func (t *Tracker) InDoubt(now Instant) bool { return t.sessions.fresh && t.sessions.lasting(now) > 0 }

// Heard notes how many frames the server has sent in all sessions so far.
func (t *Tracker) Heard(frames uint64, now Instant) { t.sessions.hear(frames, now) }

// SessionRefused notes that the server refused a client's session because it is full, beside the given number of others that it serves or resets. Some
// servers count sessions, and not connections.
func (t *Tracker) SessionRefused(client Client, others int, now Instant) {
	if t.full++; t.full > 1 {
		others = min(others, t.beside) // the first of several was beside the last
	}
	t.beside = others
	t.refused.add(&t.sessions.clientele, client, now)
}

// RefusesOnly reports whether the server has lately refused no sessions but this client's, while there are others: perhaps it is full for this
// client only.
func (t *Tracker) RefusesOnly(client Client, now Instant) bool {
	return t.refused.only(&t.sessions.clientele, client, now)
}

// Renew notes that the server is dialed with other settings from now on: what has failed before says nothing about those.
func (t *Tracker) Renew() {
	t.renewed = true
	t.sessions.succeed()
	t.probation.lost = 0
}

// Probed notes the verdict of the active probe. Without one the server is up.
func (t *Tracker) Probed(up bool, now Instant) {
	t.probeDown = !up
	t.reconsider(now)
}

// CanaryPlayed notes the verdict of the canary: whether the server answers it as it should, or fails again and again. Without one the server is
// up.
func (t *Tracker) CanaryPlayed(up bool, now Instant) {
	t.canaryDown = !up
	t.reconsider(now)
}

// ComparePeers ejects the server as an outlier, or takes it back in, by how its sessions go in comparison with its peers'. It may change own,
// and calls peers only if there is something to compare. It returns whether the server is ejected.
func (t *Tracker) ComparePeers(own *Sessions, peers func() Peers, now Instant) (ejected bool) {
	was := t.outlier.ejected
	enough := !t.sessions.clientele.several() || t.sessions.compared.since(now-Instant(outlierVotes)) >= min(t.limits.Failures, maxVotes)
	why := t.outlier.compare(own, peers, t.limits.Failures, enough, now)
	if t.outlier.ejected != was {
		t.changes = append(t.changes, OutlierChange{t.outlier.ejected, why})
		t.reconsider(now)
	}
	return t.outlier.ejected
}

// lowerCeiling notes that the server refused a connection or session beside the given number of other connections.
func (t *Tracker) lowerCeiling(others, limit int, now Instant) {
	if t.ceiling.lower(others, now) {
		t.changes = append(t.changes, CeilingChange{t.ceiling.value, limit})
	}
}

// reconsider decides whether the server is in service, by all that is known of it.
func (t *Tracker) reconsider(now Instant) {
	usable := t.circuit.state == Closed && !t.outlier.ejected && !t.probeDown && !t.canaryDown && t.stall.state != stalled
	if usable && !t.usable {
		t.slowStart.begin(now)
		t.slowStart.rise(now, t.limits.SlowStart)
	}
	t.usable = usable
}

// Permit is what may be dialed now.
type Permit struct {
	// Dials is how many more connections may be dialed.
	Dials int
	// Trial tells that the one connection that may be dialed shows whether the server works again, so that it is dialed whether it is
	// wanted or not. While it is being dialed, Dials is 0.
	Trial bool
	// BackingOff tells that nothing is dialed for a while because the server fails.
	BackingOff bool
	// Short tells that nothing is dialed for a moment because something was short on this machine.
	Short bool
	// Replace is how many outdated idle connections may be replaced at once; 0 while dialing fails.
	Replace int
	// Renewed tells that the connections which are being dialed are outdated, since [Tracker.Renew].
	Renewed bool
	// Failing tells that dialing failed before Renewed.
	Failing bool
	// Within is when to call Review again at the latest.
	Within time.Duration
}

// reviewEvery is when Review is to be called again if nothing is pending.
const reviewEvery = time.Hour

// Review notes that time has passed, and returns what may be dialed. It is called after each event, and when a Permit says so.
func (t *Tracker) Review(now Instant, c Connections) Permit {
	p := Permit{Renewed: t.renewed, Within: reviewEvery}
	if t.renewed {
		p.Failing = t.circuit.failing()
		t.renew(now)
	}
	if t.probation.passed(now) {
		t.Serves(now)
	}
	if t.sessions.fails(t.circuit.after, now) {
		t.trip(now)
	}
	t.slowStart.rise(now, t.limits.SlowStart)
	if t.full > 0 {
		one := t.sessions.clientele.several() && t.refused.since(now-Instant(refusedWithin)) < 2
		if t.hold.refuse(t.beside, one, now); !one && t.hold.lasts() {
			t.lowerCeiling(t.beside, c.Cap, now)
		}
		t.full = 0
	}
	if t.ceiling.raise(c.Cap, now) {
		t.changes = append(t.changes, CeilingChange{0, c.Cap})
	}
	stall := t.reviewStall(now)
	t.permit(&p, now, c.Needed)
	if stall > 0 {
		p.Within = min(p.Within, stall)
	}
	return p
}

func (t *Tracker) renew(now Instant) {
	t.renewed = false
	t.generation++
	t.circuit.renew()
	t.acceptPredial()
	t.probation, t.predialAt, t.turnedAway = probation{}, 0, nil
	t.ForgetStall(now)
	t.forgetLag()
}

// trip opens the circuit because of broken sessions.
func (t *Tracker) trip(now Instant) {
	n, clients := t.sessions.broken, t.sessions.clients(now)
	t.sessions.succeed()
	if t.circuit.state != Closed {
		return
	}
	t.circuit.trip(now, clients >= t.circuit.after || !t.sessions.clientele.several())
	t.changes = append(t.changes, CircuitChange{Open, fmt.Sprintf("%d sessions in a row were broken: %s", n, t.sessions.how)})
	t.reconsider(now)
}

func (t *Tracker) permit(p *Permit, now Instant, needed bool) {
	again := func(within time.Duration) { p.Within = min(p.Within, within) }
	if t.probation.suspect() {
		again(Probation)
	}
	if t.slowStart.rising {
		again(t.limits.SlowStart / shareSteps)
	}
	if t.outlier.ejected {
		again(outlierCompare)
	}
	if t.ceiling.value > 0 {
		again(max(time.Duration(t.ceiling.raiseAt-now), time.Millisecond))
	}
	if t.Held(now) {
		again(max(time.Duration(t.hold.until-now), time.Millisecond))
	}
	if t.circuit.state == Closed && !t.probation.suspect() {
		p.Replace = t.parallel
	}
	was := t.circuit.state
	if wait := t.circuit.wait(now, needed); wait > 0 {
		p.BackingOff = true
		again(min(wait, NeededBackoff)) // sessions may need it before
		return
	}
	if was != t.circuit.state {
		t.changes = append(t.changes, CircuitChange{State: t.circuit.state})
	}
	if wait := time.Duration(t.shortUntil - now); wait > 0 {
		p.Short = true
		again(wait)
		return
	}
	if t.circuit.state == HalfOpen {
		p.Trial = true
		if t.dialing == 0 {
			p.Dials = 1
		}
		return
	}
	if !t.Predial(now) {
		again(time.Duration(t.predialAt - now))
	}
	p.Dials = max(t.parallel-t.dialing, 0)
}

// Usable reports whether sessions may begin.
func (t *Tracker) Usable() bool { return t.usable }

// Ceiling is how many connections a server gets at present, if those are fewer than its cap, and what limits them.
type Ceiling struct {
	Value  int          // at least 1; 0 for as many as the cap
	Cause  CeilingCause // NoCeiling with a Value of 0
	Reason string       // in words, if the cause does not say it all
}

// CeilingCause is what limits the connections to a server.
type CeilingCause uint8

// The causes.
const (
	NoCeiling CeilingCause = iota
	FullCeiling
	LagCeiling
)

// String returns the cause's name as it is used in statistics; empty for none.
func (c CeilingCause) String() string { return [...]string{"", "full", "lag"}[c] }

// Ceiling returns the lowest of the ceilings.
func (t *Tracker) Ceiling() (lowest Ceiling) {
	if n := t.ceiling.value; n > 0 {
		lowest = Ceiling{n, FullCeiling, ""}
	}
	if n := t.lag.ceiling; n > 0 && (lowest.Value == 0 || n < lowest.Value) {
		lowest = Ceiling{n, LagCeiling, t.lag.reason}
	}
	return lowest
}

// FullAt returns what the ceiling was when the server refused something last; 0 if there is no ceiling.
func (t *Tracker) FullAt() int { return t.ceiling.seen }

// Held reports whether no session may begin for a moment, since the server has just refused one.
func (t *Tracker) Held(now Instant) bool { return t.full > 0 || now < t.hold.until }
