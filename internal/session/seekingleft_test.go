//go:build linux && !portableloop

package session

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// A client that leaves while another connection is looked for ends the search. (The portable driver notices it when the search
// ends.)
func TestLeftWhileSeeking(t *testing.T) {
	for name, leave := range map[string]func(*peer){"end": func(p *peer) { _ = p.Close() }, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{profile: "whisperlive", queue: 1})
			client, server := r.session()
			client.send(frame.Text, `{"uid": "a"}`)
			server.expect(frame.Text, `{"uid": "a"}`)
			server.send(frame.Text, `{"status": "WAIT"}`)
			server.expectClose(frame.GoingAway, "session moved to another connection") // and is not closed by the test: the cap is used up
			eventually(t, "the session waits", func() bool { return r.group.Queue().Waiting == 1 })
			leave(client)
			eventually(t, "the search ends", func() bool { return r.group.Queue().Waiting == 0 })
			r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
			_ = server.Close()
		})
	}
}
