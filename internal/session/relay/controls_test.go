package relay

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
	"github.com/wsbouncer/wsbouncer/internal/wire/loop"
)

// A client that floods the proxy with pings or pongs is ended, gets no more answers than that, and costs its server nothing.
func TestControlFlood(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op      frame.Opcode
		payload string
		back    bool // the client may come back
	}{{op: frame.Ping}, {op: frame.Pong}, {frame.Pong, "r\x00\x00\x00\x00\x00\x00\x00\x00", true}} {
		// The client is no longer read after the end, and the portable driver does not notice then that it leaves.
		r := newRig(t, setup{Service: func(s *route.Service) {
			if s.CloseTimeout = time.Second; c.back {
				reconnects(s)
			}
		}})
		client, server := r.Session()
		client.Send(frame.Text, "hello")
		server.Expect(frame.Text, "hello")
		server.Send(frame.Text, "answer")
		client.Expect(frame.Text, "answer")
		flood := bytes.Repeat(wstest.ClientFrame(true, c.op, c.payload), 1000)
		client.SendBytes(flood)
		client.Send(frame.Text, "still welcome")
		server.Expect(frame.Text, "still welcome")
		go func() { _, _ = client.Conn.Write(flood) }()
		for answers := 0; ; answers++ {
			h, payload, err := client.Next()
			if err == nil && h.Opcode == frame.Pong && answers < 2*1000 {
				continue
			}
			if want := frame.AppendClosePayload(nil, frame.PolicyViolation, "too many control frames"); err != nil || !bytes.Equal(payload, want) {
				t.Errorf("got %v %q, %v behind %d pongs", h.Opcode, payload, err, answers)
			}
			break
		}
		_ = client.Close()
		r.expectRecord(fate{"proxy", frame.PolicyViolation, "too many control frames", "discarded"})
		_ = server.Close()
		r.expectFault(0, "served")
	}
}

// A message that consists of empty frames does not last for ever.
func TestEmptyFrames(t *testing.T) {
	r := newRig(t, setup{})
	client, server := r.Session()
	client.SendBytes(wstest.ClientFrame(false, frame.Binary, "x"), bytes.Repeat(wstest.ClientFrame(false, frame.Continuation, ""), 1001))
	client.ExpectClose(frame.PolicyViolation, frame.ErrEmptyFrames.Reason)
	_, _ = client.Close(), server.Close()
	r.expectRecord(fate{"client", frame.PolicyViolation, frame.ErrEmptyFrames.Reason, "discarded"})
}

// A client may send control frames for ever, if it does not send very many at a time.
func TestControlsOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := loop.Now()
		for _, step := range []time.Duration{15 * time.Second, 11 * time.Millisecond, 10*time.Millisecond + 20*time.Microsecond} {
			var c limits.Controls
			for i := range 5 * 1000 {
				if c.Exceeded(route.Now) {
					t.Fatalf("one each %v: too many after %d", step, i)
				}
				time.Sleep(step)
			}
		}
		var c limits.Controls
		count := 0
		for !c.Exceeded(route.Now) {
			count++
			time.Sleep(9 * time.Millisecond)
		}
		if count != 1000 {
			t.Errorf("ended after %d; want %d", count, 1000)
		}
		if loop.Now() == start {
			t.Error("the clock stands still")
		}
	})
}

// A client that keeps sending after the end of its session is not read for ever.
func TestFloodAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, last := range map[string][]byte{
		"it closed":          wstest.ClientFrame(true, frame.Close, "\x03\xe8"),
		"it broke a rule":    wstest.ServerFrame(true, frame.Text, "not masked"),
		"the proxy ended it": bytes.Repeat(wstest.ClientFrame(true, frame.Ping, ""), 1000+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{Service: func(s *route.Service) { s.CloseTimeout = 2 * time.Second }})
			client, server := r.Session()
			client.SendBytes(last)
			flood := bytes.Repeat(wstest.ClientFrame(true, frame.Ping, ""), 10_000)
			sent := 0
			_ = client.Conn.SetWriteDeadline(time.Now().Add(time.Second))
			for {
				n, err := client.Conn.Write(flood)
				if sent += n; err != nil || sent > 128<<20 {
					break
				}
			}
			if sent > 128<<20 { // the buffers of the kernel take some of it
				t.Errorf("the proxy reads on: %d bytes", sent)
			}
			_, _ = client.Close(), server.Close()
		})
	}
}
