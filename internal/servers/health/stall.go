package health

import (
	"fmt"
	"time"
)

// A server can stall: its connections are open, it answers pings, and sessions no longer get results. Dialing says nothing about that,
// and nor does a probe that only connects. So a server on which sessions have stalled gets no new ones until a canary was answered,
// or until one session at a time, each a trial, shows that results come again.
//
//	        sessions stall
//	works -----------------> stalled <---------+
//	  ^                         |              | the session stalls, too
//	  |                 backoff |              |
//	  +---------------------- trial -----------+
//	     a session has a result, or at any time a canary is answered

const (
	// stallsNeeded is how many sessions, of different clients if there are several, must stall within stallWindow if the server has several;
	// wellWeight times as many if others had results meanwhile. One is enough if it is the only one.
	stallsNeeded = 2
	stallWindow  = time.Minute
	// FirstStallBackoff is how long, or up to a quarter less, a server is left alone after its sessions have stalled. It doubles each time that
	// a trial stalls, up to LastStallBackoff.
	FirstStallBackoff = 5 * time.Second
	LastStallBackoff  = 2 * time.Minute
	// trialEvery is how long a trial may last without a result before there is another one: its client may have nothing to say.
	trialEvery = 30 * time.Second
	// checkPatience is how long a canary or a probe is waited for before there is a trial without it: it may not be possible to play one.
	checkPatience = 2 * time.Minute
)

// StallCheck is what must have succeeded since a server stalled, before a session is tried there.
type StallCheck uint8

// The checks.
const (
	NoCheck StallCheck = iota
	ProbeCheck
	// CanaryCheck: a canary. It proves more than a session: the server is in service again at once.
	CanaryCheck
)

type stallState uint8

const (
	works stallState = iota
	stalled
	onTrial
)

// Stall is a session that has stalled.
type Stall struct {
	Client Client
	Began  Instant
	// OthersHeard tells that another session had a result while this one had none.
	OthersHeard bool
	// Again tells that it has stalled on another server before. That may be its own doing, so it does not count by itself.
	Again bool
	How   string
}

// stall is what stalls mean for a server.
type stall struct {
	random random

	state   stallState
	lately  int     // stalls within stallWindow, since at
	at      Instant // the first of these
	clients votes   // whose sessions these were
	last    Client  // whose session was the last that left the server alone
	times   int     // in a row that the server was left alone
	since   Instant // when it stalled
	retryAt Instant // no trial before
	checked bool    // the check has succeeded since retryAt
	trials  int     // sessions that were let in, one after the other
	trialAt Instant // when the last one was
}

// StallChange reports whether the server is out of service because sessions stall there. Trials are no change.
type StallChange struct {
	Stalled bool
	Reason  string
}

func (StallChange) change() {}

// SessionStalled notes that a session has had no result for too long. SessionEnded follows.
func (t *Tracker) SessionStalled(e Stall, now Instant) {
	s := &t.stall
	alone, several := t.sessions.open <= 1 && !e.Again, t.sessions.clientele.several()
	switch s.state {
	case stalled:
		return
	case onTrial:
		if e.Began >= s.trialAt || alone {
			s.begin(e.Client, several && t.sessions.clientele.same(e.Client, s.last), now)
			t.reconsider(now)
		}
		return
	}
	if s.lately > 0 && time.Duration(now-s.at) > stallWindow {
		s.lately = 0
	}
	if s.lately == 0 {
		s.at = now
	}
	s.lately++
	s.clients.add(&t.sessions.clientele, e.Client, now)
	count, needed := s.lately, stallsNeeded
	if several {
		count = s.clients.since(s.at)
	}
	if e.OthersHeard {
		needed *= wellWeight
	}
	if !alone && count < needed {
		return
	}
	reason := e.How
	if count >= stallsNeeded {
		reason = fmt.Sprintf("%d sessions stalled: %s", count, e.How)
	}
	s.times = 0
	s.begin(e.Client, false, now)
	t.changes = append(t.changes, StallChange{true, reason})
	t.reconsider(now)
}

// begin leaves the server alone for a while because of a client's session. One client by itself does not make that longer.
func (s *stall) begin(client Client, again bool, now Instant) {
	s.state, s.since, s.lately, s.checked, s.trials, s.last = stalled, now, 0, false, 0, client
	if !again {
		s.times++
	}
	s.retryAt = now + Instant(s.random.jittered(min(FirstStallBackoff<<min(s.times-1, 10), LastStallBackoff)))
}

// SessionAnswered notes that a session that began then has a result. It returns whether that has changed anything.
func (t *Tracker) SessionAnswered(began, now Instant) (changed bool) {
	if t.stall.state != onTrial || began < t.stall.trialAt {
		return false
	}
	t.unstall(now)
	return true
}

// CanaryAnswered notes that the server has answered a canary just now.
func (t *Tracker) CanaryAnswered(now Instant) {
	if t.stall.state != works {
		t.unstall(now)
	}
}

// ProbeAnswered notes that the server has answered a probe just now.
func (t *Tracker) ProbeAnswered(now Instant) {
	if t.stall.state == stalled && now >= t.stall.retryAt && t.limits.StallCheck == ProbeCheck {
		t.stall.checked = true
	}
}

// unstall takes the server back into service.
func (t *Tracker) unstall(now Instant) {
	t.stall = stall{random: t.stall.random}
	t.changes = append(t.changes, StallChange{})
	t.usable = false // trials aside, so that it starts slowly
	t.reconsider(now)
}

// reviewStall lets a session in as a trial when it is time, and returns when to look again at the latest; 0 for never.
func (t *Tracker) reviewStall(now Instant) (within time.Duration) {
	s := &t.stall
	next := s.retryAt
	switch s.state {
	case works:
		return 0
	case stalled:
		if t.limits.StallCheck != NoCheck && !s.checked {
			next = s.since + Instant(checkPatience)
		}
	case onTrial:
		next = s.trialAt + Instant(trialEvery)
	}
	if now < next {
		return time.Duration(next - now)
	}
	s.state, s.trialAt = onTrial, now
	s.trials++
	t.reconsider(now)
	return trialEvery
}

// Trial returns how many sessions were let in one after the other, to see whether the server works again; 0 if it gets sessions as usual.
// When the number goes up, one more session may begin, and no other.
func (t *Tracker) Trial() int {
	if t.stall.state != onTrial {
		return 0
	}
	return t.stall.trials
}

// Stalled reports whether the server is out of service because its sessions have stalled. While sessions are tried, it still is.
func (t *Tracker) Stalled() bool { return t.stall.state != works }
