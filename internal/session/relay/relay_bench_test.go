package relay

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// circle is a running session in which a message goes to the server and comes back, with nothing allocated at the ends.
type circle struct {
	rig       *rig
	client    *wstest.Peer
	out, back []byte
	got       []byte
}

func newCircle(t testing.TB, size int, change ...func(*route.Service)) *circle {
	payload := wstest.Noise(1, size)
	out := wstest.ClientFrame(true, frame.Binary, payload)
	back := wstest.ServerFrame(true, frame.Binary, payload)
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: func(p *wstest.Peer) {
		_ = p.SetDeadline(time.Time{})
		got := make([]byte, len(out))
		for {
			if _, err := io.ReadFull(p, got); err != nil {
				return
			}
			if _, err := p.Conn.Write(back); err != nil {
				return
			}
		}
	}}, Service: func(s *route.Service) {
		s.CloseTimeout = time.Second
		for _, f := range change {
			f(s)
		}
	}})
	client := r.Join()
	_ = client.SetDeadline(time.Time{})
	return &circle{rig: r, client: client, out: out, back: back, got: make([]byte, len(back))}
}

// run sends one message round.
func (c *circle) run() error {
	if _, err := c.client.Conn.Write(c.out); err != nil {
		return err
	}
	_, err := io.ReadFull(c.client, c.got)
	if err == nil && c.got[0] == 0x80|byte(frame.Ping) { // of a session whose client may come back
		return c.answerPing()
	}
	return err
}

// answerPing answers a ping that has come before a message, and reads the end of that.
func (c *circle) answerPing() error {
	const size = 2 + 9
	if _, err := c.client.Conn.Write(wstest.ClientFrame(true, frame.Pong, c.got[2:size])); err != nil {
		return err
	}
	n := copy(c.got, c.got[size:])
	_, err := io.ReadFull(c.client, c.got[n:])
	return err
}

// BenchmarkSessionRelay measures one message from the client to the backend and back, with the work of both ends.
func BenchmarkSessionRelay(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := newCircle(b, size)
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReconnectRelay measures the same in sessions whose clients may come back, and who answer pings, and in sessions whose clients may not.
func BenchmarkReconnectRelay(b *testing.B) {
	for _, size := range []int{64, 1 << 10} {
		for _, on := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/%t", size, on), func(b *testing.B) {
				var change []func(*route.Service)
				if on {
					change = append(change, reconnects)
				}
				c := newCircle(b, size, change...)
				b.SetBytes(int64(2 * size))
				b.ReportAllocs()
				for b.Loop() {
					if err := c.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkTappedRelay measures the same while the session is tapped, and after that.
func BenchmarkTappedRelay(b *testing.B) {
	const size = 1 << 10
	for _, ended := range []bool{false, true} {
		b.Run(map[bool]string{false: "tapped", true: "afterwards"}[ended], func(b *testing.B) {
			c := newCircle(b, size)
			tap := c.rig.tapRunning(0)
			var reader sync.WaitGroup
			reader.Go(func() {
				for more := true; more; {
					_, more, _ = tap.tap.Next(context.Background())
				}
			})
			if ended {
				tap.tap.Close()
			}
			b.SetBytes(2 * size)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
			tap.tap.Close()
			reader.Wait()
		})
	}
}
