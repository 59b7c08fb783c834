package sim

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// What is appended is read back the same, whatever the bits of the samples mean.
func TestKyutaiMessages(t *testing.T) {
	pcm := []byte{1, 2, 3, 4, 0xff, 0xff, 0xbf, 0x7f, 0xff, 0xff, 0xff, 0xff} // the last two are no numbers, one of them signalling
	audio := AppendKyutaiAudio(nil, pcm)
	for _, c := range []struct {
		message []byte
		want    KyutaiMessage
	}{
		{audio, KyutaiMessage{Type: "Audio", PCM: pcm}},
		{AppendKyutai(nil, "Init", 0), KyutaiMessage{Type: "Init"}},
		{msgp.AppendInt64(msgp.AppendString(AppendKyutai(nil, "Marker", 1), "id"), -1<<40), KyutaiMessage{Type: "Marker", ID: -1 << 40}},
		{msgp.AppendFloat64(msgp.AppendString(AppendKyutai(nil, "EndWord", 1), "stop_time"), 1.25), KyutaiMessage{Type: "EndWord", Stop: 1.25}},
		// Python's msgpack sends its floats with 64 bits unless told otherwise.
		{unhex(t, "82a474797065a5417564696fa370636d91cb3ff0000000000000"), KyutaiMessage{Type: "Audio", PCM: []byte{0, 0, 0x80, 0x3f}}},
		{unhex(t, "de0001a474797065d904496e6974"), KyutaiMessage{Type: "Init"}},
	} {
		got, rest, err := ReadKyutai(append(c.message, 'z'))
		if err != nil || string(rest) != "z" || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%x: got %+v, %q, %v; want %+v", c.message, got, rest, err, c.want)
		}
	}
	for n := range audio { // cut anywhere
		if m, _, err := ReadKyutai(audio[:n]); err == nil {
			t.Errorf("the first %d bytes are taken for %+v", n, m)
		}
	}
	for _, text := range []string{
		"c1",                       // no type of value
		"91a474797065",             // an array
		"810101",                   // a key that is a number
		"81a370636d92ca3f80000001", // an integer among the samples
		"81a370636dddffffffff",     // 4,294,967,295 samples announced, none there
	} {
		if m, _, err := ReadKyutai(unhex(t, text)); err == nil {
			t.Errorf("%s is taken for %+v", text, m)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkKyutaiAudio(b *testing.B) {
	pcm := make([]byte, kyutaiFrame)
	message := AppendKyutaiAudio(nil, pcm)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			message = AppendKyutaiAudio(message[:0], pcm)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if m, _, err := ReadKyutai(message); err != nil || len(m.PCM) != kyutaiFrame {
				b.Fatal(err)
			}
		}
	})
}
