package relay

import (
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// counted returns what was counted for all backends.
func (r *rig) counted() meter.Totals {
	r.T.Helper()
	return r.stats().Meters.Total
}

// The first reply is what the server sends after the client's first whole message: neither what it sent before that, nor what it sends
// later counts, and a session without a reply counts nothing.
func TestFirstReply(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	server.Send(frame.Text, "welcome")
	client.Expect(frame.Text, "welcome")
	client.SendBytes(wstest.ClientFrame(false, frame.Text, []byte("a quest")))
	server.Send(frame.Text, "go on")
	client.Expect(frame.Text, "go on")
	if n := r.counted().FirstReply.Count(); n != 0 {
		t.Fatalf("%d replies were counted before the client's first message was complete", n)
	}
	asked := time.Now()
	client.SendBytes(wstest.ClientFrame(true, frame.Continuation, []byte("ion")))
	wstest.Eventually(t, "the message has come", func() bool {
		come := false
		r.on(func(s *Session) { come = s.reply == awaited })
		return come
	})
	server.Send(frame.Text, "an answer")
	client.Expect(frame.Text, "an answer")
	wstest.Eventually(t, "the reply is counted", func() bool { return r.counted().FirstReply.Count() == 1 })
	took := time.Since(asked)
	server.Send(frame.Text, "another")
	client.Expect(frame.Text, "another")
	if d := r.counted().FirstReply; d.Count() != 1 || d.Sum <= 0 || d.Sum > took.Seconds() {
		t.Errorf("%d first replies after %v; want one after at most %v", d.Count(), d.Sum, took)
	}
	end := func(client, server *wstest.Peer) {
		server.SendClose(frame.NormalClosure, "")
		client.ExpectClose(frame.NormalClosure, "")
		client.SendClose(frame.NormalClosure, "")
		client.ExpectEnd()
		for h, err := (frame.Header{}), error(nil); err == nil && h.Opcode != frame.Close; {
			h, _, err = server.Next()
		}
		_ = server.Close()
		_ = client.Close()
	}
	end(client, server)

	wstest.Eventually(t, "another connection is ready", func() bool { return r.Backend.Stats().Totals.Leased == 1 && r.Backend.Stats().Idle == 1 })
	silent := r.Join()
	end(silent, r.Accepted())
	wstest.Eventually(t, "both sessions end", func() bool { return r.counted().Session.Count() == 2 })
	if n := r.counted().FirstReply.Count(); n != 1 {
		t.Errorf("%d first replies; want the first session's only", n)
	}
}

// What is counted of a session belongs to the backend that served it.
func TestCountsOfEachBackend(t *testing.T) {
	r := newRig(t, setup{
		Profile: "echo", Cap: 2, Script: &wstest.Server{Serve: wstest.Echo}, More: []*wstest.Server{{Serve: wstest.Echo}},
	})
	r.AllReady(2, r.Backends...)
	first, second := r.Join(), r.Join() // the second on the backend that is less loaded
	first.Ask("one")
	second.Ask("one")
	second.Ask("two")
	first.CloseNormally()
	second.CloseNormally()
	wstest.Eventually(t, "both sessions end", func() bool { return r.counted().Session.Count() == 2 })
	seen := make(map[uint64]bool)
	for _, b := range r.stats().Meters.Backends {
		seen[b.Relayed.FramesFromClients] = true
		if b.Begun != 1 || len(b.Ends) != 1 || b.Ends[0] != meter.NewEnd(meter.Client, 1000, meter.Normal, 1) ||
			b.Relayed.FramesFromBackends != b.Relayed.FramesFromClients || b.FirstReply.Count() != 1 || b.Dial.Count() == 0 {
			t.Errorf("%s: %+v", b.Backend, b.Totals)
		}
	}
	if len(seen) != 2 || !seen[1] || !seen[2] {
		t.Errorf("messages of the two backends: %v; want 1 and 2", seen)
	}
}

// A session has its class from where it is decided that it ends.
func TestClassOfEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		by   meter.Party
		code uint16
		want meter.Class
		end  func(r *rig, client, server *wstest.Peer)
	}{
		{"client closes", meter.Client, 1000, meter.Normal, func(_ *rig, client, _ *wstest.Peer) { client.SendClose(1000, "") }},
		{"client's application closes", meter.Client, 4000, meter.Application, func(_ *rig, client, _ *wstest.Peer) { client.SendClose(4000, "") }},
		{"client leaves", meter.Client, 1006, meter.ClientLeft, func(_ *rig, client, _ *wstest.Peer) { _ = client.Close() }},
		{"client breaks the protocol", meter.Client, 1002, meter.ClientError, func(_ *rig, client, _ *wstest.Peer) {
			client.SendBytes([]byte{0xff, 0x80, 0, 0, 0, 0})
		}},
		{"server closes", meter.Server, 1000, meter.Normal, func(_ *rig, _, server *wstest.Peer) { server.SendClose(1000, "") }},
		{"server restarts", meter.Server, 1012, meter.BackendLeft, func(_ *rig, _, server *wstest.Peer) { server.SendClose(1012, "") }},
		{"server has failed", meter.Server, 1011, meter.BackendFailed, func(_ *rig, _, server *wstest.Peer) { server.SendClose(1011, "") }},
		{"server refuses", meter.Server, 1008, meter.BackendRefused, func(_ *rig, _, server *wstest.Peer) { server.SendClose(1008, "") }},
		{"server vanishes", meter.Server, 1011, meter.BackendFailed, func(_ *rig, _, server *wstest.Peer) { server.Reset() }},
		{"proxy ends", meter.Proxy, 1001, meter.Shutdown, func(r *rig, _, _ *wstest.Peer) { r.sessions.EndAll(frame.GoingAway, "enough") }},
		{"limit", meter.Proxy, 1008, meter.Limit, func(r *rig, _, _ *wstest.Peer) { r.on(func(s *Session) { s.deadline.Set(s.client, 1, timeDuration) }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, setup{Profile: "echo"})
			client, server := r.Session()
			c.end(r, client, server)
			for h, err := (frame.Header{}), error(nil); err == nil; h, _, err = client.Next() {
				if h.Opcode == frame.Close && c.by != meter.Client {
					client.SendClose(frame.NormalClosure, "")
				}
			}
			_ = client.Close()
			wstest.Eventually(t, "the end is counted", func() bool { return len(r.counted().Ends) > 0 })
			if got, want := r.counted().Ends[0], meter.NewEnd(c.by, c.code, c.want, 1); got != want {
				t.Errorf("ended by %v with %s as %v; want %v with %s as %v", got.By, got.Code(), got.Class, want.By, want.Code(), want.Class)
			}
		})
	}
}
