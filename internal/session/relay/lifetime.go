package relay

import (
	"math"
	"math/rand/v2"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/relay/failover"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A server may let a connection live for a limited time only, or say that it will end a session. A session that another server could continue
// moves before that, by a pending move that it orders itself.

// ownMove is the number of a pending move that the session has ordered itself.
const ownMove = math.MaxUint64

// beginLifetime finds out how long the session may stay on its new connection.
func (f *recovery) beginLifetime(conn *backend.Conn) {
	limit := conn.Profile().MaxAge
	if own := f.session.record.Service.SessionAge; own > 0 && (limit == 0 || own < limit) {
		limit = own
	}
	f.lifetime = failover.Lifetime{}
	if limit > 0 && f.machine.State() != failover.Off {
		f.leaveAt(failover.Aging(conn.Established(), limit, rand.Float64()))
	}
}

func (f *recovery) leaveAt(l failover.Lifetime) {
	f.lifetime = l
	f.leaving.Set(f.session.client, max(l.From.Until(), 1), timeLifetime)
}

// goAway notes that the server says that it ends the session. It reports whether the session can move, so that its client need not know.
func (f *recovery) goAway() bool {
	if f.session.life.state != relaying || !f.machine.Recoverable() {
		return false
	}
	f.leaveAt(failover.Announced(loop.Now(), rand.Float64()))
	return true
}

// leaveInTime orders the move, unless one is pending. It is called by the timer, and again as long as the session is on the connection:
// there may be no other one, or the session may not be recoverable at present.
func (f *recovery) leaveInTime() {
	s := f.session
	if pending := f.machine.Pending(); pending.IsOpen() {
		s.ConsiderMove()
	} else {
		s.OrderMove(failover.PendingMove{Number: ownMove, Cause: f.lifetime.Cause, By: f.lifetime.By}, nil)
	}
	if s.life.state == relaying {
		f.leaving.Set(s.client, f.lifetime.Retry(), timeLifetime)
	}
}
