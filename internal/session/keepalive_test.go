//go:build linux

package session

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A client that reads nothing loses its server's place, although it answers TCP's probes.
func TestClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{options: func(o *Options) { o.Limits.ClientTimeout = time.Second }})
	client, server := r.session()
	go func() { // until the proxy ends the session
		chunk := wstest.ServerFrame(true, frame.Binary, make([]byte, 64<<10))
		for {
			if _, err := server.Conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	wstest.Eventually(t, "the session ends", func() bool { return r.server.Active() == 0 })
	_, _ = client.Close(), server.Close()
	r.expectRecord(fate{"client", frame.AbnormalClosure, unresponsive, "discarded"})
	if n := r.server.Stats().Meters.Total.Ends; len(n) != 1 || n[0].By != meter.Client {
		t.Errorf("ends: %+v", n)
	}
}
