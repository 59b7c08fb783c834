package limits

import "time"

// A client may send maxControls pings and pongs within controlPeriod. Each is answered, or at least read, and none counts as a message. Clients
// that are usual send one in some seconds.
const (
	maxControls   = 1000
	controlPeriod = 10 * time.Second
)

// Controls counts the control frames of a client. Its owner is the client's.
type Controls struct {
	count uint32 // since the period began
	begun uint32 // when the period began, in milliseconds; 0 before the first control frame
}

// Exceeded counts a control frame, and reports whether there were too many. It reads the clock only once in maxControls times.
func (c *Controls) Exceeded(clock func() Instant) bool {
	if c.count++; c.count > 1 && c.count <= maxControls {
		return false
	}
	now, begun := uint32(clock()/Instant(time.Millisecond))|1, c.begun
	c.count, c.begun = 1, now
	return begun != 0 && now-begun < uint32(controlPeriod.Milliseconds()) // also after an overflow
}
