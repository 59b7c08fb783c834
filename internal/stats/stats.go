// Package stats holds the statistics of a proxy at one instant, as the admin API shows them and metrics are made of. It is
// types only: internal/app fills them in.
package stats

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/backend"
	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// Service is one service in the statistics.
type Service struct {
	Name    string          `json:"name"`
	Host    string          `json:"host,omitempty"` // empty for any
	Path    string          `json:"path"`           // empty for any
	Profile string          `json:"profile"`
	Balance string          `json:"balance"`
	Queue   pool.QueueStats `json:"queue"`
}

// Backend is one backend in the statistics.
type Backend struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	URL     string `json:"url"`
	Profile string `json:"profile"`
	backend.Health
	pool.Stats
	// Variants are the kinds of connections there are, where a profile knows some. Names of those for one client, or few, begin
	// with ~.
	Variants []pool.VariantStats `json:"variants,omitempty"`
	Retired  uint64              `json:"retired"` // connections closed or being closed since the start
}

// Leaving is a backend that was removed from its service, while it still has connections.
type Leaving struct {
	Name    string `json:"name"`
	Service string `json:"service"`
	URL     string `json:"url"`
	// Leased, Resetting and Retiring are its connections that serve a session, are made clean after one, or are being closed.
	Leased    int `json:"leased"`
	Resetting int `json:"resetting"`
	Retiring  int `json:"retiring"`
}

// Configuration is which configuration is in force, and how good it is.
type Configuration struct {
	Source  string    `json:"source"`
	Version string    `json:"version"` // of the snapshot in force
	State   string    `json:"state"`   // current, stale (the source fails) or copied (it has failed since the start)
	Since   time.Time `json:"since"`   // of the state
	Reason  string    `json:"reason,omitempty"`
	Applied time.Time `json:"applied"` // when the snapshot came into force
	Changes uint64    `json:"changes"` // snapshots that came into force since the start
	Failed  uint64    `json:"failures"`
}

// Sessions is what became of clients.
type Sessions struct {
	Active  int64                      `json:"active"`  // sessions whose client is still connected
	Total   uint64                     `json:"total"`   // sessions begun since the start
	Refused map[int]uint64             `json:"refused"` // requests refused, by HTTP status
	Ended   map[frame.CloseCode]uint64 `json:"ended"`   // sessions ended, by the client's close code
}

// Relayed counts data frames and their payload in bytes since the start.
type Relayed struct {
	FramesFromClients  uint64 `json:"frames_from_clients"`
	BytesFromClients   uint64 `json:"bytes_from_clients"`
	FramesFromBackends uint64 `json:"frames_from_backends"`
	BytesFromBackends  uint64 `json:"bytes_from_backends"`
}

// Loops is the event loops.
type Loops struct {
	Awake int          `json:"awake"`
	Moved uint64       `json:"moved"` // sessions and idle connections moved between loops since the start
	Loops []loop.Stats `json:"loops"`
}

// Stats is the process at one instant.
type Stats struct {
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Draining      bool    `json:"draining"`
	// InternalErrors counts panics that ended no more than a session or a connection: mistakes in the proxy.
	InternalErrors uint64    `json:"internal_errors"`
	Services       []Service `json:"services"`
	Backends       []Backend `json:"backends"`
	// Leaving are backends that were removed and still have connections.
	Leaving       []Leaving     `json:"leaving,omitempty"`
	Configuration Configuration `json:"configuration"`
	Sessions      Sessions      `json:"sessions"`
	Relayed       Relayed       `json:"relayed"`
	Loops         Loops         `json:"loops"`
}
