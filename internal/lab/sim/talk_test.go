package sim

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// talk holds a conversation with a server, line by line:
//
//	> text           send a text message; "[3]" in it is the audio of session 7's chunk 3 in base64
//	> audio 3        send session 7's chunk 3; "audio 3 pause" with a pause behind it, "audio 3 x100" of 100 blocks,
//	                 "audio 3 x100 pause x20" with a pause behind the first 80 of them
//	> binary text    send a binary message
//	< pattern        receive a message that the regular expression matches
//	< close 1000     see the server close with that code
func talk(t *testing.T, s *Server, path, script string) {
	t.Helper()
	c, _, err := websocket.Dial(wstest.Context(t), s.URL()+path, &websocket.DialOptions{Subprotocols: []string{"binary"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	converse(t, c, 7, script)
}

var inBase64 = regexp.MustCompile(`"\[\d[^]]*\]"`)

// converse continues a conversation as some session.
func converse(t *testing.T, c *websocket.Conn, session uint64, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "> audio "):
			say(t, c, websocket.MessageBinary, audioOf(t, session, strings.TrimPrefix(line, "> audio ")))
		case strings.HasPrefix(line, "> binary"):
			say(t, c, websocket.MessageBinary, []byte(strings.TrimPrefix(strings.TrimPrefix(line, "> binary"), " ")))
		case strings.HasPrefix(line, "> "):
			message := inBase64.ReplaceAllStringFunc(line[2:], func(seq string) string {
				return `"` + base64.StdEncoding.EncodeToString(audioOf(t, session, strings.Trim(seq, `"[]`))) + `"`
			})
			say(t, c, websocket.MessageText, []byte(message))
		case strings.HasPrefix(line, "< close "):
			_, message, err := c.Read(wstest.Context(t))
			if got := fmt.Sprint("< close ", int(websocket.CloseStatus(err))); got != line {
				t.Fatalf("got %s, %v, %s; want %s", got, err, message, line)
			}
		case strings.HasPrefix(line, "< "):
			_, message := hear(t, c)
			if !regexp.MustCompile(line[2:]).Match(message) {
				t.Fatalf("got %s; want %s", message, line)
			}
		default:
			t.Fatalf("what is %q?", line)
		}
	}
}

// audioOf returns audio as the conversation says it: a chunk's number, how many blocks it has, whether the speaker pauses, and how many
// of the blocks are behind the pause.
func audioOf(t *testing.T, session uint64, words string) []byte {
	t.Helper()
	m, blocks, pause, behind := Mark{Session: session}, 4, false, 0
	for i, word := range strings.Fields(words) {
		var err error
		switch {
		case i == 0:
			_, err = fmt.Sscan(word, &m.Seq)
		case word == "pause":
			pause = true
		case pause:
			_, err = fmt.Sscanf(word, "x%d", &behind)
		default:
			_, err = fmt.Sscanf(word, "x%d", &blocks)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !pause {
		return AppendMark(nil, m, blocks)
	}
	paused := m
	paused.Pause = true
	return AppendMark(AppendMark(AppendMark(nil, m, blocks-behind-1), paused, 1), m, behind)
}
