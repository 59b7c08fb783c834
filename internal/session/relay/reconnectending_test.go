//go:build linux && !portableloop

package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What a client has said before it closes and ends its stream reaches a server that takes it late.
func TestCloseBehindWhatWaits(t *testing.T) {
	r, client, _, server := newReturning(t)
	message := wstest.ClientFrame(true, frame.Binary, make([]byte, 20<<10))
	_ = client.SetDeadline(time.Time{})
	sent := make(chan int, 1)
	go func() {
		n := 0
		for stopped := false; !stopped && n < 2000; n++ {
			client.SendBytes(message)
			r.each(func(s *Session) { stopped = s.client.Paused() })
		}
		client.SendClose(frame.NormalClosure, "done")
		_ = client.TCP().CloseWrite()
		sent <- n
	}()
	n := <-sent
	wstest.Eventually(t, "the end of the client's stream is seen", func() (seen bool) {
		if r.sessions.Active() == 0 {
			t.Fatal("the session has ended")
		}
		r.on(func(s *Session) { seen = s.client.Kept() > 0 })
		return seen
	})
	for i := range n {
		if h, payload, err := server.Next(); err != nil || h.Opcode != frame.Binary || len(payload) != 20<<10 {
			t.Fatalf("message %d of %d: %+v, %d bytes, %v", i, n, h, len(payload), err)
		}
	}
	server.ExpectClose(frame.NormalClosure, "done")
	server.SendClose(frame.NormalClosure, "done")
	wstest.Eventually(t, "nothing is left", func() bool { return r.sessions.lines.Stats().Lines == 0 })
}
