package health

import (
	"net/netip"
	"time"
)

// What the ends of sessions say about a server. A session that the server breaks counts towards its circuit, and so does one that
// it ends at once with a code that says that something is wrong with it. But a client may bring that about: with its own key or
// parameters, or with what it sends. So what fails at once over a connection that was dialed for one client alone does not
// count; and several failures of one client in a row count as one while the server serves others well.

// shortSession is how long a session must last before its end says nothing about its beginning any more.
const shortSession = time.Second

// SessionEnd is how a session ended.
type SessionEnd struct {
	Client   netip.Addr // zero if it is not known
	Began    Instant    // 0 if it was over before it began
	Fault    string     // how the server failed; empty if it did not
	Private  bool       // its connection was dialed with what its client said
	Outdated bool       // its connection was dialed with settings that have changed since
	Neutral  bool       // it is neither a failure nor a session that went well
}

// AtOnce reports whether the session ended shortly after it had begun.
func (e *SessionEnd) AtOnce(now Instant) bool {
	return e.Began == 0 || time.Duration(now-e.Began) < shortSession
}

// sessionLog is what is known of a server's sessions, to tell a server that fails from a client that makes its sessions fail.
type sessionLog struct {
	open    int      // sessions that go on
	young   [2]int   // of them, by the parity of the second in which they began
	seconds [2]int64 // these seconds

	first   netip.Addr // of the clients whose sessions have ended
	several bool       // there was more than one address
	failed  netip.Addr // whose session was the last that counted as a failure
}

// second returns the second of an instant, and its place in young.
func second(at Instant) (n int64, parity int) {
	n = int64(at) / int64(time.Second)
	return n, int(n & 1)
}

func (l *sessionLog) begin(now Instant) {
	l.open++
	n, i := second(now)
	if l.seconds[i] != n {
		l.seconds[i], l.young[i] = n, 0
	}
	l.young[i]++
}

func (l *sessionLog) end(e *SessionEnd) {
	if e.Began != 0 {
		l.open--
		if n, i := second(e.Began); l.seconds[i] == n {
			l.young[i]--
		}
	}
	switch {
	case !l.first.IsValid():
		l.first = e.Client
	case e.Client != l.first:
		l.several = true
	}
}

// lasting returns how many sessions go on that began at least a second ago.
func (l *sessionLog) lasting(now Instant) int {
	n, _ := second(now)
	lasting := l.open
	for i, of := range l.seconds {
		if of == n || of == n-1 {
			lasting -= l.young[i]
		}
	}
	return lasting
}

// counts reports whether a failure counts towards the circuit, and if so notes whose it was.
func (l *sessionLog) counts(e *SessionEnd, now Instant) bool {
	atOnce := e.AtOnce(now)
	switch {
	case e.Private && atOnce:
		return false
	case e.Client == l.failed && l.lasting(now) > 0 && (atOnce || l.several):
		return false // others are served well: it may be this client's doing
	}
	l.failed = e.Client
	return true
}
