package diagnosis

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Recent is what has happened lately, which the statistics of one instant do not know. The zero value is that nothing has.
type Recent struct {
	// Of the last minute.
	Began    uint64         // sessions
	Failed   uint64         // sessions that ended by a fault of a backend or of the proxy
	Refused  map[int]uint64 // clients without a session, by HTTP status
	LeftOut  uint64         // lines of the access log
	Internal uint64         // internal errors

	// Limits are those that have been reached repeatedly within the last seconds.
	Limits []api.LimitReached
	// Flaps are the backends that went in and out of health several times within some minutes, and have not been quiet since.
	Flaps map[BackendName]Flap
	// Jump is how far the wall clock was set, forward or back, and when; zero for not lately.
	Jump   time.Duration
	Jumped time.Time
}

// BackendName names a backend of a service.
type BackendName struct{ Service, Backend string }

// Flap is a backend that goes in and out of health.
type Flap struct {
	Times int       // that it went out of health
	First time.Time // when it first did
}
