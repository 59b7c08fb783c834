package services

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A service's utilisation counts the places of the backends that take sessions, and of all that are enabled if none can.
func TestUtilisation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, dead := startMoody(t), "ws://"+wstest.RefusingAddress(t)
	r.apply(func(c *config.Content) {
		putService(c, "stt", quickToTrip)
		putBackend(c, "a", "stt", a.URL, 4, nil)
		putBackend(c, "dead", "stt", dead, 12, nil)
		putBackend(c, "drained", "stt", "ws://"+wstest.RefusingAddress(t), 100, func(b *config.Backend) { b.State = "draining" })
	})
	r.idle("a", 4)
	wstest.Eventually(t, "the dead one is out of service", func() bool { return !r.backend("dead").Usable })
	if got := r.stats().Services[0].Utilisation; got != 0 {
		t.Errorf("without sessions: %v", got)
	}
	session := r.join("/stt")
	if got := r.stats().Services[0].Utilisation; got != 0.25 {
		t.Errorf("one of the four places that work is in use: %v", got)
	}
	drop(a, session)
	wstest.Eventually(t, "none works", func() bool { return !r.backend("a").Usable })
	_ = r.waiting("stt")
	wstest.Eventually(t, "one client waits for 16 places", func() bool { return r.stats().Services[0].Utilisation == 1.0/16 })
}
