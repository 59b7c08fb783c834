package streams

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/load"
)

// lags are those of a session.
type lags struct {
	recording int
	began     time.Duration // its first audio, since the run began
	samples   []lag
}

// lag is how long audio had to wait for its answer.
type lag struct {
	at    time.Duration // when the answer came, since the run began
	audio time.Duration // which audio was answered, since the session's first
	lag   time.Duration
}

// growth returns the slope of lag within sessions.
func growth(all []lags, alone [][]lags) load.Growth { return load.Growth{} }
