package chaos

import (
	"fmt"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// In a siege with replay, both services keep what clients send, so that sessions outlive their servers. The besieged one has a server that
// answers nothing, so that all of it is kept. Of the crowd's two servers, one dies in the middle.

// replays are the settings of services that keep what clients send.
const replays = ", failover: replay, replay-window: 5m"

// replayedMessage is the size of the crowd's messages in bytes: each needs memory that its session does not have yet.
const replayedMessage = 8 << 10

// swallower is the server of the besieged service: it reads everything, and answers nothing.
var swallower = scenario{name: "swallows", behave: func(v *visit) {
	if v.upgrade() {
		v.drain()
	}
}}

// replayHogs are clients of which three fill the memory. They come from another address than the crowd.
var replayHogs = siege{clients: 8, from: 1, pause: 10 * time.Millisecond, visit: hogsReplay, replay: true, judge: movedAll}

// hogsReplay sends six megabytes within a second, in text and binary messages.
func hogsReplay(a *attack) error {
	if err := a.upgrade(""); err != nil {
		return err
	}
	for i := range 100 {
		if err := a.write(a.clientFrame(true, []frame.Opcode{frame.Text, frame.Binary}[i%2], make([]byte, 64_000))); err != nil {
			return err
		}
		if err := wait(a.ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// movedAll wants the crowd's sessions to have been recoverable, and those of the server that died to have moved.
func movedAll(o *outcome) error {
	if o.hogs.Unassured["memory"] == 0 {
		return fmt.Errorf("the memory for failover was never used up: %v", o.hogs.Unassured)
	}
	if c := o.crowd; c.Moved == 0 || c.NotMoved > 0 || len(c.Unassured) > 0 {
		return fmt.Errorf("of the well-behaved sessions, %d moved and %d did not; no longer recoverable: %v", c.Moved, c.NotMoved, c.Unassured)
	}
	return nil
}
