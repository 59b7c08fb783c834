package failover

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// Lifetime is when a session is to leave a server that will end it soon. The zero value stands for a server that lets it live.
type Lifetime struct {
	Cause meter.Cause  // Aged or GoAway
	From  loop.Instant // from when on the session moves at its next answered point
	By    loop.Instant // from when on it moves by replay
}

// How long before the end that a server has announced, or is known to make, a session moves. What is said as a share is one of the connection's life.
const (
	spreadShare   = 10               // a tenth, so that sessions that began together do not move together
	waitShare     = 10               // a tenth, but at most longestWait, for an answered point
	marginShare   = 20               // a twentieth, but at most longestMargin, for the replay, and a server whose clock is ahead
	longestWait   = 20 * time.Second // the next connection waits as long, and servers may close one that gets no audio
	longestMargin = time.Minute
	// goAwayWait is how long a session waits for an answered point that a server has told to leave, or up to half less: Gemini says it a minute before.
	goAwayWait = 10 * time.Second
)

// Aging returns when a session leaves a server that lets a connection live for limit, and this one since began. random is a number from 0 to 1 that
// differs from session to session.
func Aging(began loop.Instant, limit time.Duration, random float64) Lifetime {
	spread := time.Duration(random * float64(limit/spreadShare))
	by := began.After(limit - min(limit/marginShare, longestMargin) - spread)
	return Lifetime{Cause: meter.Aged, From: by.After(-min(limit/waitShare, longestWait)), By: by}
}

// Announced returns when a session leaves a server that has just said that it ends the session soon.
func Announced(now loop.Instant, random float64) Lifetime {
	return Lifetime{Cause: meter.GoAway, From: now, By: now.After(goAwayWait - time.Duration(random*float64(goAwayWait/2)))}
}

// Retry is how long after a session could not begin to move it tries again.
func (l Lifetime) Retry() time.Duration { return max(time.Duration(l.By-l.From)/4, time.Millisecond) }
