package app

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
)

func TestReplayMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ setting, machine, want int64 }{
		{0, 32 << 30, 1 << 30}, {0, 2 << 30, 256 << 20}, {0, -1, 1 << 30}, {4 << 30, 8 << 30, 4 << 30}, {1 << 20, -1, 1 << 20},
	} {
		if got := ReplayMemory(c.setting, machine.Here{Memory: c.machine}); got != c.want {
			t.Errorf("setting %d on a machine with %d bytes: %d; want %d", c.setting, c.machine, got, c.want)
		}
	}
}
