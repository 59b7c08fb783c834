package failover

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// What protects servers from sessions that kill them.
const (
	// A session moves at most MaxMoves times within movesPeriod.
	MaxMoves    = 16
	movesPeriod = 5 * time.Minute
	// MovesShown is how many moves of a session are remembered.
	MovesShown = 16
	// Of servers in a row that failed within CrashTime after they began to get the replay, and that answered nothing of it, the last one that a
	// session is moved from is number MaxCrashes-1: its audio may be what crashes them.
	MaxCrashes = 2
	CrashTime  = 5 * time.Second
	// A connection that ends within Immediately may be one whose server has been dead for a while. But MaxDead such servers in a row, with those
	// that failed later, are as good as crashed.
	Immediately = 50 * time.Millisecond
	MaxDead     = 3
)

// departure is how a session left a server.
type departure struct {
	cause    meter.Cause
	code     frame.CloseCode
	at       loop.Instant // 0 for never
	answered profile.Position
	outcome  outcome
}

// outcome is what is known about the move from a server that a session has left.
type outcome uint8

const (
	known   outcome = iota // the client has got something from another server, or nothing more is to be known
	awaited                // it has not
	spared                 // it has not; and until then it is not known whether the server that was left is to blame
)

// Spares reports whether the server that was left is not to be blamed yet.
func (m *Machine) Spares() bool { return m.left.outcome == spared }

// settle closes what was open about the last departure: a server that was spared is blamed now.
func (m *Machine) settle(blame Action, do []Action) []Action {
	if m.left.outcome == spared {
		do = append(do, blame)
	}
	m.left.outcome = known
	return do
}

// protect returns why the session must not leave its server; empty if it may, which it counts.
func (m *Machine) protect(e *Event, do []Action) (string, []Action) {
	if e.Now > m.period.After(movesPeriod) {
		m.period, m.moves = e.Now, 0
	}
	if m.moves == MaxMoves {
		return fmt.Sprintf("not moved: it was moved %d times within %v", MaxMoves, movesPeriod), do
	}
	m.moves++
	if e.Cause.Planned() {
		return "", do
	}
	if m.endsAlike(e) {
		return "another server has ended it in the same way", append(m.settle(BlameAlike, do), EndAlike)
	}
	if m.failsSoon(e) {
		if e.Now > m.Began.After(Immediately) {
			m.crashes++
		} else { // perhaps it was dead before, and no one knew
			m.dead++
		}
	} else {
		m.crashes, m.dead = 0, 0
	}
	if failed := m.crashes + m.dead; m.crashes >= MaxCrashes || failed >= MaxDead {
		return fmt.Sprintf("moved from %d servers that failed", failed), do
	}
	return "", do
}

// failsSoon reports whether the present server fails soon after it began to get the replay, and has answered nothing of it.
func (m *Machine) failsSoon(e *Event) bool {
	return m.legs > 1 && e.Now < m.Began.After(CrashTime) && e.Answered == m.left.answered
}

// endsAlike reports whether the server closes the session as the one before it did, soon after it got the same from the client: it is the
// client's messages that servers take badly. A server that closes because it stops, or is full, does not.
func (m *Machine) endsAlike(e *Event) bool {
	switch e.Code {
	case frame.GoingAway, frame.ServiceRestart, frame.TryAgainLater:
		return false
	}
	return e.Cause == meter.Closed && m.left.cause == meter.Closed && e.Code == m.left.code && !e.SameServer && e.Sent && m.failsSoon(e)
}
