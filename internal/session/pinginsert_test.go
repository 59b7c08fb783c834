//go:build linux && !portableloop

package session

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// A ping to the backend waits for the end of the client's frame that is on its way, and is put behind it, together with
// the answer to the backend's own. (The portable driver writes in a goroutine of its own, so that both may wait for one more
// frame there.)
func TestPingWaitsForFrame(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backend: pinging(testTimeout)})
	client, server := r.session()
	waits := func() {
		t.Helper()
		eventually(t, "a ping waits", func() (waits bool) {
			r.on(func(s *Session) { waits = s.leg.up.pinging })
			return waits
		})
	}
	whole := client.encode(true, frame.Text, []byte("a message in one frame"))
	first := client.encode(false, frame.Text, nil)
	second := client.encode(false, frame.Continuation, []byte("in the middle of a message"))
	third := client.encode(true, frame.Continuation, []byte("the end of the message"))

	// In the middle of a payload; whole frames and a part of another come together with the rest.
	client.write(whole[:8])
	server.answerPings()
	server.expectBytes(whole[:8])
	waits()
	server.send(frame.Ping, "mine")
	server.send(frame.Text, "behind it")
	client.expect(frame.Text, "behind it")
	client.write(whole[8:], first, second, third[:10])
	server.expectBytes(slicesOf(whole[8:], first, second))
	server.expect(frame.Pong, "mine")
	server.answerPing()

	// Within a message, and that part of a frame is still under way: the next ping waits again.
	server.expectBytes(third[:10])
	waits()
	client.write(third[10:])
	server.expectBytes(third[10:])
	server.answerPing()
	client.send(frame.Text, "in order")
	server.answerPings()
	server.expect(frame.Text, "in order")
}
