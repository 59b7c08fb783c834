package health

import "time"

// What the dialing of connections says about a server.

const (
	// ShortPause is how long nothing is dialed after something was short on this machine.
	ShortPause = time.Second
	// predialPause is how long, or up to a quarter less, connections are dialed for waiting clients only, after the server has refused
	// one that bore no client's values.
	predialPause = 30 * time.Second
)

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
	// Unanswered tells that the server of a private connection that has [Failed] could be reached, but gave the upgrade request no good answer, nor
	// an HTTP status.
	Unanswered bool
	// Failing tells that what refuses the client may also be that the server fails: it counts in the comparison with its peers, as the session of
	// that client would.
	Failing bool
	// Pool is the pool's connections, for [Full]: the refused one is still among them.
	Pool Connections
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
// since it last accepted a connection. Others wait for a moment then, in which the client goes elsewhere or pauses. It also does so if one client's
// values get no answer while there are other clients: that counts like a session of that client that failed.
func (t *Tracker) DialEnded(a Attempt, r DialResult, now Instant) (forClientOnly bool) {
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
	if r.Outcome == Failed && r.Unanswered && t.circuit.state == Closed && t.sessions.clientele.several() {
		t.sessions.fail(&SessionEnd{Client: r.Client, Fault: r.Reason, Alike: true}, now)
		t.hold.refuse(0, true, now) // so that the client goes to another server
		return true
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
		if t.circuit.state == HalfOpen { // it answers, and has connections of ours
			t.recover(now)
		}
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

// Predial reports whether connections may be dialed ahead of clients. Those for waiting clients may be dialed all the same.
func (t *Tracker) Predial(now Instant) bool { return !t.predialRefused || now >= t.predialAt }

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
