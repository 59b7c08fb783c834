package sim

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// failing starts an echo server that fails.
func failing(t *testing.T, list string) *Server {
	t.Helper()
	f, err := ParseFail(list)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, Options{Fail: f})
}

func TestFailRefuse(t *testing.T) {
	s := failing(t, "refuse")
	_, response := request(t, s, wstest.UpgradeRequest("/"))
	if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
		t.Errorf("got %s with %v", response.Status, response.Header)
	}
	if stats := s.Stats(); stats.Refused != 1 || stats.Accepted != 0 {
		t.Errorf("got %+v", stats)
	}
}

func TestFailPoison(t *testing.T) {
	s := failing(t, "poison")
	c := dialRaw(t, s)
	c.SendBytes(append(wstest.ClientFrame(true, frame.Text, []byte("hello")), wstest.ClientFrame(true, frame.Binary, []byte("a poison "))...))
	got, err := io.ReadAll(c)
	if want := "\x81\x05hello\x88\x08\x03\xf3poison"; string(got) != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestFailReset(t *testing.T) {
	s := failing(t, "reset:1")
	c := dialRaw(t, s)
	c.SendBytes(wstest.ClientFrame(true, frame.Text, []byte("hello")))
	got, err := io.ReadAll(c)
	if len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %q, %v; want a reset", got, err)
	}
	if stats := s.Stats(); stats.Connections != 0 {
		t.Errorf("got %+v", stats)
	}
}

// A server that may reset connections still ends others in order.
func TestFailResetSparesOthers(t *testing.T) {
	s := failing(t, "reset:1")
	c := dialRaw(t, s)
	c.SendBytes(wstest.ClientFrame(true, frame.Close, []byte("\x03\xe8")))
	got, err := io.ReadAll(c)
	if want := "\x88\x02\x03\xe8"; string(got) != want || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestFailClose(t *testing.T) {
	s := failing(t, "close:1013:1")
	c := dial(t, s)
	say(t, c, websocket.MessageText, []byte("hello"))
	if _, _, err := c.Read(wstest.Context(t)); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("got %v; want 1013", err)
	}
}

// A server that hangs answers nothing, but notices that the client has gone.
func TestFailStall(t *testing.T) {
	s := failing(t, "stall:1,greeting,chatter:1ms")
	c := dialRaw(t, s)
	// Together, so that no chatter comes between; what follows the greeting would come after the first message.
	c.SendBytes(wstest.ClientFrame(true, frame.Text, "hello"), wstest.ClientFrame(true, frame.Ping, ""),
		wstest.ClientFrame(true, frame.Text, "hello"), wstest.ClientFrame(true, frame.Close, ""))
	wstest.Eventually(t, "both messages arrive", func() bool { return s.Stats().Messages == 2 })
	if err := c.TCP().CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for rest := got; len(rest) > 0; {
		h, size, _ := frame.ParseHeader(rest)
		text := string(rest[size : size+int(h.Length)])
		rest = rest[size+int(h.Length):]
		if !strings.HasPrefix(text, `{"chatter"`) { // before the message arrived
			said = append(said, text)
		}
	}
	if got := strings.Join(said, " "); got != `{"greeting" : "hello"}` {
		t.Errorf("got %s", got)
	}
	wstest.Eventually(t, "the connection ends", func() bool { return s.Stats().Connections == 0 })
}

func TestFailMidFrame(t *testing.T) {
	for _, n := range []int{0, 1, 100, 100_000} {
		s := failing(t, "midframe:1")
		c := dialRaw(t, s)
		c.SendBytes(wstest.ClientFrame(true, frame.Binary, wstest.Noise(byte(n), n)))
		got, err := io.ReadAll(c)
		whole := wstest.ServerFrame(true, frame.Binary, wstest.Noise(byte(n), n))
		if err != nil || string(got) != string(whole[:(len(whole)+1)/2]) {
			t.Errorf("%d bytes: got %d of %d bytes, %v", n, len(got), len(whole), err)
		}
		wstest.Eventually(t, "the connection ends", func() bool { return s.Stats().Connections == 0 })
	}
}

func TestFailGreeting(t *testing.T) {
	s := failing(t, "greeting")
	c := dial(t, s)
	if got := hearText(t, c); got != `{"greeting" : "hello"}` {
		t.Errorf("got %s", got)
	}
	say(t, c, websocket.MessageText, []byte("hello"))
	if got := hearText(t, c); got != "hello" {
		t.Errorf("got %s", got)
	}
}

func TestFailLate(t *testing.T) {
	s := failing(t, "late:1:1ms")
	c := dial(t, s)
	for i := 1; i <= 3; i++ {
		say(t, c, websocket.MessageText, []byte("hello"))
		for _, want := range []string{"hello", fmt.Sprintf(`{"late" : %d}`, i)} {
			if got := hearText(t, c); got != want {
				t.Fatalf("got %s; want %s", got, want)
			}
		}
	}
}

func TestFailChatter(t *testing.T) {
	s := failing(t, "chatter:1ms")
	c := dial(t, s)
	for i := 1; i <= 5; i++ {
		if got, want := hearText(t, c), fmt.Sprintf(`{"chatter" : %d}`, i); got != want {
			t.Fatalf("got %s; want %s", got, want)
		}
	}
}

// The same seed brings the same failures.
func TestFailSeed(t *testing.T) {
	fates := func(seed uint64) string {
		s := start(t, Options{Seed: seed, Fail: FailOptions{Refuse: 0.2, Reset: 0.1, MidFrame: 0.1, Close: 0.1, CloseCode: 1011}})
		defer s.Close()
		var b strings.Builder
		for range 20 {
			c, response := request(t, s, wstest.UpgradeRequest("/"))
			if response.StatusCode != 101 {
				b.WriteString("refused ")
				continue
			}
			for answered := 0; ; answered++ {
				c.SendBytes(wstest.ClientFrame(true, frame.Text, []byte("hello")))
				var back [7]byte
				if n, err := io.ReadFull(c, back[:]); err != nil || back[0] != 0x81 {
					fmt.Fprintf(&b, "%d:%x:%v ", answered, back[:n], errors.Is(err, syscall.ECONNRESET))
					break
				}
			}
			_ = c.Close()
		}
		return b.String()
	}
	first := fates(1)
	if again := fates(1); again != first {
		t.Errorf("the same seed gave\n%s\nand\n%s", first, again)
	}
	if other := fates(2); other == first {
		t.Errorf("another seed gave the same: %s", other)
	}
}
