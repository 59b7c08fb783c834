package relay

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const oneShotBusy = `
profiles:
  p:
    from: one-shot
    busy: {json: {status: WAIT}}`

// A client that has closed is not revived: when its server answers "busy" after that, the session does not go to another
// server, and its place is free at once.
func TestClosedClientIsNotRevived(t *testing.T) {
	for name, closing := range map[string]func(server *wstest.Peer){
		"busy message":             func(server *wstest.Peer) { server.Send(frame.Text, `{"status": "WAIT"}`) },
		"busy message, then close": func(server *wstest.Peer) { server.Send(frame.Text, `{"status": "WAIT"}`); server.SendClose(1013, "") },
	} {
		t.Run(name, func(t *testing.T) {
			second := new(wstest.Server)
			r := newRig(t, setup{More: []*wstest.Server{second}, Queue: 2, Balance: pool.RoundRobin, Backend: func(o *backend.Options) {
				withYAML(t, oneShotBusy)(o)
			}})
			r.AllReady(1, r.Backends...)
			client := r.Join()
			client.Send(frame.Text, "config")
			client.SendClose(frame.NormalClosure, "done")
			r.busyServer(closing)
			client.ExpectClose(frame.NormalClosure, "done")
			_ = client.Close()
			r.expectRecord(fate{"client", frame.NormalClosure, "done", "discarded"})
			wstest.Eventually(t, "the session is gone", func() bool { return r.sessions.Active() == 0 })
			leased := r.Backends[0].Stats().Totals.Leased + r.Backends[1].Stats().Totals.Leased
			if leased != 1 {
				t.Errorf("%d connections were leased for a client that had closed; want 1", leased)
			}
		})
	}
}

// busyServer plays the server of the only session: it reads the client's message and close, and answers so. Which of the two
// backends has the session is not known.
func (r *rig) busyServer(answer func(*wstest.Peer)) {
	r.T.Helper()
	for i, b := range r.Backends {
		if b.Stats().Leased == 0 && b.Stats().Totals.Leased == 0 {
			continue
		}
		server := r.Scripts[i].Take()
		server.Expect(frame.Text, "config")
		server.ExpectClose(frame.NormalClosure, "done")
		answer(server)
		return
	}
	r.T.Fatal("no backend has the session")
}
