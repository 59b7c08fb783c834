package profile

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// FuzzParse looks for YAML that breaks the parser, for problems without a place, and for profiles that do not survive being
// printed and read again.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		f.Add(BuiltInYAML(name))
	}
	f.Add([]byte(everyKey))
	refused, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		f.Fatal(err)
	}
	for section := range strings.SplitSeq(string(refused), "\n=== ") {
		_, rest, _ := strings.Cut(section, "\n")
		yaml, _, _ := strings.Cut(rest, "--- refused\n")
		f.Add([]byte(yaml))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse("f.yaml", data, func(string) bool { return false })
		if err != nil {
			if list != nil {
				t.Fatalf("profiles and an error: %v", err)
			}
			for _, p := range err.(Problems) {
				if p.Line < 1 || p.Column < 1 || p.Text == "" {
					t.Fatalf("place of %+v", p)
				}
			}
			return
		}
		for _, p := range list {
			text := p.YAML()
			again, err := parse("again.yaml", text, func(string) bool { return false })
			if err != nil {
				t.Fatalf("%s\nis printed as\n%s\nwhich is refused: %v", data, text, err)
			}
			if len(again) != 1 || !bytes.Equal(again[0].YAML(), text) || again[0].Reuse != p.Reuse {
				t.Fatalf("%s\nis printed as\n%s\nand then as\n%s", data, text, again[0].YAML())
			}
			b := New(p)
			b.Dialed()
		}
	})
}

// fuzzed are connections in the middle of something, to which FuzzMatch presents a message.
var fuzzed = []func(testing.TB) *line{
	func(t testing.TB) *line { // a first message that may set something
		l := builtin(t, "watson")
		l.begin()
		return l
	},
	func(t testing.TB) *line { // a later one
		l := builtin(t, "watson")
		l.begin()
		l.client(frame.Text, watsonStart)
		return l
	},
	func(t testing.TB) *line { // a first message for a server with settings
		l := builtin(t, "vosk")
		voskSession(l, `{"config":1}`)
		for _, answer := range []string{voskFinal, voskPartial, voskFinal} {
			l.server(answer)
		}
		l.begin()
		return l
	},
	func(t testing.TB) *line { // the last answer to a reset
		l := builtin(t, "vosk")
		voskSession(l, "")
		l.server(voskFinal)
		l.server(voskPartial)
		return l
	},
	func(t testing.TB) *line { // what may be another session's
		l := taskDone(t, "1")
		l.begin()
		l.client(frame.Text, runTask("2"))
		return l
	},
	func(t testing.TB) *line { // what may say that the server is full
		l := builtin(t, "whisperlive")
		l.begin()
		l.client(frame.Text, options)
		return l
	},
	func(t testing.TB) *line { // the same, before a session
		return builtin(t, "kaldi-gstreamer")
	},
	func(t testing.TB) *line { // an acknowledgement with a token
		l := idling(t, mustParse(t, "profiles: {p: {from: funasr, unsafe: doubt}}"))
		l.begin()
		l.client(frame.Binary, "audio")
		l.end()
		return l
	},
	func(t testing.TB) *line { // an end message
		l := idling(t, mustParse(t, "profiles: {p: {from: sherpa-onnx, unsafe: quiet}}"))
		l.begin()
		l.client(frame.Binary, "audio")
		return l
	},
}

// FuzzMatch presents any message in any frames and pieces, whose fate must not depend on how it was cut.
func FuzzMatch(f *testing.F) {
	for which := range len(fuzzed) {
		for _, message := range []string{
			watsonStop, watsonStart, `{"action":1,"action":2}`, `{"config":1}`, `{"eof" : 1}`, voskFinal, voskPartial, event("task-finished", "2"),
			event("task-failed", "1"), runTask("1"), serverFull, serverReady, `{"status":9}`, `{"is_end":true,"wav_name":"0123456789abcdef"}`, "Done", "Done!", "",
		} {
			f.Add(uint8(which), true, true, []byte(message), uint32(0x12345678), []byte{3, 0x85, 1, 0, 0x80})
			f.Add(uint8(which), false, true, []byte(message), uint32(0), []byte{1, 1, 0xff})
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, fromClient, text bool, message []byte, key uint32, cuts []byte) {
		d, op := FromServer, frame.Binary
		if fromClient {
			d = FromClient
		}
		if text {
			op = frame.Text
		}
		if !fromClient {
			key = 0 // servers do not mask
		}
		// A cut is the length of a piece; with its highest bit, a frame ends there.
		var frames [][][]byte
		var frame [][]byte
		rest := message
		for _, cut := range cuts {
			n := min(int(cut&0x7f), len(rest))
			frame = append(frame, rest[:n])
			rest = rest[n:]
			if cut&0x80 != 0 {
				frames, frame = append(frames, frame), nil
			}
		}
		frames = append(frames, append(frame, rest))

		start := fuzzed[int(which)%len(fuzzed)]
		whole, cut := start(t), start(t)
		want := whole.pieces(d, op, key, [][][]byte{{message}})
		got := cut.pieces(d, op, key, frames)
		if got != want {
			t.Fatalf("%q in %q: %+v; whole: %+v", message, frames, got, want)
		}
	})
}

// outcome is what became of a message, and of the connection.
type outcome struct {
	then     Then
	reason   Reason
	kept     bool
	passed   string // to the other side
	opening  string
	greeting string
	state    state
	flags    flags
	settings uint64
	sent     int
	counted  [6]uint64
}

// pieces presents a message piece by piece. After the message has ended, the caller presents nothing more.
func (l *line) pieces(d Direction, op frame.Opcode, key uint32, frames [][][]byte) (o outcome) {
	shown := l.b.Inspect(d)&(1<<op) != 0 || d == FromServer && l.b.state >= finishing
	var held string
	var s Step
presenting:
	for i, pieces := range frames {
		last := i == len(frames)-1
		length := 0
		for _, piece := range pieces {
			length += len(piece)
		}
		pass, feed := Relay, false
		if shown {
			s = l.b.Frame(d, op, int64(length), last)
			pass, feed = s.Pass, s.Feed
			switch s.Pass {
			case Keep:
				break presenting
			case Release:
				_, payload, _ := l.b.Held(d)
				o.passed += string(payload)
				pass, held = Relay, ""
			}
			if s.Then != Continue {
				break presenting
			}
		}
		op = frame.Continuation
		at := 0
		for j, piece := range pieces {
			if feed {
				masked := append([]byte(nil), piece...)
				frame.ApplyMask(masked, turned(key, at))
				s = l.b.Feed(d, masked, turned(key, at), last && j == len(pieces)-1)
				pass = s.Pass
			}
			at += len(piece)
			switch pass {
			case Relay:
				o.passed += held + string(piece)
				held = ""
			case Hold:
				held += string(piece)
			case Release:
				_, payload, _ := l.b.Held(d)
				if string(payload) != held+string(piece) {
					l.t.Fatalf("%q is released; held: %q", payload, held+string(piece))
				}
				o.passed += string(payload)
				held = ""
			case Drop:
				held = ""
			}
			if s.Then != Continue {
				break presenting
			}
		}
	}
	o.then, o.reason, o.kept, o.sent = s.Then, s.Reason, s.Pass == Keep, len(s.Send)
	o.opening, o.greeting = string(l.b.Opening().Payload), greetings(&l.b)
	o.state, o.flags, o.settings = l.b.state, l.b.flags, l.b.settings
	if n := l.b.session; n != nil {
		o.counted = [6]uint64{n.withheld, n.unanswered, n.notForClient, n.counted, n.acknowledged, n.expected}
	}
	return o
}

// turned returns the key for the payload's byte at an offset.
func turned(key uint32, offset int) uint32 {
	for range offset & 3 {
		key = key>>8 | key<<24
	}
	return key
}
