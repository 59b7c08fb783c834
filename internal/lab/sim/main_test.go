package sim

import (
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// No server, client or loop of a test may outlive it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server for the time of the test.
func start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// dial connects for the time of the test.
func dial(t testing.TB, s *Server) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(wstest.Context(t), s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// say sends a message.
func say(t testing.TB, c *websocket.Conn, kind websocket.MessageType, message []byte) {
	t.Helper()
	if err := c.Write(wstest.Context(t), kind, message); err != nil {
		t.Fatal(err)
	}
}

// hear receives a message.
func hear(t testing.TB, c *websocket.Conn) (websocket.MessageType, []byte) {
	t.Helper()
	kind, message, err := c.Read(wstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return kind, message
}

// hearText receives a text message.
func hearText(t testing.TB, c *websocket.Conn) string {
	t.Helper()
	kind, message := hear(t, c)
	if kind != websocket.MessageText {
		t.Fatalf("got a %v message, %.40q; want text", kind, message)
	}
	return string(message)
}
