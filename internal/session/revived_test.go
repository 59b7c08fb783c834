package session

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
			r := newRig(t, setup{more: []*wstest.Server{second}, queue: 2, balance: pool.RoundRobin, backend: func(o *backend.Options) {
				withYAML(t, oneShotBusy)(o)
			}})
			r.allReady(1, r.backends...)
			client := r.join()
			client.Send(frame.Text, "config")
			client.SendClose(frame.NormalClosure, "done")
			r.busyServer(closing)
			client.ExpectClose(frame.NormalClosure, "done")
			_ = client.Close()
			r.expectRecord(fate{"client", frame.NormalClosure, "done", "discarded"})
			wstest.Eventually(t, "the session is gone", func() bool { return r.server.Active() == 0 })
			leased := r.backends[0].Stats().Totals.Leased + r.backends[1].Stats().Totals.Leased
			if leased != 1 {
				t.Errorf("%d connections were leased for a client that had closed; want 1", leased)
			}
		})
	}
}

// busyServer plays the server of the only session: it reads the client's message and close, and answers so. Which of the two
// backends has the session is not known.
func (r *rig) busyServer(answer func(*wstest.Peer)) {
	r.t.Helper()
	for i, b := range r.backends {
		if b.Stats().Leased == 0 && b.Stats().Totals.Leased == 0 {
			continue
		}
		server := r.scripts[i].Take()
		server.Expect(frame.Text, "config")
		server.ExpectClose(frame.NormalClosure, "done")
		answer(server)
		return
	}
	r.t.Fatal("no backend has the session")
}
