package relay

import (
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// What is the backend's fault counts against it, and nothing else does. The books say why the connection went.
func TestFaults(t *testing.T) {
	half := wstest.ClientFrame(true, frame.Text, []byte("question"))[:9]
	for _, c := range []struct {
		name    string
		play    func(client, server *wstest.Peer)
		broken  uint64
		oneShot string // the reason, with each of the profiles; empty if the connection is returned
		echo    string
	}{
		{"ends the stream", func(_, server *wstest.Peer) { _ = server.Close() }, 1, "lost", "lost"},
		{"resets", func(_, server *wstest.Peer) { server.Reset() }, 1, "lost", "lost"},
		{"ends the stream in a frame", func(client, server *wstest.Peer) {
			client.Send(frame.Text, "question")
			server.Expect(frame.Text, "question")
			server.SendBytes([]byte("\x81\x06ans"))
			_ = server.Close()
		}, 1, "lost", "lost"},
		{"breaks the protocol", func(_, server *wstest.Peer) { server.SendBytes([]byte{0x83, 0}) }, 1, "broken", "broken"},
		{"closes", func(_, server *wstest.Peer) { server.SendClose(frame.GoingAway, "restart") }, 0, "closed", "closed"},
		{"closes at once with an error", func(_, server *wstest.Peer) { server.SendClose(frame.InternalError, "oh") }, 1, "closed", "closed"},
		{"closes for a reason of its own", func(_, server *wstest.Peer) { server.SendClose(frame.PolicyViolation, "oh") }, 0, "closed", "closed"},
		{"closes with a code that may not be sent", func(_, server *wstest.Peer) { server.Send(frame.Close, "\x03\xee") }, 1, "broken", "broken"},
		{"closes in a message", func(client, server *wstest.Peer) {
			client.SendBytes(client.Encode(false, frame.Text, []byte("part")))
			server.Expect(frame.Text, "part")
			server.SendClose(frame.NormalClosure, "enough")
		}, 0, "closed", "closed"},
		{"closes and ends the stream", func(_, server *wstest.Peer) {
			server.SendClose(frame.NormalClosure, "")
			_ = server.Close()
		}, 0, "closed", "closed"},
		{"client closes", func(client, server *wstest.Peer) { client.SendClose(frame.NormalClosure, "") }, 0, "served", ""},
		{"client vanishes", func(client, _ *wstest.Peer) { client.Reset() }, 0, "served", ""},
		{"client vanishes in a frame", func(client, server *wstest.Peer) {
			client.SendBytes(half)
			server.ExpectBytes(half)
			client.Reset()
		}, 0, "cut", "cut"},
		{"client breaks the protocol", func(client, _ *wstest.Peer) { client.SendBytes([]byte{0x83, 0}) }, 0, "served", ""},
	} {
		for profile, reason := range map[string]string{"one-shot": c.oneShot, "echo": c.echo} {
			t.Run(c.name+", "+profile, func(t *testing.T) {
				r := newRig(t, setup{Profile: profile})
				client, server := r.Session()
				c.play(client, server)
				if profile == "one-shot" && reason == "served" { // the backend is told, and answers or just goes
					if h, _, err := server.Next(); err != nil || h.Opcode != frame.Close {
						t.Fatalf("got %v, %v; want a close frame", h.Opcode, err)
					}
					_ = server.Close()
				}
				r.expectFault(c.broken, reason)
			})
		}
	}
	t.Run("answers unasked", func(t *testing.T) {
		r := newRig(t, setup{Profile: "echo"})
		_, server := r.Session()
		server.Send(frame.Text, "unasked")
		r.expectFault(1, "broken")
	})
}

// A connection that TCP gives up while its server is not read, since the client reads nothing, is not the server's fault.
func TestTimedOutWhileClientStalls(t *testing.T) {
	for _, stalls := range []bool{true, false} {
		r := newRig(t, setup{})
		client, _ := r.Session()
		r.on(func(s *Session) {
			if stalls {
				s.leg.conn.Stream().Pause()
			}
			s.leg.conn.Stream().Fail(syscall.ETIMEDOUT)
		})
		client.ExpectClose(frame.InternalError, "backend connection lost: connection timed out")
		broken := uint64(1)
		if stalls {
			broken = 0
		}
		r.expectFault(broken, "lost")
	}
}

// expectFault checks how many sessions the backend has broken, and why the first connection went.
func (r *rig) expectFault(broken uint64, reason string) {
	r.T.Helper()
	wstest.Eventually(r.T, "the lease ends", func() bool {
		s := r.Backend.Stats().Totals
		return s.Returned+s.Discarded == 1
	})
	if got := r.Backend.Health().Broken; got != broken {
		r.T.Errorf("%d sessions were broken; want %d", got, broken)
	}
	s := r.Backend.Stats().Totals
	found := s.Returned == 1 && s.Discarded == 0 && reason == ""
	s.Reasons.All(func(why pool.Reason, n uint64) { found = found || why.String() == reason && n == 1 })
	if !found {
		r.T.Errorf("totals: %+v; want one for the reason %q", s, reason)
	}
}

// Sessions that a backend breaks one after the other take it out of service. One that ends well in between shows that it
// was not the backend.
func TestBrokenSessionsOpenCircuit(t *testing.T) {
	r := newRig(t, setup{Queue: 1, Backend: func(o *backend.Options) { o.CircuitFailures = 2 }})
	play := func(end func(client, server *wstest.Peer)) {
		t.Helper()
		client := r.Connect(wstest.UpgradeRequest("/v1/test"))
		client.ExpectUpgrade()
		server := r.Accepted()
		end(client, server)
		_, _ = client.Close(), server.Close()
		r.Record()
	}
	vanish := func(client, server *wstest.Peer) {
		_ = server.Close()
		client.ExpectClose(frame.InternalError, "backend connection lost: EOF")
	}
	closed := func(_, server *wstest.Peer) { server.SendClose(frame.NormalClosure, "") }
	for _, end := range []func(client, server *wstest.Peer){vanish, closed, vanish} {
		play(end)
		r.Ready(1)
		if h := r.Backend.Health(); h.Circuit != "closed" || h.CircuitOpened != 0 {
			t.Errorf("health: %+v", h)
		}
	}
	play(vanish)
	wstest.Eventually(t, "the circuit was open", func() bool { return r.Backend.Health().CircuitOpened == 1 })
	r.Ready(1) // again, after its trial
	wstest.Eventually(t, "the circuit is closed", func() bool { return r.Backend.Health().Circuit == "closed" })
	play(closed)
	if h := r.Backend.Health(); h.Broken != 3 {
		t.Errorf("health: %+v", h)
	}
}
