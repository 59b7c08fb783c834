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

// Replay is the memory for what clients have sent and no backend has finally answered, and for what clients that come back have missed.
type Replay struct {
	MemoryBytes int64 `json:"memory_bytes"` // in use
	LimitBytes  int64 `json:"limit_bytes"`  // the setting replay-memory
}

// ServiceFailover is what becomes of a service's sessions whose backends die, stall or are drained. The numbers count since the start, for the
// backends that there are.
type ServiceFailover struct {
	Mode string `json:"mode"` // off or replay
	// Verdict says how well another backend can continue the profile's sessions: full, visible or never.
	Verdict             string  `json:"verdict"`
	Why                 string  `json:"why,omitempty"` // what a client sees with visible, or why never
	WindowSeconds       float64 `json:"window_seconds"`
	StallTimeoutSeconds float64 `json:"stall_timeout_seconds"` // 0 for no limit
	// StallTimeoutAuto: that is the most; each session learns how long its backend usually takes.
	StallTimeoutAuto bool   `json:"stall_timeout_auto,omitempty"`
	Rebalance        bool   `json:"rebalance"`
	Moved            uint64 `json:"moved"`     // times that another backend continued a session
	NotMoved         uint64 `json:"not_moved"` // times that none did
	// Failed is when no other backend could continue a session whose backend failed, for the last time; absent if that was more than ten
	// minutes ago.
	Failed time.Time `json:"failed,omitzero"`
	// Unassured counts sessions that no other backend could continue any longer, by reason: format, window, memory or message.
	Unassured map[string]uint64 `json:"unassured,omitempty"`
}

// Failover is how another backend could continue a session, and the times that one did.
type Failover struct {
	Assured bool   `json:"assured"`       // another backend could continue it
	Why     string `json:"why,omitempty"` // why none could
	// KeptBytes are kept for the next backend, and take MemoryBytes of replay-memory.
	KeptBytes   int64 `json:"kept_bytes"`
	MemoryBytes int64 `json:"memory_bytes"`
	// AudioSeconds is the audio that the client has sent, and AnsweredSeconds up to where it is finally answered. 0 if that is not known.
	AudioSeconds    float64 `json:"audio_seconds"`
	AnsweredSeconds float64 `json:"answered_seconds"`
	Moves           []Move  `json:"moves,omitempty"` // the last few
}

// Move is a session's move from one backend to the next.
type Move struct {
	Time            time.Time `json:"time"` // when it left
	From            string    `json:"from"`
	To              string    `json:"to"`
	Cause           string    `json:"cause"` // lost, protocol, closed, stalled, drained, ordered, rebalanced, aged or goaway
	ReplayedSeconds float64   `json:"replayed_seconds"`
	TookSeconds     float64   `json:"took_seconds"` // until the next backend had got all that the former one had; 0 before that
}
