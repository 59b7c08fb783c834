//go:build linux && !portableloop

package relay

import (
	"io"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// Keeping audio for another server, and judging results, allocates nothing for a message.
func TestFailoverAllocatesNothing(t *testing.T) {
	if tapAll {
		t.Skip("a tap allocates")
	}
	audio := wstest.ClientFrame(true, frame.Binary, sessiontest.Chunk(0))
	results := [2][]byte{wstest.ServerFrame(true, frame.Text, sessiontest.Final("x", 0, 0)), wstest.ServerFrame(true, frame.Text, sessiontest.Final("y", 0, 0))}
	r := newRig(t, setup{Profile: "vosk", Script: &wstest.Server{Serve: func(p *wstest.Peer) {
		_ = p.SetDeadline(time.Time{})
		got := make([]byte, len(audio))
		for i := 0; ; i++ {
			if _, err := io.ReadFull(p, got); err != nil {
				return
			}
			if _, err := p.Conn.Write(results[i%2]); err != nil {
				return
			}
		}
	}}, Service: func(s *route.Service) { s.Failover, s.ReplayWindow, s.CloseTimeout = true, 15*time.Second, time.Second }})
	client := r.Join()
	_ = client.SetDeadline(time.Time{})
	back := make([]byte, len(results[0]))
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := client.Conn.Write(audio); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(client, back); err != nil {
				b.Fatal(err)
			}
		}
	})
	r.on(func(s *Session) {
		if !s.failover.machine.Recoverable() {
			t.Errorf("the session is not recoverable: %s", s.failover.unrecoverable())
		}
	})
	if n := result.AllocsPerOp(); n > 0 {
		t.Errorf("%v allocations for a message and its result", n)
	}
	t.Logf("%v", result)
}
