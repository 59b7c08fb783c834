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

const (
	// ShortPause is how long nothing is dialed after something was short on this machine.
	ShortPause = time.Second
	// predialPause is how long, or up to a quarter less, connections are dialed for waiting clients only, after the server has refused
	// one that bore no client's values.
	predialPause = 30 * time.Second
)

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

// Configure changes the limits. Sessions that may lag more than before say nothing about the server. That the server has stalled is void if sessions may wait for longer now, or are not watched any longer: none of
// them could show that it works again.
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

// Attempt is one connection that is being dialed.
type Attempt struct {
	began      Instant
	generation int
}

// Outcome is how an attempt to dial ended.
type Outcome uint8

// The outcomes of an attempt.
const (
	// Established: the connection is in the pool.
	Established Outcome = iota
	// Failed: the server could not be reached, or refused the connection.
	Failed
	// Full: the server refused the connection because it has as many as it takes.
	Full
	// ClientRefused: the server refused the values of the client that the connection was for. So it works.
	ClientRefused
	// AnonymousRefused: the server refused a connection because it bore no client's values. So it works.
	AnonymousRefused
	// LocalShortage: something was short on this machine. That says nothing about the server.
	LocalShortage
	// Dropped: the connection is no longer wanted. That says nothing about the server either.
	Dropped
)

// DialResult is what became of an attempt.
type DialResult struct {
	Outcome Outcome
	Reason  string // of a failure or refusal
	// Private tells that the connection bears values of one client alone, and Client who that is.
	Private bool
	Client  Client
	// Failing tells that what refuses the client may also be that the server fails: it counts in the comparison with its peers, as the session of
	// that client would.
	Failing bool
	// Pool is the pool's connections, for [Full]: the refused one is still among them.
	Pool Connections
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

// Dial notes that a connection is being dialed. It must be one of those that the last [Permit] allows. DialEnded ends it.
func (t *Tracker) Dial(now Instant) Attempt {
	t.dialing++
	return Attempt{now, t.generation}
}

// Outdated reports whether the settings that an attempt dials with have changed.
func (t *Tracker) Outdated(a Attempt) bool { return a.generation != t.generation }

// DialEnded notes what became of an attempt. An outdated one says nothing. A server that says it is full, but holds no connection,
// has failed. DialEnded returns whether the server may be full for the client only that the connection was for: if it has turned no other away
// since it last accepted a connection. Others wait for a moment then, in which the client goes elsewhere or pauses.
func (t *Tracker) DialEnded(a Attempt, r DialResult, now Instant) (fullForClient bool) {
	t.dialing--
	if t.Outdated(a) {
		return false
	}
	t.sessions.clientele.see(r.Client)
	if r.Failing {
		t.sessions.compared.add(&t.sessions.clientele, r.Client, now)
	}
	if r.Outcome == Full && r.Private {
		t.turnedAway.add(&t.sessions.clientele, r.Client, now)
		if t.turnedAway.only(&t.sessions.clientele, r.Client, now) {
			t.hold.refuse(0, true, now)
			return true
		}
	}
	if r.Outcome == Full && r.Pool.Held == 0 {
		r.Outcome = Failed
	}
	switch r.Outcome {
	case Established:
		t.turnedAway = t.turnedAway[:0]
		t.established(a, r.Private, now)
	case Failed:
		t.fail(r.Reason, now)
	case Full:
		t.parallel = 1
		t.lowerCeiling(r.Pool.All-1, r.Pool.Cap, now)
	case ClientRefused:
		if t.circuit.state == HalfOpen {
			t.recover(now)
		}
	case AnonymousRefused:
		t.refusePredial(r.Reason, now)
	case LocalShortage:
		t.shortUntil = now + Instant(ShortPause)
	}
	return false
}

func (t *Tracker) established(a Attempt, private bool, now Instant) {
	if !private && t.Predial(now) {
		t.acceptPredial()
	}
	t.probation.establish(a.began, now)
	if t.probation.suspect() { // the last ones were established too, and were lost
		t.circuit.holdOff(now)
		return
	}
	t.recover(now)
	t.parallel = min(2*t.parallel, t.limits.Parallel)
}

// LostOnProbation notes that a connection was lost within [Probation] and before it served a session. Private connections and outdated
// ones do not count.
func (t *Tracker) LostOnProbation(reason string, now Instant) {
	t.probation.lose(now)
	if t.probation.suspect() {
		t.fail("connection lost before it served a session: "+reason, now)
	}
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

// refusePredial stops dialing ahead of clients for a while. The server works: that closes the circuit.
func (t *Tracker) refusePredial(reason string, now Instant) {
	t.recover(now)
	if !t.predialRefused {
		t.changes = append(t.changes, PredialChange{Refused: true, Reason: reason})
	}
	t.predialRefused, t.predialAt = true, now+Instant(t.random.jittered(predialPause))
}

// acceptPredial notes that connections may be dialed ahead of clients.
func (t *Tracker) acceptPredial() {
	if t.predialRefused {
		t.changes = append(t.changes, PredialChange{})
	}
	t.predialRefused = false
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

// Share returns the fraction of its clients that the server gets, above 0 and at most 1.
func (t *Tracker) Share() float64 { return float64(t.slowStart.steps) / shareSteps }

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

// Predial reports whether connections may be dialed ahead of clients. Those for waiting clients may be dialed all the same.
func (t *Tracker) Predial(now Instant) bool { return !t.predialRefused || now >= t.predialAt }

// Changes returns what has changed since it was last called, in this order, for logs and statistics.
func (t *Tracker) Changes() []Change {
	changes := t.changes
	t.changes = nil
	return changes
}

// Change is a [ReachabilityChange], [CircuitChange], [OutlierChange], [StallChange], [CeilingChange], [LagChange] or [PredialChange].
type Change interface{ change() }

// ReachabilityChange reports whether connections can be established, and if not why.
type ReachabilityChange struct {
	Reachable bool
	Reason    string
}

// CircuitChange is the new state of the circuit, and why it is open.
type CircuitChange struct {
	State  CircuitState
	Reason string
}

// OutlierChange reports whether the server is ejected because far more sessions fail on it than on its peers.
type OutlierChange struct {
	Ejected bool
	Reason  string
}

// CeilingChange tells that the server is full, or with a ceiling of 0 that it may have as many connections as its cap again.
type CeilingChange struct{ Ceiling, Cap int }

// PredialChange tells whether the server refuses connections that are dialed ahead of clients, and why.
type PredialChange struct {
	Refused bool
	Reason  string
}

func (ReachabilityChange) change() {}
func (CircuitChange) change()      {}
func (OutlierChange) change()      {}
func (CeilingChange) change()      {}
func (PredialChange) change()      {}

// shareSteps is in how many steps a server that was out of service gets its full share of the clients back.
const shareSteps = 10

// slowStart is the share of its clients that a server gets after it was out of service.
type slowStart struct {
	rising bool    // the share is not full yet
	began  Instant // when the server came back
	steps  int     // of the share: 1 to shareSteps
}

func (s *slowStart) begin(now Instant) { s.rising, s.began = true, now }

// rise sets the share by the time since the server came back; takes is how long it takes until the share is full.
func (s *slowStart) rise(now Instant, takes time.Duration) {
	s.steps = shareSteps
	if s.rising && takes > 0 {
		s.steps = min(1+int(time.Duration(now-s.began)*(shareSteps-1)/takes), shareSteps)
	}
	s.rising = s.steps < shareSteps
}
