package profile

import (
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// streamingIn returns a connection in the middle of a session: the client streams audio, the server has answered.
func streamingIn(tb testing.TB, name string) *Boundary {
	tb.Helper()
	yaml := "profiles: {p: {from: " + name + "}}"
	if name == "funasr" {
		yaml = "profiles: {p: {from: funasr, unsafe: doubt}}"
	}
	b := New(mustParse(tb, yaml))
	b.Dialed()
	b.Begin(testToken)
	say := func(d Direction, op frame.Opcode, payload string) {
		if b.Inspect(d)&(1<<op) != 0 {
			if s := b.Frame(d, op, int64(len(payload)), true); s.Feed {
				b.Feed(d, []byte(payload), 0, true)
			}
		}
	}
	switch name {
	case "funasr":
		say(FromClient, frame.Text, `{"is_speaking":true}`)
	case "dashscope":
		say(FromClient, frame.Text, runTask("1"))
		say(FromServer, frame.Text, event("task-started", "1"))
	}
	say(FromClient, frame.Binary, strings.Repeat("a", 3200))
	return &b
}

var audioProfiles = []string{"echo", "vosk", "funasr", "dashscope"}

// In a session that streams, audio is not presented, so that it costs a call of Inspect and nothing else.
func TestAudioIsNotInspected(t *testing.T) {
	for _, name := range audioProfiles {
		b := streamingIn(t, name)
		if b.Inspect(FromClient)&1<<frame.Binary != 0 {
			t.Errorf("%s: audio is inspected", name)
		}
		if n := testing.AllocsPerRun(100, func() { audioFrame(b) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// audioFrame does what a caller does for a frame of 3,200 bytes of audio.
func audioFrame(b *Boundary) (presented int) {
	if b.Inspect(FromClient)&1<<frame.Binary != 0 {
		b.Frame(FromClient, frame.Binary, 3200, true)
		presented++
	}
	return presented
}

// A frame of audio from the client, 3,200 bytes, in a session that streams.
func BenchmarkAudio(b *testing.B) {
	for _, name := range audioProfiles {
		b.Run(name, func(b *testing.B) {
			boundary := streamingIn(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if audioFrame(boundary) != 0 {
					b.Fatal("presented")
				}
			}
		})
	}
}

// A result from the server in a session that streams: presented only where the profile has to tell whose it is.
func BenchmarkResult(b *testing.B) {
	for _, name := range append(audioProfiles, "watson") {
		b.Run(name, func(b *testing.B) {
			boundary := streamingIn(b, name)
			payload := []byte(`{"header":{"task_id":"1","event":"result-generated","attributes":{}},"payload":{"output":{"sentence":{"begin_time":170,"end_time":null,"text":"the quick brown fox","words":[{"begin_time":170,"end_time":295,"text":"the","punctuation":""}]}},"usage":null}}`)
			b.ReportAllocs()
			for b.Loop() {
				if boundary.Inspect(FromServer)&1<<frame.Text == 0 {
					continue
				}
				if s := boundary.Frame(FromServer, frame.Text, int64(len(payload)), true); s.Feed {
					if s = boundary.Feed(FromServer, payload, 0, true); s.Pass != Relay {
						b.Fatalf("%+v", s)
					}
				}
			}
		})
	}
}

// A whole session with its reset: Begin, one message each way, End, and the answers to the reset.
func BenchmarkSession(b *testing.B) {
	p := mustParse(b, "profiles: {p: {from: vosk}}")
	boundary := New(p)
	boundary.Dialed()
	partial, final := []byte(voskPartial), []byte(voskFinal)
	b.ReportAllocs()
	for b.Loop() {
		boundary.Begin(testToken)
		if s := boundary.Frame(FromClient, frame.Binary, 3200, true); s.Feed {
			boundary.Feed(FromClient, partial, 0, true)
		}
		boundary.End(Traffic{Sent: 1, Received: 1})
		for _, answer := range [][]byte{final, partial, final} {
			boundary.Frame(FromServer, frame.Text, int64(len(answer)), true)
			boundary.Feed(FromServer, answer, 0, true)
		}
		if boundary.state != idle {
			b.Fatal("not ready")
		}
	}
}
