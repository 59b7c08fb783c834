package route

import (
	"log/slog"
	"sync/atomic"

	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
)

// Dropped logs what a service does not pass on from its clients' handshakes, once for each kind. Any goroutine may use it, and all
// versions of a service share one.
type Dropped struct {
	log      *slog.Logger  // static
	service  string        // static
	reported atomic.Uint32 // kinds that were logged
}

// NewDropped returns a Dropped for the service of that name.
func NewDropped(service string, log *slog.Logger) *Dropped {
	return &Dropped{log: log, service: service}
}

// Report logs what was dropped from a client's handshake, but not its values, which may be secrets. granted is true if the client
// gets one of the subprotocols that it offers.
func (d *Dropped) Report(passing *profile.HandshakePolicy, dropped profile.HandshakeParts, granted bool) {
	if dropped &^= profile.HandshakeParts(d.reported.Or(uint32(dropped))); dropped == 0 {
		return
	}
	about := []any{"service", d.service, "dropped", dropped.String(), "to_pass_it", "--pass " + passing.PassFor(dropped)}
	if dropped&profile.PartSubprotocols != 0 && !granted {
		about = append(about, "consequence", "browsers fail with code 1006, since they are granted none of the subprotocols that they offer")
	}
	d.log.Warn("a client's handshake says more than this service passes to its backends", about...)
}
