// Package admin serves the administration API over HTTP: whether the process lives, whether it is ready for clients, and
// what it is doing.
package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/loop"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// Backend is one backend in the statistics.
type Backend struct {
	URL       string    `json:"url"`
	Profile   string    `json:"profile"`
	Warm      int       `json:"warm"`
	Reachable bool      `json:"reachable"`
	Since     time.Time `json:"since"`            // of the last change of reachable
	Reason    string    `json:"reason,omitempty"` // why it is not reachable
	Retired   uint64    `json:"retired"`          // connections closed or being closed since the start
	pool.Stats
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
	Version       string    `json:"version"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Draining      bool      `json:"draining"`
	Backends      []Backend `json:"backends"`
	Sessions      Sessions  `json:"sessions"`
	Relayed       Relayed   `json:"relayed"`
	Loops         Loops     `json:"loops"`
}

// Source is what the API shows. Its functions may be called from any goroutine at any time.
type Source struct {
	// Ready returns nil when clients can be served, or why not.
	Ready func() error
	// Stats returns the statistics.
	Stats func() Stats
}

// Handler returns the API. It reads only; log gets what could not be answered.
func Handler(source Source, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := source.Ready(); err != nil {
			text(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		text(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("GET /api/v1/stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(source.Stats()); err != nil {
			log.Debug("statistics not delivered", "error", err)
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "wsbouncer admin: /healthz /readyz /api/v1/stats")
	})
	return mux
}

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line + "\n"))
}
