package sim

import (
	"encoding/binary"
	"regexp"
	"slices"
	"testing"

	"github.com/coder/websocket"
)

// Two turns over a connection of Azure's, whose messages have headers.
func TestAzure(t *testing.T) {
	c := dial(t, start(t, Options{Protocol: AzureSpeech}))
	tell := func(path, id, body string) {
		say(t, c, websocket.MessageText, []byte("Path:"+path+"\r\nX-RequestId: "+id+"\r\n\r\n"+body))
	}
	audio := func(id string, audio []byte) {
		head := "path: audio\r\nX-RequestId:" + id + "\r\n"
		say(t, c, websocket.MessageBinary, slices.Concat([]byte{0, byte(len(head))}, []byte(head), audio))
	}
	hears := func(want ...string) {
		t.Helper()
		for _, pattern := range want {
			if got := hearText(t, c); !regexp.MustCompile("(?s)" + pattern).MatchString(got) {
				t.Fatalf("got %q; want %s", got, pattern)
			}
		}
	}
	header := append([]byte("RIFF"), make([]byte, 40)...)
	binary.LittleEndian.PutUint32(header[24:], 8000)
	tell("speech.config", "", "{}")
	tell("speech.context", "1", `{"dgi":{"Groups":[{"Type":"Generic","Items":[{"Text":"s7:0"}]}]}}`)
	hears("^X-RequestId:1\r\n.*Path:turn.start\r\n\r\n{\"context\"")
	audio("1", header)
	audio("1", audioOf(t, 7, "1 x100"))
	hears("Path:speech.startDetected", `speech.hypothesis.*{"Text":"s7:1 s7:0","Offset":0,"Duration":1000000}$`)
	audio("1", audioOf(t, 7, "2 pause"))
	hears(`speech.phrase.*"DisplayText":"s7:1-2 s7:0","Offset":0,"Duration":1040000}$`)
	audio("1", nil)
	hears(`speech.endDetected.*{"Offset":1040000}`, "^X-RequestId:1\r\n.*Path:turn.end")
	tell("speech.context", "2", "{}")
	hears("^X-RequestId:2\r\n.*Path:turn.start")
	audio("2", audioOf(t, 7, "3"))
	hears("startDetected", `{"Text":"s7:3","Offset":0,`)
	audio("1", audioOf(t, 7, "4"))
	converse(t, c, 7, "< close 1007")
}
