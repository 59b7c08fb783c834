package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// echoes are the two ways in which a server echoes: pieces of frames as they come, and whole messages.
var echoes = map[string]Options{
	"cut-through": {},
	"whole":       {Latency: time.Microsecond},
	"immediate":   {Fail: FailOptions{Greeting: false, Stall: 1e-300}}, // whole messages without a queue
}

func forEachEcho(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range echoes {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

var sizes = []int{0, 1, 2, 124, 125, 126, 127, 1000, 1 << 10, 65535, 65536, 65537, 200_000, 1 << 20, 8 << 20}

func TestEchoSizes(t *testing.T) {
	forEachEcho(t, func(t *testing.T, o Options) {
		s := start(t, o)
		c := dial(t, s)
		for _, n := range sizes {
			for _, kind := range []websocket.MessageType{websocket.MessageBinary, websocket.MessageText} {
				want := wstest.Noise(byte(n), n)
				if kind == websocket.MessageText {
					want = bytes.Repeat([]byte("ä"), n/2)
				}
				// From a goroutine: a large message does not fit into the buffers of the sockets.
				sent := make(chan error, 1)
				go func() { sent <- c.Write(wstest.Context(t), kind, want) }()
				gotKind, got := hear(t, c)
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
				if gotKind != kind || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes of %v came back as %d bytes of %v", len(want), kind, len(got), gotKind)
				}
			}
		}
		if err := c.Close(websocket.StatusNormalClosure, "enough"); err != nil {
			t.Errorf("closing: %v", err)
		}
		if got, want := s.Stats().Messages, uint64(2*len(sizes)); got != want {
			t.Errorf("%d messages counted; want %d", got, want)
		}
	})
}

// A fragmented message with pings between its fragments, from a client that answers nothing by itself.
func TestEchoFragments(t *testing.T) {
	forEachEcho(t, func(t *testing.T, o Options) {
		s := start(t, o)
		c, _, err := gorilla.DefaultDialer.Dial(s.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetReadDeadline(wstest.Deadline())
		var pongs []string
		c.SetPongHandler(func(text string) error { pongs = append(pongs, text); return nil })
		w, err := c.NextWriter(gorilla.BinaryMessage)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for i := range 20 {
			part := wstest.Noise(byte(i), i*777) // the client's buffer holds 4096 bytes: more are sent as a fragment
			want = append(want, part...)
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
			if err := c.WriteControl(gorilla.PingMessage, fmt.Append(nil, i), wstest.Deadline()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		kind, got, err := c.ReadMessage()
		if err != nil || kind != gorilla.BinaryMessage || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes came back as %d of kind %d, %v", len(want), len(got), kind, err)
		}
		if got, want := strings.Join(pongs, " "), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"; got != want {
			t.Errorf("pongs: %s; want %s", got, want)
		}
	})
}

// Frames of all kinds, cut everywhere: the answers do not depend on where.
func TestEchoOfCutStream(t *testing.T) {
	stream, want := script()
	forEachEcho(t, func(t *testing.T, o Options) {
		if o.Latency > 0 {
			t.Skip("answers that are not due when the client closes are not sent")
		}
		s := start(t, o)
		for _, cut := range []int{1, 2, 3, 5, 7, 13, 64, len(stream)} {
			c := dialRaw(t, s)
			for i := 0; i < len(stream); i += cut {
				c.SendBytes(stream[i:min(i+cut, len(stream))])
			}
			got, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			if text := describe(t, got); text != want {
				t.Errorf("cut into pieces of %d: got\n%s\nwant\n%s", cut, text, want)
			}
		}
	})
}

// A client that sends and does not read stops being read from, and loses nothing when it reads again.
func TestEchoBackpressure(t *testing.T) {
	forEachEcho(t, func(t *testing.T, o Options) {
		s := start(t, o)
		c := dialRaw(t, s)
		// Without an end: the client stops when the server has stopped reading for good.
		message := wstest.ClientFrame(true, binaryFrame, wstest.Noise(1, 50_000))
		stop, sent := make(chan struct{}), make(chan int)
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					sent <- n
					return
				default:
				}
				if _, err := c.Write(message); err != nil {
					t.Error(err)
				}
			}
		}()
		const most = maxQueuedBytes + 4*64<<10
		wstest.Eventually(t, "the server has bytes to send that the client does not read", func() bool {
			pending, queued := kept(s)
			if pending+queued > most {
				t.Fatalf("%d bytes unsent and %d queued", pending, queued)
			}
			return pending > 0
		})
		for range 100 { // looks, while the client fills what the kernel still takes
			if pending, queued := kept(s); pending+queued > most {
				t.Fatalf("%d bytes unsent and %d queued", pending, queued)
			}
		}
		close(stop)
		echoed, done := make(chan error), make(chan struct{})
		defer close(done)
		go func() {
			back, want := make([]byte, len(message)-4), wstest.Noise(1, 50_000)
			for {
				_, err := io.ReadFull(c, back)
				if err == nil && !bytes.Equal(back[4:], want) {
					err = errors.New("a message came back changed")
				}
				select {
				case echoed <- err:
				case <-done:
					return
				}
			}
		}()
		for got, n := 0, -1; got != n; {
			select {
			case n = <-sent:
			case err := <-echoed:
				if err != nil {
					t.Fatalf("after %d messages: %v", got, err)
				}
				got++
			}
		}
	})
}

// kept returns what a server holds of its connections' answers, in bytes.
func kept(s *Server) (pending, queued int) {
	for i, l := range s.group.Loops() {
		l.Call(func() {
			for k := range s.lanes[i].conns {
				pending += k.socket.Pending()
				if k.replies != nil {
					queued += k.replies.queue.bytes
				}
			}
		})
	}
	return pending, queued
}

func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := start(b, Options{})
			c := dialRaw(b, s)
			message := wstest.ClientFrame(true, binaryFrame, wstest.Noise(byte(size), size))
			back := make([]byte, size+serverHeader(size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, sent := c.Write(message)
				if _, err := io.ReadFull(c, back); err != nil || sent != nil {
					b.Fatal(sent, err)
				}
			}
		})
	}
}
