//go:build !linux

package agent

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

var processStart = time.Now()

// now returns the time since the process has begun, by a clock that never jumps.
func now() fleet.Instant { return fleet.Instant(time.Since(processStart)) }
