package api

import "time"

// Limits are what limits did to clients.
type Limits struct {
	HeldBack int64          `json:"held_back"` // sessions whose clients are not read at present, since they send too much
	Totals   []LimitTotal   `json:"totals"`    // since the start
	Lately   []LimitReached `json:"lately"`    // within the last minute or two; 100 are named at most
}

// LimitTotal is how often limits of one kind were reached: clients were refused, or sessions held back or ended.
type LimitTotal struct {
	Limit string `json:"limit"` // session-limit, session-rate, message-rate, byte-rate, max-message, max-session, idle-timeout
	Scope string `json:"scope"` // process, service, client, key, tenant
	Count uint64 `json:"count"`
}

// LimitReached is a limit that is being reached.
type LimitReached struct {
	LimitTotal
	// Name is that of the service, the tenant or the key, or the client's address; empty for the process, and for those that are too many
	// to name.
	Name  string    `json:"name,omitempty"`
	Since time.Time `json:"since"`
}

// HeldBack says why a session's client is not read: it sends more than it may.
type HeldBack struct {
	Limit string    `json:"limit"` // such as "byte-rate 64KiB/s of tenant acme"
	Since time.Time `json:"since"`
}
