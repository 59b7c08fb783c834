package app

import (
	"github.com/wsbouncer/wsbouncer/internal/machine"
)

const (
	// defaultReplayMemory is how much memory failover may use if the settings do not say it.
	defaultReplayMemory = 1 << 30
	// replayShare is the part of the machine's memory that it uses at most by default: one in so many.
	replayShare = 8
)

// replayMemory returns how many bytes may be kept for the next servers of sessions.
func (s *Settings) replayMemory() int64 { return ReplayMemory(s.ReplayMemory, machine.Granted()) }

// ReplayMemory returns how many bytes may be kept for the next servers of sessions, on a machine that grants so much. setting is the
// setting replay-memory; 0 for the default.
func ReplayMemory(setting int64, here machine.Here) int64 {
	switch {
	case setting > 0:
		return setting
	case here.Memory <= 0: // it is not known
		return defaultReplayMemory
	}
	return min(defaultReplayMemory, here.Memory/replayShare)
}
