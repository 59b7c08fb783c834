//go:build linux && !portableloop

package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// A client that leaves while another connection is looked for ends the search. (The portable driver notices it when the search
// ends.)
func TestLeftWhileSeeking(t *testing.T) {
	for name, leave := range map[string]func(*wstest.Peer){"end": func(p *wstest.Peer) { _ = p.Close() }, "reset": (*wstest.Peer).Reset} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "whisperlive", Queue: 1})
			client, server := r.Session()
			client.Send(frame.Text, `{"uid": "a"}`)
			server.Expect(frame.Text, `{"uid": "a"}`)
			server.Send(frame.Text, `{"status": "WAIT"}`)
			server.ExpectClose(frame.GoingAway, "session moved to another connection") // and is not closed by the test: the cap is used up
			wstest.Eventually(t, "the session waits", func() bool { return r.Group.Queue().Waiting == 1 })
			leave(client)
			wstest.Eventually(t, "the search ends", func() bool { return r.Group.Queue().Waiting == 0 })
			r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
			_ = server.Close()
		})
	}
}
