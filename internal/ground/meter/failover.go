package meter

import (
	"sync/atomic"
	"time"
)

// Cause is why a session leaves the server that serves it. Metrics, logs and the admin API name the causes.
type Cause uint8

// The causes.
const (
	// Lost: the connection to the server was lost.
	Lost Cause = iota
	// Protocol: the server broke RFC 6455, or sent what the session did not ask for.
	Protocol
	// Closed: the server closed the session with a code that is not its last word.
	Closed
	// Stalled: the server stopped answering.
	Stalled
	// Drained: an operator empties the server.
	Drained
	// Ordered: an operator moves this session.
	Ordered
	// Rebalanced: another server has much more room, or results came too late.
	Rebalanced
	// Aged: the server, or the service's session-age, lets no connection live for longer.
	Aged
	// GoAway: the server said that it would end the session.
	GoAway

	Causes = iota
)

// String returns the cause's name in metrics.
func (c Cause) String() string {
	return [Causes]string{"lost", "protocol", "closed", "stalled", "drained", "ordered", "rebalanced", "aged", "goaway"}[c]
}

// Planned reports whether the session leaves a server that works.
func (c Cause) Planned() bool { return c >= Drained }

// Unrecoverable is why a session is not recoverable: no other server could continue it.
type Unrecoverable uint8

// The reasons.
const (
	// UnrecoverableFormat: its audio, or what it says, cannot be sent again: see profile.Tracker.Whole.
	UnrecoverableFormat Unrecoverable = iota
	// UnrecoverableWindow: what is not answered is older than the service's replay-window.
	UnrecoverableWindow
	// UnrecoverableMemory: all of replay-memory is in use.
	UnrecoverableMemory
	// UnrecoverableMessage: a message was too long to be kept.
	UnrecoverableMessage

	UnrecoverableReasons = iota
)

// String returns the reason's name in metrics.
func (u Unrecoverable) String() string {
	return [UnrecoverableReasons]string{"format", "window", "memory", "message"}[u]
}

// Failovers counts the sessions that left a server, or were to leave it, by cause.
type Failovers [Causes]struct {
	Moved    uint64 // another server continued them
	NotMoved uint64 // they ended, or stayed if the server works
}

// failovers are a backend's counters of sessions that outlive servers. Any goroutine may add to them.
type failovers struct {
	moved, notMoved [Causes]atomic.Uint64
	unrecoverable   [UnrecoverableReasons]atomic.Uint64
	stalls          atomic.Uint64
	failed          atomic.Int64 // when a session whose server failed was not moved for the last time, in Unix nanoseconds; 0 for never
}

// FailedOver counts a session that left the backend, or was to leave it. moved: another server continues it.
func (b *Backend) FailedOver(c Cause, moved bool) {
	if moved {
		b.failovers.moved[c].Add(1)
	} else {
		b.failovers.notMoved[c].Add(1)
		if !c.Planned() {
			b.failovers.failed.Store(time.Now().UnixNano())
		}
	}
}

// BecameUnrecoverable counts a session that no other server can continue any longer.
func (b *Backend) BecameUnrecoverable(why Unrecoverable) { b.failovers.unrecoverable[why].Add(1) }

// Stall counts a session on which the backend has stalled.
func (b *Backend) Stall() { b.failovers.stalls.Add(1) }
