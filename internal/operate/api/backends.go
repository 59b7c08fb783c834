package api

// Orders of GET /api/v1/backends.
const (
	BackendsByName  = "name"
	BackendsScaleIn = "scale-in" // the one to empty first comes first
)

// BackendOrders are the orders of GET /api/v1/backends, the default first.
var BackendOrders = []string{BackendsByName, BackendsScaleIn}

// BackendInUse is a backend that runs, and what emptying it would mean: GET /api/v1/backends?service=NAME&sort=scale-in.
type BackendInUse struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	URL     string `json:"url"`
	// DiscoveredFrom is the backend of the configuration whose DNS name led to this server; empty for a backend of the configuration.
	DiscoveredFrom    string `json:"discovered_from,omitempty"`
	State             string `json:"state"`              // the desired state: enabled, draining or disabled
	Usable            bool   `json:"usable"`             // sessions may begin
	Sessions          int    `json:"sessions"`           // of this proxy
	SessionsElsewhere int    `json:"sessions_elsewhere"` // of the other proxies that share the server
	// RemainingSeconds is how long all of these sessions are expected to last on, added up, and LongestSeconds the longest of these times: each
	// is the mean of those sessions of the service that have lasted longer.
	RemainingSeconds float64 `json:"remaining_seconds"`
	LongestSeconds   float64 `json:"longest_seconds"`
	// Moves: another backend can continue its sessions (`backend drain NAME --move`).
	Moves bool `json:"moves"`
}
