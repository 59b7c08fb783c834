//go:build linux && !portableloop

package session

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/frame"
)

// A connection that is lost between its lease and the beginning of the session costs the client nothing: it waits for
// another. (With the portable loops, the session may begin before the loss is seen.)
func TestLeasedConnectionIsLost(t *testing.T) {
	r := newRig(t, setup{profile: "echo", queue: 1})
	r.ready(1)
	busy, release := make(chan struct{}), make(chan struct{})
	r.loops.Loops()[0].Post(func() { close(busy); <-release })
	<-busy
	client := r.connect(upgradeRequest("/v1/test"))
	eventually(t, "the connection is leased", func() bool { return r.backend.Stats().Leased == 1 })
	r.accepted().reset() // the loop sees this before it begins the session
	close(release)
	client.expectUpgrade()
	server := r.accepted()
	client.send(frame.Text, "hello")
	server.expect(frame.Text, "hello")
	if s := r.backend.Stats().Totals; s.Leased != 2 || s.Discarded != 1 || s.Dialed != 2 {
		t.Errorf("totals: %+v; want two leases", s)
	}
	if got := r.server.Stats(); got.Total != 1 || len(got.Refused) != 0 {
		t.Errorf("stats: %+v", got)
	}
	client.sendClose(frame.NormalClosure, "")
	client.expectClose(frame.NormalClosure, "")
	_ = client.Close()
	if a := r.record(); a["id"].Uint64() != 1 {
		t.Errorf("record: %v", a)
	}
}

// A client that is gone while its backend takes nothing does not hold the connection for ever; what it has sent is passed on
// to one that does.
func TestClientEndsBehindSlowBackend(t *testing.T) {
	for _, stalls := range []bool{true, false} {
		r := newRig(t, setup{options: func(o *Options) {
			if stalls {
				o.CloseTimeout = 1
			}
		}})
		client, server := r.session()
		piece, sent := client.encode(true, frame.Binary, noise(1, 4<<10)), 0
		for paused := false; !paused; {
			client.write(piece)
			sent++
			r.on(func(s *Session) { paused = s.client.Paused() })
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if stalls {
			r.expectRecord(fate{"client", frame.AbnormalClosure, "client left, and its backend took nothing more", "discarded"})
			continue
		}
		for range sent {
			server.expectBytes(piece)
		}
		r.expectRecord(fate{"client", frame.AbnormalClosure, "client left without a close frame", "discarded"})
	}
}
