package api

import "time"

// TakeOverProtocol is what a successor that another process started asks for in the Upgrade header of POST /api/v1/take-over.
const TakeOverProtocol = "wsbouncer-take-over"

// MaxUpgradeTime is the longest time that an upgrade may take.
const MaxUpgradeTime = time.Hour

// ShutsDown is why an upgrade has failed if the running proxy began to shut down meanwhile: it does not continue.
const ShutsDown = "the running proxy shuts down"

// UpgradeOrder is the body of a request for an upgrade. All fields may be missing.
type UpgradeOrder struct {
	// Binary is the path of the program on the proxy's machine; empty for the one that the proxy was started as, as it is on disk now.
	Binary string `json:"binary,omitempty"`
	// TimeoutSeconds is how long the new process may take until it is ready; 0 for a minute.
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	Order
}

// UpgradeStep is one line of the answer to a request for an upgrade. The last one has Done or Error.
type UpgradeStep struct {
	Time  time.Time `json:"time"`
	Text  string    `json:"text,omitempty"`  // what has just happened, for people
	Done  *Upgraded `json:"done,omitempty"`  // the new process has taken over
	Error string    `json:"error,omitempty"` // why it has not: the old process continues
}

// Upgraded says what came of an upgrade.
type Upgraded struct {
	PID      int      `json:"pid"`                // of the new process
	Version  string   `json:"version"`            // of its program
	Draining []string `json:"draining,omitempty"` // addresses of the admin API of the old process while it drains
	Sessions int      `json:"sessions"`           // sessions that the old process still has
}
