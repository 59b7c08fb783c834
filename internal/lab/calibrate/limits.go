package calibrate

import (
	"fmt"
	"time"
)

// Limits are what must hold in a step.
type Limits struct {
	Lag       time.Duration `json:"lag_p95_ns"`             // of results, 95th percentile
	First     time.Duration `json:"first_p95_ns,omitempty"` // first result of a session since its first audio; 0 for no limit
	Final     time.Duration `json:"final_p95_ns,omitempty"` // last result since the end of the audio; 0 for no limit
	ErrorRate float64       `json:"error_rate"`             // share of sessions that fail
	SameText  float64       `json:"same_text"`              // share of sessions whose text is that of one client alone
}

// MostSlope is by how much lag may grow, in seconds per second: by 0.6 s in 300 s. It is as small because a server for 200 streams that has 201 falls
// behind by 0.005 s/s, and as large because no real server has none.
const MostSlope = 0.002

// noise is by how much lag may grow within a session in any case: a machine that is busy for a moment does that, in this session or in the one that was
// alone, and a session of a second is too short to tell it from a server that falls behind.
const noise = 50 * time.Millisecond

// mostSlope is by how much lag may grow in sessions of that length, in seconds per second.
func mostSlope(session time.Duration) float64 {
	if session == 0 {
		return MostSlope
	}
	return max(MostSlope, noise.Seconds()/session.Seconds())
}

// mostUncertain is how uncertain the slope may be in a step with so many streams: it must show an eighth of what one stream more than a server takes
// makes of it, which is 1/n.
func mostUncertain(streams int) float64 { return max(MostSlope, 1/float64(8*streams)) }

// Measured is what a step has measured.
type Measured struct {
	Sessions int           `json:"sessions"` // that have ended
	Failed   int           `json:"failed"`   // those among them that failed or were refused
	Failure  string        `json:"failure,omitempty"`
	Lag      time.Duration `json:"lag_p95_ns"`
	First    time.Duration `json:"first_p95_ns"`
	Unheard  bool          `json:"-"` // no session had a first result
	Final    time.Duration `json:"final_p95_ns"`
	// Length is how long a session lasts.
	Length time.Duration `json:"-"`
	// Slope is by how much lag grows, in seconds per second, and SlopeError its uncertainty (95 %).
	Slope      float64 `json:"slope"`
	SlopeError float64 `json:"slope_error"`
	SameText   float64 `json:"same_text"`
	// Late is how late this machine itself sent audio (99th percentile), which lag has in it.
	Late time.Duration `json:"late_p99_ns,omitempty"`
}

// mostLate is how late this machine may send audio, as far as its own lateness is not looked at.
const mostLate = 100 * time.Millisecond

// punctual returns what a step would have measured at best if this machine had sent all audio in time. Its lateness at the end of a session may be somewhat
// above the 99th percentile.
func (m Measured) punctual() Measured {
	m.Lag, m.First, m.Final = m.Lag-m.Late, m.First-m.Late, m.Final-m.Late
	if m.Length == 0 { // nothing tells by how much it may have grown
		m.Slope = 0
		return m
	}
	m.Slope -= 1.25 * m.Late.Seconds() / m.Length.Seconds()
	return m
}

// Verdict is what a step shows.
type Verdict string

// The verdicts.
const (
	Holds   Verdict = "holds"
	Fails   Verdict = "fails"
	Unclear Verdict = "unclear" // noise hides it
)

// Judge returns the verdict about a step with so many streams, and its reason. A step does not fail by times that this machine's own lateness may explain.
func (l *Limits) Judge(streams int, m Measured) (Verdict, string) {
	verdict, why := l.judge(streams, m)
	if verdict == Fails && m.Late > mostLate {
		if punctual, _ := l.judge(streams, m.punctual()); punctual != Fails {
			return Unclear, fmt.Sprintf("%s, but this machine sent audio up to %s late", why, short(m.Late))
		}
	}
	return verdict, why
}

func (l *Limits) judge(streams int, m Measured) (Verdict, string) {
	switch {
	case m.Sessions == 0:
		return Unclear, "no session has ended"
	case float64(m.Failed) > l.ErrorRate*float64(m.Sessions):
		why := fmt.Sprintf("%d of %d sessions failed", m.Failed, m.Sessions)
		if m.Failure != "" {
			why += ": " + m.Failure
		}
		return Fails, why
	case m.SameText < l.SameText:
		return Fails, fmt.Sprintf("%.1f %% of the sessions have the text of one client alone", 100*m.SameText)
	case m.Slope-m.SlopeError > mostSlope(m.Length):
		return Fails, fmt.Sprintf("lag grows by %s", perSecond(m.Slope))
	case l.First > 0 && m.Unheard:
		return Fails, "no session had a first result"
	case l.First > 0 && m.First > l.First:
		return Fails, fmt.Sprintf("first result p95 is %s", short(m.First))
	case l.Final > 0 && m.Final > l.Final:
		return Fails, fmt.Sprintf("last result p95 is %s", short(m.Final))
	case m.SlopeError > mostUncertain(streams):
		return Unclear, fmt.Sprintf("whether lag grows does not show (%s ± %s, p95 %s)", perSecond(m.Slope), perSecond(m.SlopeError), short(m.Lag))
	case m.Lag > l.Lag:
		return Fails, fmt.Sprintf("lag p95 is %s", short(m.Lag))
	}
	return Holds, ""
}

func perSecond(slope float64) string { return fmt.Sprintf("%.1f ms/s", 1000*slope) }

// short is a time in few digits.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
