//go:build linux && !portableloop

package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A ping to the backend waits for the end of the client's frame that is on its way, and is put behind it, together with
// the answer to the backend's own. (The portable driver writes in a goroutine of its own, so that both may wait for one more
// frame there.)
func TestPingWaitsForFrame(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{Backend: pinging(wstest.Timeout)})
	client, server := r.Session()
	waits := func() {
		t.Helper()
		wstest.Eventually(t, "a ping waits", func() (waits bool) {
			r.on(func(s *Session) { waits = s.leg.up.pinging })
			return waits
		})
	}
	whole := client.Encode(true, frame.Text, []byte("a message in one frame"))
	first := client.Encode(false, frame.Text, nil)
	second := client.Encode(false, frame.Continuation, []byte("in the middle of a message"))
	third := client.Encode(true, frame.Continuation, []byte("the end of the message"))

	// In the middle of a payload; whole frames and a part of another come together with the rest.
	client.SendBytes(whole[:8])
	server.AnswerPings()
	server.ExpectBytes(whole[:8])
	waits()
	server.Send(frame.Ping, "mine")
	server.Send(frame.Text, "behind it")
	client.Expect(frame.Text, "behind it")
	client.SendBytes(whole[8:], first, second, third[:10])
	server.ExpectBytes(slicesOf(whole[8:], first, second))
	server.Expect(frame.Pong, "mine")
	server.AnswerPing()

	// Within a message, and that part of a frame is still under way: the next ping waits again.
	server.ExpectBytes(third[:10])
	waits()
	client.SendBytes(third[10:])
	server.ExpectBytes(third[10:])
	server.AnswerPing()
	client.Send(frame.Text, "in order")
	server.AnswerPings()
	server.Expect(frame.Text, "in order")
}
