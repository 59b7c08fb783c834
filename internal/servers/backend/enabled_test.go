package backend

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A backend on which sessions have stalled is in service again when an operator disables and enables it, or has it recycled, and when its service
// no longer watches for stalls.
func TestStalledBackendIsUsedAgain(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*rig){
		"enabled":       func(r *rig) { r.SetMode(pool.Disabled); r.SetMode(pool.Enabled) },
		"recycled":      func(r *rig) { r.Recycle() },
		"not watched":   func(r *rig) { o := *r.options(); o.StallTimeout = 0; r.Update(o, false) },
		"dialed anew":   func(r *rig) { r.Update(*r.options(), true) },
		"more patience": func(r *rig) { o := *r.options(); o.StallTimeout = time.Minute; r.Update(o, false) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "echo", func(o *Options, _ *wstest.Server) { o.StallTimeout = time.Second })
			r.ready(1)
			s := r.use()
			s.on(func() { s.conn.Stalled(Client{}, false, time.Second, "no reply for 1s") })
			s.finish(Ending{MidFrame: true})
			wstest.Eventually(t, "it is out of service", func() bool { return r.Health().Stalled && !r.Stats().Usable })
			r.SetMode(pool.Enabled) // which it is already
			if r.Health().Stalled != true {
				t.Error("it is in service although nothing has changed")
			}
			again(r)
			wstest.Eventually(t, "it is in service", func() bool { return !r.Health().Stalled && r.Stats().Usable })
		})
	}
}
