//go:build linux && !portableloop

// The portable loop may learn that nothing more can be read before it learns why nothing can be written.

package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/admission"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A client that reads nothing loses its server's place, although it answers TCP's probes.
func TestClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{Gate: func(o *admission.Options) { o.Limits.ClientTimeout = time.Second }})
	client, server := r.Session()
	go func() { // until the proxy ends the session
		chunk := wstest.ServerFrame(true, frame.Binary, make([]byte, 64<<10))
		for {
			if _, err := server.Conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	wstest.Eventually(t, "the session ends", func() bool { return r.sessions.Active() == 0 })
	_, _ = client.Close(), server.Close()
	r.expectRecord(fate{"client", frame.AbnormalClosure, unresponsive, "discarded"})
	if n := r.stats().Meters.Total.Ends; len(n) != 1 || n[0].By != meter.Client {
		t.Errorf("ends: %+v", n)
	}
}
