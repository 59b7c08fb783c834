package record

import (
	"log/slog"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/panics"
)

// Shared is what the rooms of the session storey share in a process: each gets it when it is made. It is static, and any goroutine may use it.
type Shared struct {
	// Process is the part of ids that all clients and sessions have in common.
	Process Process
	// Scopes has the limits of the process, tenants and keys, and LimitLog logs those that are reached.
	Scopes   *limits.Registry
	LimitLog *limits.Log
	// Guard recovers from panics in goroutines; nil to let them end the process.
	Guard *panics.Guard
	// Log gets a line for each session that ended and, up to a rate, for each client that got none (level info), and for each session
	// that began (level debug).
	Log *slog.Logger
}

// NewShared returns what is shared in this process. nil for scopes is a process without limits, and nil for guard one that panics end.
// Closing LimitLog ends it.
func NewShared(scopes *limits.Registry, guard *panics.Guard, log *slog.Logger) Shared {
	if scopes == nil {
		scopes = limits.NewRegistry()
	}
	return Shared{Process: NewProcess(), Scopes: scopes, LimitLog: limits.NewLog(log), Guard: guard, Log: log}
}
