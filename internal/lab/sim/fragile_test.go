package sim

import (
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// A client that leaves in the middle is counted, and costs a fragile server a place for good. One that leaves after the server's last word,
// or before it has said anything, does not.
func TestFragile(t *testing.T) {
	s := nasty(t, SherpaONNX, "fragile,full:2")
	audio := AppendMark(nil, Mark{Session: 7, Seq: 1}, 20)
	leaves := map[string]func(c *websocket.Conn){
		"nothing said": func(*websocket.Conn) {},
		"in order": func(c *websocket.Conn) {
			say(t, c, websocket.MessageBinary, audio)
			hear(t, c)
			say(t, c, websocket.MessageText, []byte("Done"))
			hear(t, c)
			if got := hearText(t, c); got != "Done!" {
				t.Errorf("got %s", got)
			}
		},
	}
	leave := func(c *websocket.Conn) {
		_ = c.Close(websocket.StatusGoingAway, "")
		wstest.Eventually(t, "it has left", func() bool { return s.Stats().Connections == 0 })
	}
	for range 3 {
		for _, play := range leaves {
			c := dial(t, s)
			play(c)
			leave(c)
		}
	}
	if got := s.Stats(); got.AbruptEnds != 0 || got.Refused != 0 {
		t.Fatalf("%+v", got)
	}
	for _, end := range []func(*websocket.Conn){leave, func(c *websocket.Conn) { _ = c.CloseNow() }} {
		c := dial(t, s)
		say(t, c, websocket.MessageBinary, audio)
		hear(t, c)
		end(c)
	}
	wstest.Eventually(t, "both are counted", func() bool { return s.Stats().AbruptEnds == 2 })
	if _, response, err := websocket.Dial(wstest.Context(t), s.URL(), nil); err == nil || response == nil || response.StatusCode != 503 {
		t.Errorf("a place is free: %v", err)
	}
}
