package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// kyutaiClient speaks MessagePack and tells in a line what it hears, steps aside.
type kyutaiClient struct{ *websocket.Conn }

func (c kyutaiClient) send(t *testing.T, message []byte) {
	t.Helper()
	say(t, c.Conn, websocket.MessageBinary, message)
}

func (c kyutaiClient) audio(t *testing.T, m Mark, bytes int) {
	t.Helper()
	pcm := make([]byte, bytes)
	if m != (Mark{}) {
		pcm = AppendMark(nil, m, bytes/MarkSize)
	}
	c.send(t, AppendKyutaiAudio(nil, pcm))
}

func (c kyutaiClient) hear(t *testing.T) string {
	t.Helper()
	for {
		_, b := hear(t, c.Conn)
		said, rest, err := ReadKyutai(b)
		if err != nil || len(rest) > 0 {
			t.Fatalf("got %x: %v", b, err)
		}
		switch said.Type {
		case "Step", "EndWord":
		case "Word":
			return "Word " + said.Text
		case "Marker":
			return fmt.Sprint("Marker ", said.ID)
		default:
			return strings.TrimSpace(said.Type + " " + said.Message)
		}
	}
}

func (c kyutaiClient) wants(t *testing.T, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if got := c.hear(t); got != want {
			t.Fatalf("got %s; want %s", got, want)
		}
	}
}

// Words have the time of their audio, which counts from Init.
func TestKyutaiTimes(t *testing.T) {
	c := kyutaiClient{dial(t, start(t, Options{Protocol: Kyutai}))}
	c.wants(t, "Ready")
	for round := range 2 {
		for i := range 2 * kyutaiDelay {
			m := Mark{}
			if i%2 == 1 {
				m = Mark{Session: 7, Seq: uint16(i)}
			}
			c.audio(t, m, kyutaiFrame)
		}
		for i := 1; i < kyutaiDelay; i += 2 {
			var word, end KyutaiMessage
			for end.Type != "EndWord" {
				_, b := hear(t, c.Conn)
				word = end
				var err error
				if end, _, err = ReadKyutai(b); err != nil {
					t.Fatal(err)
				}
			}
			begin := float64(i) * 0.08
			if word.Text != fmt.Sprintf("s7:%d", i) || math.Abs(word.Start-begin) > 1e-9 || math.Abs(end.Stop-begin-0.08) > 1e-9 {
				t.Errorf("round %d: got %+v, %+v; want chunk %d at %v", round, word, end, i, begin)
			}
		}
		c.send(t, AppendKyutai(nil, "Init", 0))
		c.wants(t, "Ready")
	}
}

func TestKyutai(t *testing.T) {
	s := start(t, Options{Protocol: Kyutai, Nasty: NastyOptions{Full: 1}})
	c := kyutaiClient{dial(t, s)}
	c.wants(t, "Ready")
	full := kyutaiClient{dial(t, s)}
	full.wants(t, "Error no free channels")
	converse(t, full.Conn, 0, "< close 1000")

	c.audio(t, Mark{Session: 7, Seq: 1}, kyutaiFrame)
	c.audio(t, Mark{Session: 7, Seq: 2}, kyutaiFrame)
	c.send(t, msgp.AppendInt64(msgp.AppendString(AppendKyutai(nil, "Marker", 1), "id"), 300))
	for range kyutaiDelay {
		c.audio(t, Mark{}, kyutaiFrame)
	}
	c.wants(t, "Word s7:1", "Word s7:2", "Marker 300")

	// Init clears the model, but not what is less than a step.
	c.audio(t, Mark{Session: 7, Seq: 3}, kyutaiFrame)
	c.audio(t, Mark{Session: 7, Seq: 4}, kyutaiFrame/2)
	c.send(t, AppendKyutai(nil, "Init", 0))
	c.wants(t, "Ready")
	c.audio(t, Mark{Session: 8, Seq: 1}, kyutaiFrame/2)
	for range kyutaiDelay {
		c.audio(t, Mark{}, kyutaiFrame)
	}
	c.wants(t, "Word s7:4 s8:1")

	c.send(t, []byte{0xc1})
	for {
		if _, _, err := c.Read(wstest.Context(t)); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("after what is no message: %v; want a close with 1000", err)
			}
			break
		}
	}
}
