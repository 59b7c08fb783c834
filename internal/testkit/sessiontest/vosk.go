package sessiontest

import (
	"fmt"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// This file has the messages of a session with Vosk's protocol, the profile of most tests about sessions that outlive their servers.

// VoskConfig is a client's first message.
const VoskConfig = `{"config" : {"sample_rate" : 8000}}`

// VoskSecond is a second of audio in bytes, at 8000 Hz.
const VoskSecond = 16000

// Chunk is an audio message of a tenth of a second, the n-th of those that can be told from others.
func Chunk(n int) string { return strings.Repeat(string(rune('a'+n)), VoskSecond/10) }

// Partial is a server's result that may still change.
func Partial(text string) string { return fmt.Sprintf(`{"partial" : %q}`, text) }

// Final is a server's result for good, with its times in seconds.
func Final(text string, start, end float64) string {
	return fmt.Sprintf(`{"result" : [{"conf" : 1, "end" : %.2f, "start" : %.2f, "word" : %q}], "text" : %q}`, end, start, text, text)
}

// Speak sends an audio message and has the server answer it. The client expects wanted.
func Speak(client, server *wstest.Peer, chunk int, answer, wanted string) {
	client.Send(frame.Binary, Chunk(chunk))
	server.Expect(frame.Binary, Chunk(chunk))
	server.Send(frame.Text, answer)
	client.Expect(frame.Text, wanted)
}
