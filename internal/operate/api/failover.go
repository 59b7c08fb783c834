package api

import "time"

// Replay is the memory for what clients have sent and no backend has finally answered.
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
	Rebalance           bool    `json:"rebalance"`
	Moved               uint64  `json:"moved"`     // times that another backend went on with a session
	NotMoved            uint64  `json:"not_moved"` // times that none did
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
	Cause           string    `json:"cause"` // lost, protocol, closed, stalled, drained, ordered or rebalanced
	ReplayedSeconds float64   `json:"replayed_seconds"`
	TookSeconds     float64   `json:"took_seconds"` // until the next backend had got all that the former one had; 0 before that
}
