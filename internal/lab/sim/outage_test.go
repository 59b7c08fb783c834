package sim

import (
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// expectCutOff checks that the server's bytes end in the middle of a frame.
func expectCutOff(t *testing.T, c io.Reader) {
	t.Helper()
	got, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	for rest := got; ; {
		h, size, err := frame.ParseHeader(rest)
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 || int64(len(rest)-size) < h.Length {
			if len(rest) == 0 && cutsFrames {
				t.Errorf("the stream ends between frames: %q", got)
			}
			return
		}
		rest = rest[size+int(h.Length):]
	}
}

// awaitPong waits until the connection is on its loop: it may get there later than the client gets its 101.
func awaitPong(c *wstest.Peer) {
	c.SendBytes(wstest.ClientFrame(true, frame.Ping, "there?"))
	c.ExpectBytes([]byte("\x8a\x06there?"))
}

func expectRefused(t *testing.T, s *Server) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err == nil {
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialing a dead server: %v; want it refused", err)
	}
}

func TestKill(t *testing.T) {
	for _, protocol := range []string{Echo, Vosk} {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, Options{Protocol: protocol, Loops: 2})
			c, other, hung := dialRaw(t, s), dialRaw(t, s), wstest.Dial(t, s.Addr().String(), "GET / HTTP/1.1\r\n")
			c.SendBytes(wstest.ClientFrame(true, frame.Binary, "audio"))
			if _, _, err := c.Next(); err != nil {
				t.Fatal(err)
			}
			awaitPong(other)
			s.Kill()
			s.Kill()
			expectCutOff(t, c)
			expectCutOff(t, other)
			if got, err := io.ReadAll(hung); len(got) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a handshake under way: got %q, %v; want its end", got, err)
			}
			expectRefused(t, s)
			if stats := s.Stats(); stats.Connections != 0 {
				t.Errorf("%d connections after the end", stats.Connections)
			}
			for range 2 {
				if err := s.Revive(); err != nil {
					t.Fatal(err)
				}
			}
			c = dialRaw(t, s)
			c.SendBytes(wstest.ClientFrame(true, frame.Binary, "audio"))
			if _, _, err := c.Next(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that is closed stays so, and one that is dead can be closed.
func TestReviveClosed(t *testing.T) {
	s := start(t, Options{})
	s.Kill()
	s.Close()
	if err := s.Revive(); !errors.Is(err, errClosed) {
		t.Errorf("got %v; want %v", err, errClosed)
	}
	s.Kill()
}

func TestFailOOM(t *testing.T) {
	s := failing(t, "oom:1:50ms")
	c, other := dialRaw(t, s), dialRaw(t, s)
	awaitPong(other)
	c.SendBytes(wstest.ClientFrame(true, frame.Text, "hello"))
	expectCutOff(t, c)
	expectCutOff(t, other)
	wstest.Eventually(t, "the server is back", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	dialRaw(t, s)
}

// A server that hangs greets, answers pings and closes, and nothing else. Later it answers what it has got.
func TestStall(t *testing.T) {
	s := start(t, Options{Protocol: Vosk})
	c, leaves := dialRaw(t, s), dialRaw(t, s)
	s.Stall()
	c.SendBytes(wstest.ClientFrame(true, frame.Binary, AppendMark(nil, Mark{Session: 7, Seq: 1}, 20)))
	c.SendBytes(wstest.ClientFrame(true, frame.Text, voskReset))
	c.SendBytes(wstest.ClientFrame(true, frame.Ping, "there?"))
	c.ExpectBytes([]byte("\x8a\x06there?"))
	leaves.SendBytes(wstest.ClientFrame(true, frame.Binary, "audio"), wstest.ClientFrame(true, frame.Close, "\x03\xe8"))
	if got, err := io.ReadAll(leaves); string(got) != "\x88\x02\x03\xe8" || err != nil {
		t.Errorf("got %q, %v; want a close", got, err)
	}
	s.Resume()
	for _, want := range []string{"partial", "text"} {
		if _, payload, err := c.Next(); err != nil || !strings.Contains(string(payload), want) || !strings.Contains(string(payload), "s7:1") {
			t.Errorf("got %s, %v; want %s of chunk 1", payload, err, want)
		}
	}
	greeted := start(t, Options{Protocol: WhisperLiveKit})
	greeted.Stall()
	talk(t, greeted, "/", `< "type":"config"`)
}

// While it hangs, a server keeps only so much of what comes.
func TestStallBounded(t *testing.T) {
	s := start(t, Options{Protocol: Vosk})
	s.Stall()
	c := dialRaw(t, s)
	audio := wstest.ClientFrame(true, frame.Binary, wstest.Noise(1, 64<<10))
	if err := c.TCP().SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for range 1000 { // 64 MB: far more than sockets hold
		if _, err := c.TCP().Write(audio); err != nil {
			if stats := s.Stats(); stats.Messages > 20 {
				t.Errorf("%d messages of 64 KiB were taken", stats.Messages)
			}
			return
		}
	}
	t.Error("a server that hangs read 64 MB")
}

// A dead server's successor does not hang. An echo server that hangs reads nothing.
func TestStallEnds(t *testing.T) {
	s := start(t, Options{})
	s.Stall()
	c := dialRaw(t, s)
	c.SendBytes(wstest.ClientFrame(true, frame.Text, "hello"))
	before := dialRaw(t, s)
	if stats := s.Stats(); stats.Messages > 0 {
		t.Errorf("%d messages were read", stats.Messages)
	}
	s.Resume()
	c.Expect(frame.Text, "hello")
	awaitPong(before)
	s.Stall()
	s.Kill()
	expectCutOff(t, before)
	if err := s.Revive(); err != nil {
		t.Fatal(err)
	}
	c = dialRaw(t, s)
	c.SendBytes(wstest.ClientFrame(true, frame.Text, "hello"))
	c.Expect(frame.Text, "hello")
}

// A slow server answers audio so much later that it falls behind, and in order.
func TestSlow(t *testing.T) {
	s := start(t, Options{Protocol: Vosk, Fail: FailOptions{Slow: 0.5}})
	c := dialRaw(t, s)
	begin := now()
	for seq := range 4 { // 400 ms of audio
		c.SendBytes(wstest.ClientFrame(true, frame.Binary, AppendMark(nil, Mark{Session: 7, Seq: uint16(seq + 1)}, 200)))
	}
	for _, want := range []string{"s7:1\"", "s7:1-2", "s7:1-3", "s7:1-4"} {
		if _, payload, err := c.Next(); err != nil || !strings.Contains(string(payload), want) {
			t.Fatalf("got %s, %v; want %s", payload, err, want)
		}
	}
	if took := now() - begin; took < 200*ms {
		t.Errorf("400 ms of audio were answered after %v by a server that needs half a second for a second", took)
	}
	s.Slow(0)
	c.SendBytes(wstest.ClientFrame(true, frame.Binary, AppendMark(nil, Mark{Session: 7, Seq: 5}, 200)))
	if _, payload, err := c.Next(); err != nil || !strings.Contains(string(payload), "s7:1-5") {
		t.Fatalf("got %s, %v", payload, err)
	}
}

// Every protocol but echo says how much audio it has heard, which a slow server goes by.
func TestLength(t *testing.T) {
	for _, p := range protocols {
		if p.Name == Echo {
			continue
		}
		request := httptest.NewRequest("GET", "/", nil)
		if _, ok := p.new(request).(interface{ length() time.Duration }); !ok {
			t.Errorf("%s: no length", p.Name)
		}
	}
}

// Connections of a slow server that share a core wait for one another.
func TestSlowCores(t *testing.T) {
	s := start(t, Options{Protocol: Vosk, Fail: FailOptions{Slow: 0.5, Cores: 1}})
	begin := now()
	first, second := dialRaw(t, s), dialRaw(t, s)
	audio := wstest.ClientFrame(true, frame.Binary, make([]byte, 6400)) // 200 ms
	first.SendBytes(audio, audio)
	second.SendBytes(audio)
	for _, c := range []*wstest.Peer{first, first, second} {
		if _, _, err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if took := now() - begin; took < 300*ms {
		t.Errorf("600 ms of audio were answered after %v by one core that needs half a second for a second", took)
	}
}

// A server for two streams is behind by half of the time with three: three pieces of 200 ms take 300 ms.
func TestStreams(t *testing.T) {
	s := start(t, Options{Protocol: Vosk, Fail: FailOptions{Streams: 2, Law: slowStart}})
	s.cores.worked = 5 * time.Second // its start is over
	begin := now()
	peers := []*wstest.Peer{dialRaw(t, s), dialRaw(t, s), dialRaw(t, s)}
	for _, c := range peers {
		c.SendBytes(wstest.ClientFrame(true, frame.Binary, make([]byte, 6400)))
	}
	for _, c := range peers {
		if _, _, err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if took := now() - begin; took < 300*ms {
		t.Errorf("600 ms of audio of three streams were answered after %v by a server for two", took)
	}
}
