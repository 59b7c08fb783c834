package api

import (
	"fmt"
	"time"
)

// Moving is an order to move sessions to other backends, and what has come of it so far: POST and GET /api/v1/backends/NAME/move and
// /api/v1/sessions/ID/move.
type Moving struct {
	Backend  string    `json:"backend,omitempty"` // that the sessions leave; empty for an order about one session
	Begun    time.Time `json:"begun"`
	Deadline time.Time `json:"deadline"` // from when on sessions move by replay instead of waiting for an answered point
	Done     bool      `json:"done"`     // nothing more will come of it
	// Replaced: a later order about the same backend or session took its place.
	Replaced bool            `json:"replaced,omitempty"`
	Sessions []MovingSession `json:"sessions"`
	// Missing are proxies whose sessions are not in the list, in the answer of a whole fleet.
	Missing []MissingProxy `json:"missing,omitempty"`
}

// MovingSession is what has come of an order to move one session.
type MovingSession struct {
	ID    string `json:"id"`
	Proxy string `json:"proxy,omitempty"` // that serves it, by name, in the answer of a whole fleet
	State string `json:"state"`           // waiting, moving, moved, not_moved or ended
	To    string `json:"to,omitempty"`    // the backend that serves it now, if it has moved
	Why   string `json:"why,omitempty"`   // why it has not moved
	// ReplayedSeconds is how much audio the next backend got again.
	ReplayedSeconds float64 `json:"replayed_seconds"`
}

// States of sessions that an order moves.
const (
	MoveWaiting  = "waiting"   // for the next answered point, or for a place
	MoveUnderway = "moving"    // on its way
	MoveDone     = "moved"     // another backend serves it
	MoveRefused  = "not_moved" // it stays where it is
	MoveEnded    = "ended"     // it has ended by itself meanwhile
)

// IsOpen reports whether it is not known yet what comes of the order for the session.
func (m *MovingSession) IsOpen() bool { return m.State == MoveWaiting || m.State == MoveUnderway }

// String says in words what has come of the order for the session.
func (m *MovingSession) String() string {
	switch m.State {
	case MoveDone:
		if m.ReplayedSeconds > 0 {
			return fmt.Sprintf("moved to %s, %.1f s replayed", m.To, m.ReplayedSeconds)
		}
		return fmt.Sprintf("moved to %s, nothing replayed", m.To)
	case MoveRefused:
		return "not moved: " + m.Why
	case MoveEnded:
		return "ended meanwhile"
	}
	if m.Why == "" {
		return m.State
	}
	return m.State + ": " + m.Why
}

// Count returns how many sessions are in a state.
func (m *Moving) Count(state string) (n int) {
	for i := range m.Sessions {
		if m.Sessions[i].State == state {
			n++
		}
	}
	return n
}

const (
	// MaxMoveTime is the longest time that sessions may take to come to an answered point before they move by replay.
	MaxMoveTime = time.Hour
	// MoveTime is that time if an order does not say it.
	MoveTime = 30 * time.Second
)
