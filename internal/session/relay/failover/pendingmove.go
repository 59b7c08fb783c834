package failover

import (
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// PendingMove is a move of a recoverable session to another server that an operator ordered, the rebalancer, or the session itself before its
// server ends it ([Lifetime]). The session carries it out at
// its next answered point, when no audio has to be sent again; from the time By on it does so by replay. Its server works, so a pending move
// never ends a session: if no other server has a place, the session stays where it is.
type PendingMove struct {
	Number uint64       // tells it from others
	Cause  meter.Cause  // a planned one
	By     loop.Instant // when it goes by replay, if no answered point has come; 0 for never

	// Set by the machine.
	State MoveState
	Why   string // with MoveRefused: why the session stays
}

// MoveState is how far a session has come with a pending move.
type MoveState uint8

// The states.
const (
	NoMove       MoveState = iota
	MovePending            // it waits for a connection, and for its next answered point
	MoveUnderWay           // it has left its server
	MoveDone               // another server continues it
	MoveRefused            // it stays where it is, or has ended

	moveStates = iota
)

func (s MoveState) String() string {
	return [moveStates]string{"none", "pending", "under way", "done", "refused"}[s]
}

// moveTransitions are the allowed ones.
var moveTransitions = [moveStates][]MoveState{
	NoMove:       {MovePending},
	MovePending:  {MovePending, MoveUnderWay, MoveDone, MoveRefused},
	MoveUnderWay: {MoveDone, MoveRefused},
	MoveDone:     {MovePending},
	MoveRefused:  {MovePending},
}

// IsOpen reports whether it is not known yet what will come of the move.
func (p *PendingMove) IsOpen() bool { return p.State == MovePending || p.State == MoveUnderWay }

// enter is the only way from one state to another.
func (p *PendingMove) enter(next MoveState) {
	if !slices.Contains(moveTransitions[p.State], next) {
		panic(fmt.Sprintf("failover: a pending move cannot go from %v to %v", p.State, next))
	}
	p.State = next
}

// Pending returns the last pending move, with what has come of it.
func (m *Machine) Pending() PendingMove { return m.pending }

// moveOrdered takes an order instead of an earlier one that is still pending.
func (m *Machine) moveOrdered(e *Event, do []Action) []Action {
	switch {
	case !rulesOf[m.state].recoverable:
		e.Why = "the session is not recoverable: " + m.loss.Why
		return do
	case m.pending.State == MoveUnderWay:
		e.Why = "it is on its way to another backend already"
		return do
	}
	m.pending.enter(MovePending)
	m.pending.Number, m.pending.Cause, m.pending.By, m.pending.Why = e.Move.Number, e.Move.Cause, e.Move.By, ""
	return append(do, StartSearch)
}

// checkMove carries out the pending move if there is a connection for it, and if the session is at an answered point or the move's time has
// come.
func (m *Machine) checkMove(e *Event, do []Action) []Action {
	due := m.pending.By != 0 && e.Now >= m.pending.By
	switch {
	case m.pending.State != MovePending || !e.Connected || m.state != Live:
		return do
	case e.Kind != Answered && e.First < e.Next && !due:
		return do
	case e.Over:
		return m.refuseMove("the session is ending", do)
	}
	e.Cause = m.pending.Cause
	if do = m.leave(e, do); m.state != Left {
		return m.refuseMove("it was moved too often", do)
	}
	m.pending.enter(MoveUnderWay)
	return append(do, LeaveServer)
}

// completeMove notes that the session has moved. If it did so for another reason, that is as good where it may stay.
func (m *Machine) completeMove(e *Event, do []Action) []Action {
	switch {
	case m.pending.State == MoveUnderWay || m.pending.State == MovePending && e.Arrived:
		m.pending.enter(MoveDone)
		return append(do, NoteArrival, StopSearch)
	case m.pending.State == MovePending:
		return append(do, StartSearch)
	}
	return do
}

// refuseMove notes why the session stays where it is.
func (m *Machine) refuseMove(why string, do []Action) []Action {
	if !m.pending.IsOpen() {
		return do
	}
	m.pending.enter(MoveRefused)
	m.pending.Why = why
	return append(do, StopSearch)
}
