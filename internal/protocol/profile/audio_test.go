package profile

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

func audioYAML(audio string) string {
	return "profiles: {p: {failover: {verdict: full, audio: {" + audio + `}, answered: {messages: {json: {final: true}}, by: time, times: end, unit: s}}}}`
}

// The client's URL and messages say what bytes of audio mean.
func TestFormat(t *testing.T) {
	const choices = `messages: {opcode: binary}, encoding: {default: s16le, query: encoding, message: config.encoding, names: {linear16: s16le, opus: other}},
		rate: {default: 16000, query: rate, message: config.rate}, channels: {default: 1, query: channels}`
	const caps = `messages: {opcode: binary}, encoding: {default: other, query: ct, within: format, names: {S16LE: s16le}}, rate: {default: 8000, query: ct, within: rate}`
	const mime = `messages: {opcode: binary}, encoding: {default: other, message: ct, within: type, names: {audio/l16: s16le}}, rate: {default: 8000, message: ct, within: rate}`
	for _, c := range []struct{ audio, query, message, want string }{
		{choices, "", "", "s16le 16000 1"},
		{choices, "encoding=linear16&rate=8000&channels=2", "", "s16le 8000 2"},
		{choices, "encoding=mulaw", "", "mulaw 16000 1"},
		{choices, "", `{"config":{"encoding":"alaw","rate":8000}}`, "alaw 8000 1"},
		{choices, "rate=44100", `{"config":{"rate":"48000.0"}}`, "s16le 48000 1"},
		{choices, "", `{"config":{"encoding":"\u0061law"}}`, "alaw 16000 1"},
		{choices, "encoding=opus", "", "compressed"},
		{choices, "encoding=flac", "", "compressed"},
		{choices, "rate=fast", "", "sample rate"},
		{choices, "rate=0", "", "sample rate"},
		{choices, "rate=16000.5", "", "sample rate"},
		{choices, "channels=-1", "", "channels"},
		{choices, "", "not JSON", "s16le 16000 1"},
		{caps, "ct=audio/x-raw,+layout=(string)interleaved,+rate=(int)16000,+format=(string)S16LE", "", "s16le 16000 1"},
		{caps, "ct=audio/x-flac", "", "compressed"},
		{mime, "", `{"ct":"audio/l16; rate=22050"}`, "s16le 22050 1"},
		{mime, "", `{"ct":"AUDIO/L16;rate=\"22050\""}`, "s16le 22050 1"},
		{mime, "", `{"ct":"audio/ogg;codecs=opus"}`, "compressed"},
	} {
		k := NewTracker(mustParse(t, audioYAML(c.audio)), c.query)
		k.Begin(Leg{})
		k.ClientMessage(frame.Text, []byte(c.message), len(c.message))
		if d, n := k.Duration(100), k.Bytes(time.Second); d != 0 || n != 0 {
			t.Errorf("before the first audio: %v, %d", d, n)
		}
		e := k.ClientMessage(frame.Binary, nil, 320)
		if e.Kind != EntryAudio || e.To != 320 {
			t.Errorf("entry: %+v", e)
		}
		encoding, rate, channels := k.Format()
		got := fmt.Sprint(encoding, " ", rate, " ", channels)
		if k.Whole() != "" {
			got = k.Whole()
		} else if n := k.Bytes(time.Second); n != int64(encoding.SampleSize()*rate*channels) || k.Duration(n) != time.Second {
			t.Errorf("a second has %d bytes", n)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.query, c.message, got, c.want)
		}
	}

	k := NewTracker(mustParse(t, audioYAML(choices)), "")
	k.ClientMessage(frame.Binary, nil, 320)
	for _, message := range []string{`{"config":{"rate":16000}}`, `{"config":{"rate":8000}}`} {
		if k.Whole() != "" {
			t.Error(k.Whole())
		}
		k.ClientMessage(frame.Text, []byte(message), len(message))
	}
	if k.Whole() != "the format of the audio changed" {
		t.Error(k.Whole())
	}
}

func TestFormatLimits(t *testing.T) {
	f := format{maxRate, maxChannels, F32LE, true}
	if got := f.bytesFor(math.MaxInt64); got < 0 {
		t.Error(got)
	}
	if got := f.lastsFor(math.MaxInt64, 1e9); got <= 0 {
		t.Error(got)
	}
	f = format{1, 1, U8, true}
	if got := f.lastsFor(math.MaxInt64, 1e9); got != math.MaxInt64 {
		t.Error(got)
	}
	if got := f.lastsFor(-3, 1e6); got != -3e6 {
		t.Error(got)
	}
}

func TestCutBase64(t *testing.T) {
	k := NewTracker(mustParse(t, audioYAML("messages: {json: {type: a}}, base64: audio, encoding: s16le, rate: 16000")), "")
	audio := []byte("\xff\xfe\xfd\xfc-some samples\xfb\xfa\xff\xff\xff")
	for i, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for length := range len(audio) + 1 {
			text := encoding.EncodeToString(audio[:length])
			if length%2 == 0 {
				text = strings.ReplaceAll(strings.ReplaceAll(text, "/", `\/`), "+", `\u002b`)
			}
			payload := []byte(`{"type":"a","audio":"` + text + `","b":"c"}`)
			e := k.ClientMessage(frame.Text, payload, len(payload))
			if int(e.To-e.From) != length || length > 0 != (e.Kind == EntryAudio) {
				t.Fatalf("%s: %+v, want %d bytes", payload, e, length)
			}
			for skip := 0; skip <= length && length > 0; skip++ {
				cut, ok := k.Cut([]byte("x"), e, payload, e.From+Position(skip))
				var m struct{ Type, Audio, B string }
				if !ok || cut[0] != 'x' || json.Unmarshal(cut[1:], &m) != nil || m.Type != "a" || m.B != "c" {
					t.Fatalf("%s without %d bytes is %s", payload, skip, cut)
				}
				if i%2 == 1 && length%3 == 0 { // nothing tells that the client's text would have no padding
					m.Audio = strings.TrimRight(m.Audio, "=")
				}
				if got, err := encoding.DecodeString(m.Audio); err != nil || !bytes.Equal(got, audio[skip:length]) {
					t.Fatalf("%d: %s without %d bytes is %s", i, payload, skip, cut)
				}
			}
		}
	}
	for _, bad := range []string{`{"type":"a","audio":1}`, `{"type":"a","audio":"AAAA","audio":"AAAA"}`} {
		k := NewTracker(mustParse(t, audioYAML("messages: {json: {type: a}}, base64: audio, encoding: s16le, rate: 16000")), "")
		if k.ClientMessage(frame.Text, []byte(bad), len(bad)); k.Whole() == "" {
			t.Errorf("%s can be taken over", bad)
		}
	}
	e := Entry{Kind: EntryAudio, To: 6}
	if cut, ok := k.Cut(nil, e, []byte(`{"type":"a","audio":"A*AA"}`), 1); ok || len(cut) > 0 {
		t.Errorf("cut: %q", cut)
	}
	if _, ok := k.Cut(nil, e, nil, 7); ok {
		t.Error("cut behind the end")
	}
}

func TestFloats(t *testing.T) {
	audio := func(key string, values ...byte) []byte {
		b := msgp.AppendString(msgp.AppendMapHeader(nil, 2), "type")
		b = msgp.AppendString(msgp.AppendString(b, "Audio"), key)
		return append(b, values...)
	}
	for _, c := range []struct {
		payload []byte
		want    int64 // -1: it cannot be told
	}{
		{audio("pcm", 0x92, 0xca, 0, 0, 0, 0, 0x00), 8},
		{audio("pcm", 0xdc, 0, 1, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0), 4},
		{audio("pcm", 0xdd, 0, 0, 0, 1, 0xca, 0, 0, 0, 0), 4},
		{audio("pcm", 0x90), 0},
		{audio("id", 0x07), 0},                                // a marker
		{audio("data", 0xc4, 1, 0), -1},                       // bytes: other audio
		{audio("other", 0x91, 0xca, 0, 0, 0, 0), -1},          // other floats
		{audio("pcm", 0xdd, 0xff, 0xff, 0xff, 0xff, 0), -1},   // more than there are
		{audio("pcm", 0xdd, 0xff), -1},                        // cut off
		{audio("pcm"), -1},                                    //
		{[]byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 'a'}, -1}, // a map of billions
		{[]byte("text"), -1},
		{nil, -1},
	} {
		if got, ok := floatsLength(c.payload, "pcm"); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%x: %d, %v; want %d", c.payload, got, ok, c.want)
		}
	}
	if _, ok := cutFloats(nil, audio("pcm", 0x92, 0xca, 0, 0), "pcm", 8); ok {
		t.Error("a message that is cut off was cut")
	}
}

func TestUsualBytes(t *testing.T) {
	for name, want := range map[string]int{
		"vosk": 16000, "funasr": 32000, "sherpa-onnx": 64000, "one-shot": 0, "kyutai": 24000 * 5, "vllm-realtime": (32000 + 2) / 3 * 4,
	} {
		p, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Failover().UsualBytes(); got != want {
			t.Errorf("%s: %d bytes a second; want %d", name, got, want)
		}
	}
}

// Line breaks in base64, as MIME has them, are no audio.
func TestBrokenBase64(t *testing.T) {
	for _, text := range []string{"AAAA\nBBBB\r\nCCCC", "AAAABB\nBBCCCC\n", "\nAAAABBBBCCA=\n", "AAAA\nBBBBCCA"} {
		for skip, want := range map[int64]string{3: "BBBBCC", 6: "CC"} {
			if cut, ok := cutBase64(nil, text, skip); !ok || !strings.HasPrefix(string(cut), want) {
				t.Errorf("%q without its first %d bytes: %s, %t; want %s...", text, skip, cut, ok, want)
			}
		}
		if audio, ok := appendDecoded(nil, text); !ok || int64(len(audio)) != base64Length([]byte(strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(text)), true) {
			t.Errorf("%q is decoded to %d bytes, %t", text, len(audio), ok)
		}
	}
}
