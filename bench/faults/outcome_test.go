package faults

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// promptly is the time within which a session must have ended whose server's connection breaks with the next byte. Mostly it is a tenth of that;
// the rest is for a machine that does much else.
const promptly = 8 * time.Second

// pingDeadlines is the time within which a session with a mute server must have ended: twice the longest time from one sign of
// life to the conclusion that there will be no other.
func (r *rig) pingDeadlines() time.Duration {
	return 2 * (r.settings.PingInterval + r.settings.PingTimeout)
}

// awaitBroken waits until that number of the clients that were present have lost their sessions.
func (r *rig) awaitBroken(present, broken int) {
	r.t.Helper()
	wstest.Eventually(r.t, "the victim's sessions have ended", func() bool { return len(r.crowd.present()) <= present-broken })
}

// awaitOutOfService waits until the victim gets no more sessions, has lost all its connections, and was tried without success after
// that.
func (r *rig) awaitOutOfService() {
	r.t.Helper()
	var b api.Backend
	wstest.Eventually(r.t, "the victim is out of service, without a connection", func() bool {
		b = r.backend(0)
		return !b.Usable && b.CircuitOpened > 0 && b.Idle+b.Leased+b.Resetting+b.Retiring == 0
	})
	wstest.Eventually(r.t, "an attempt to reach the victim fails", func() bool { return r.backend(0).Totals.DialFailed > b.Totals.DialFailed })
}

// awaitReturn waits until the victim, which has been well again since then, has its full pool and gets sessions. The proxy
// may find out only after its present pause, of one backoff at most; slack is for what it takes to dial the connections.
func (r *rig) awaitReturn(since time.Time) {
	r.t.Helper()
	wstest.Eventually(r.t, "the victim is back in service with a full pool", func() bool {
		b := r.backend(0)
		return b.Usable && b.Reachable && r.full(0)
	})
	took := time.Since(since)
	r.t.Logf("the pool was back at its size after %v", took.Round(time.Millisecond))
	if limit := lastBackoff + slack()*time.Second; took > limit {
		r.t.Errorf("the pool was back at its size %v after the server's return, want %v at most", took, limit)
	}
}

// checkAllWell checks that all sessions have ended as their clients wanted.
func (r *rig) checkAllWell() {
	r.t.Helper()
	r.checkEndings(time.Time{}, 0, 0)
}

// checkEndings checks how the sessions have ended: the broken ones with the victim, whose servers' connections broke since onset, were
// told so within a time; all others continued until their clients left.
func (r *rig) checkEndings(onset time.Time, broken int, within time.Duration) {
	r.t.Helper()
	found, told, cut := 0, 0, 0
	var longest time.Duration
	for _, c := range r.crowd.clients {
		var e entry
		wstest.Eventually(r.t, fmt.Sprintf("the record of client %d's session is there", c.id), func() (logged bool) { // it follows the session's end
			e, logged = r.journal.session(c)
			return logged
		})
		if e.code == 1000 && c.code == 1000 {
			continue
		}
		found++
		if e.backend != r.backend(0).Name || e.code != 1011 || c.code != 1011 && !c.cut {
			r.t.Errorf("client %d: ended with %d %q, in the middle of a frame: %v; the record says %+v", c.id, c.code, c.reason, c.cut, e)
		}
		if c.cut {
			cut++
		} else {
			told++
		}
		longest = max(longest, c.ended.Sub(latest(onset, c.began)))
	}
	if found != broken {
		r.t.Errorf("%d sessions have broken, want %d", found, broken)
	}
	if broken == 0 {
		return
	}
	r.t.Logf("%d sessions were told with 1011, %d were cut in the middle of a frame, the last after %v", told, cut, longest)
	if longest > within {
		r.t.Errorf("a session ended after %v, want %v at most", longest, within)
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
