package health

import "time"

// What the ends of sessions say about a server. A session that the server breaks counts towards its circuit, and so does one that
// it ends at once with a code that says that something is wrong with it. But a client may bring that about: with its own key or
// parameters, or with what it sends. So what fails at once over a connection that was dialed for one client alone does not count, except in the
// comparison with the server's peers, and while the server serves other sessions well, failures count by clients, of which it takes many.

const (
	// shortSession is how long a session must last before its end no longer says anything about its beginning.
	shortSession = time.Second
	// surelyLasting is after which time a session that continues is one of the lasting ones, whose ages are known to the second.
	surelyLasting = 2 * time.Second
	// voteWindow is how long the failure of a client's session counts beside others'.
	voteWindow = 5 * time.Minute
	// wellWeight is how many clients whose sessions fail count as one while the server serves others well.
	wellWeight = 4
	// doubtfulVotes is how many clients' sessions must fail at least while others last, of which it is not known whether they are served.
	doubtfulVotes = 2
	// resultsWithin is for how long results show that a server serves its sessions well.
	resultsWithin = 5 * time.Second
)

// SessionEnd is how a session ended.
type SessionEnd struct {
	Client   Client
	Began    Instant // 0 if it was over before it began
	Fault    string  // how the server failed; empty if it did not
	Private  bool    // its connection was dialed with what its client said
	Outdated bool    // its connection was dialed with settings that have changed since
	// Alike tells that another server has ended the session in the same way: it may well be the client's doing.
	Alike   bool
	Neutral bool // it is neither a failure nor a session that went well
}

// AtOnce reports whether the session ended shortly after it had begun.
func (e *SessionEnd) AtOnce(now Instant) bool {
	return e.Began == 0 || time.Duration(now-e.Began) < shortSession
}

// sessionLog is what is known of a server's sessions, to tell a server that fails from a client that makes its sessions fail.
type sessionLog struct {
	open    int      // sessions that have not ended
	young   [2]int   // of them, by the parity of the second in which they began
	seconds [2]int64 // these seconds

	clientele clientele // whose sessions have begun or ended

	heard   uint64  // frames of all sessions, when that was last asked
	results Instant // when it was last found that there were more; 0 for never

	compared votes // clients whose sessions have failed, those on connections of their own included: for the comparison with peers
	failed   votes // of these, the ones that count here, also before the last session that went well

	broken int     // failures in a row
	alike  int     // of these, in the same way as another server
	since  Instant // when the first of them was
	how    string  // the last of them
	atOnce bool    // the last of them, soon after its session had begun
	fresh  bool    // the last of them has not been judged yet
}

// second returns the second of an instant, and its place in young.
func second(at Instant) (n int64, parity int) {
	n = int64(at) / int64(time.Second)
	return n, int(n & 1)
}

func (l *sessionLog) begin(client Client, now Instant) {
	l.clientele.see(client)
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
	l.clientele.see(e.Client)
}

// lasting returns how many sessions continue that began before the present and the last second.
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

// fail counts a failure.
func (l *sessionLog) fail(e *SessionEnd, now Instant) {
	l.compared.add(&l.clientele, e.Client, now)
	atOnce := e.AtOnce(now)
	if e.Private && atOnce {
		return
	}
	if l.broken == 0 {
		l.since = now
	}
	l.broken++
	if e.Alike {
		l.alike++
	}
	l.how, l.atOnce, l.fresh = e.Fault, atOnce, true
	l.failed.add(&l.clientele, e.Client, now)
}

// succeed begins to count failures anew.
func (l *sessionLog) succeed() { l.broken, l.alike, l.fresh = 0, 0, false }

// hear notes how many frames all sessions have got.
func (l *sessionLog) hear(frames uint64, now Instant) {
	if frames != l.heard {
		l.heard, l.results = frames, now
	}
}

// clients returns how many clients' sessions have failed in a row.
func (l *sessionLog) clients(now Instant) int {
	return l.failed.since(max(l.since, now-Instant(voteWindow)))
}

// fails decides, after a failure, whether the server fails: the given number of sessions in a row has failed, and it serves no others, which if there are
// some takes a moment to see. While others last, that takes several clients, and many if these others get results.
func (l *sessionLog) fails(after int, now Instant) bool {
	fresh, clients, several, lasting := l.fresh, l.clients(now), l.clientele.several(), l.lasting(now)
	l.fresh = false
	switch {
	case !fresh || l.broken < after:
		return false
	case several && clients < after && (l.broken-l.alike < after || l.open > lasting && time.Duration(now-l.since) < surelyLasting):
		return false // perhaps it is these clients' doing, and others have only just come
	case lasting <= 0:
		return true
	case l.results != 0 && time.Duration(now-l.results) < resultsWithin:
		return clients >= min(after*wellWeight, maxVotes)
	case l.atOnce || several:
		return clients >= min(after, doubtfulVotes)
	}
	return true
}
