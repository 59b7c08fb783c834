package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// This file has what a proxy does while the database of its ledger is away or cannot be used:
//
//   - It keeps its places and gets no more, asks again and again (failed), and lends to its predecessor or successor (loans.go).
//   - Before its first answer, it has no places, so as not to exceed a cap, or those of grant-without-database. It has the whole caps, so as not to
//     stop traffic, if no other could use a local ledger, or if the database is away and no other proxy has ever used the ledger as far as is
//     known (limitBeforeAnswer). These it gives back when the ledger answers again (keep).
//   - After grant-timeout, others may have its places, so it dials no server (expire, MayDial).

// failed takes in an exchange that failed.
func (a *Agent) failed(err error) {
	a.failures++
	refused := a.refused(err)
	if a.unshared || a.answered && refused && a.o.Local && a.isAlone() && a.runsAlone() { // it was alone, and no other can join
		a.useWhole()
	} else if !a.answered {
		a.limitBeforeAnswer(refused)
	}
	wait := min(shortestWait<<min(a.failures-1, 10), longestWait)
	if refused && !a.unshared { // while it uses the whole caps, it must find out soon that another process can use the ledger
		wait = refusedWait
	}
	a.next = a.o.Now() + jitter(wait)
	a.logOutage(err, refused)
	a.publish()
}

// refused reports whether the ledger will not work until a person does something.
func (a *Agent) refused(err error) bool {
	if errors.Is(err, fleet.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, fleet.ErrDisk) { // other processes may have opened the ledger before
		return a.o.Local && a.runsAlone()
	}
	return a.o.Local || errors.Is(err, fleet.ErrNoTables) || errors.Is(err, fleet.ErrNoRights)
}

// runsAlone reports whether no other process with the same state directory runs.
func (a *Agent) runsAlone() bool { return a.o.Presence != nil && a.o.Presence.Alone() }

// mostPlaces is more than any server has.
const mostPlaces = 1 << 30

// limitBeforeAnswer limits what the pools may use before the first answer.
func (a *Agent) limitBeforeAnswer(refused bool) {
	if refused && a.o.Local && a.runsAlone() {
		a.useWhole()
		return
	}
	if a.assumesAlone && refused { // the database is back, and others may use it
		a.assumesAlone = false
		a.holder.Assume(0)
	}
	if !a.assumesAlone && !refused && a.o.Memory != nil && a.o.Memory.Alone() && a.runsAlone() {
		a.assumesAlone = true
		a.holder.Assume(mostPlaces)
	}
	a.observe()
	a.apply()
}

// useWhole gives the pools the whole caps, since no other process can use the local ledger.
func (a *Agent) useWhole() {
	a.kept, a.unshared = nil, true
	a.setLimits(nil)
}

// keep takes the whole caps from the pools: until there is an answer, they may have what they have at this moment, which the first report
// has.
func (a *Agent) keep() {
	a.kept = make(map[string]int)
	for server, u := range a.o.Pools.Usage() {
		a.kept[server] = u.Used
	}
	a.setLimits(a.kept)
}

// expire stops the use of places that others may take from now on, since the ledger was not reached for grant-timeout.
func (a *Agent) expire(at fleet.Instant) {
	a.expired = true
	a.observe()
	a.holder.Expire(at)
	a.apply()
	a.o.Log.Error("the ledger was not reached for grant-timeout: other proxies may take this one's places, so no server is dialed")
}

// MayDial reports whether the places that the pools have are still the proxy's. A process that was stopped for longer than the grant time-out
// finds out by it before its agent runs. It reads a clock only if there is a time-out.
func (a *Agent) MayDial() bool {
	expires := a.expires.Load()
	return expires == 0 || a.o.Now() < fleet.Instant(expires)
}

// logOutage logs that the ledger is lost, once for each reason.
func (a *Agent) logOutage(err error, refused bool) {
	v := &a.view
	if v.lost.IsZero() {
		v.lost = time.Now()
	}
	v.problem, v.advice = strings.Join(strings.Fields(err.Error()), " "), a.advice(err) // drivers use several lines
	if a.failures == 1 && a.answered && !a.unshared {                                   // one lost exchange is no news
		return
	}
	if v.loggedProblem != "" && (!refused || v.loggedProblem == v.problem) {
		return
	}
	v.loggedProblem = v.problem
	switch {
	case a.unshared:
		a.o.Log.Error("caps are not shared with other proxies: the ledger cannot be used, and this proxy uses the whole caps", "ledger", a.o.Ledger, "reason", v.problem, "do", v.advice)
	case a.answered:
		a.o.Log.Warn("the ledger is lost: this proxy keeps its places and gets no more", "ledger", a.o.Ledger, "reason", v.problem)
	case a.assumesAlone:
		a.o.Log.Warn("the ledger is not reached: this proxy was alone in it, and uses the whole caps; "+joinedMeanwhile, "ledger", a.o.Ledger, "reason", v.problem)
	case a.o.Holder.Without > 0:
		a.o.Log.Warn("the ledger is not reached: servers' caps may be exceeded", "ledger", a.o.Ledger, "reason", v.problem, "places", a.o.Holder.Without)
	case refused:
		a.o.Log.Error("the ledger cannot be used: no server is dialed, since other proxies may have its places", "ledger", a.o.Ledger, "reason", v.problem, "do", v.advice)
	default:
		a.o.Log.Error("the ledger is not reached: no server is dialed, since other proxies may have its places", "ledger", a.o.Ledger, "reason", v.problem, "do", v.advice)
	}
}

// joinedMeanwhile is what a proxy risks that was alone and uses the whole caps.
const joinedMeanwhile = "if other proxies have joined meanwhile, servers may get up to twice as many connections as their caps"

// otherwise is what an operator can do who knows that no other proxy shares the caps.
const otherwise = "; if no other proxy has these servers, set fleet: off (--fleet off)"

// advice says what to do about an error; empty if nothing is to be done but to bring the database back.
func (a *Agent) advice(err error) string {
	switch {
	case errors.Is(err, fleet.ErrNoTables):
		return "bring the database's schema up to date with `wsbouncer migrate`" + otherwise
	case errors.Is(err, fleet.ErrNoRights):
		return "give this proxy's user the rights to the ledger" + otherwise
	case errors.Is(err, fleet.ErrNetworkFile):
		return "use a state directory and a database on a local disk, or PostgreSQL" + otherwise
	case errors.Is(err, fleet.ErrDisk):
		return "free or replace the disk, or use another state-directory" + otherwise
	case a.assumesAlone:
		return ""
	case !a.answered && a.o.Local && !a.unshared:
		return "end the other process with this state directory, or mend the ledger's file" + otherwise
	case !a.answered && !a.o.Local:
		return "grant-without-database says how many places a proxy may use before it has reached the ledger"
	}
	return ""
}
