package wav

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// format is a chunk "fmt " without its header.
func format(tag uint16, channels uint16, rate uint32, bits uint16) []byte {
	b := binary.LittleEndian.AppendUint16(nil, tag)
	b = binary.LittleEndian.AppendUint16(b, channels)
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = binary.LittleEndian.AppendUint32(b, rate*uint32(channels)*uint32(bits)/8)
	b = binary.LittleEndian.AppendUint16(b, channels*bits/8)
	return binary.LittleEndian.AppendUint16(b, bits)
}

// extensible is the long form of the chunk.
func extensible(sub uint16, tail string) []byte {
	b := format(formatExtensible, 1, 16000, 16)
	b = append(b, 22, 0, 16, 0, 4, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, sub)
	return append(b, tail...)
}

func chunk(name string, body []byte) []byte {
	b := append([]byte(name), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(body)))
	b = append(b, body...)
	if len(body)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

func file(chunks ...[]byte) []byte {
	body := append([]byte("WAVE"), bytes.Join(chunks, nil)...)
	return chunk("RIFF", body)
}

func TestParse(t *testing.T) {
	pcm := []byte{1, 2, 3, 4}
	mono := chunk("fmt ", format(formatPCM, 1, 16000, 16))
	data := chunk("data", pcm)
	for _, test := range []struct {
		name     string
		file     []byte
		channels int
		rate     int
	}{
		{"mono", file(mono, data), 1, 16000},
		{"stereo", file(chunk("fmt ", format(formatPCM, 2, 44100, 16)), data), 2, 44100},
		{"extra chunks", file(chunk("LIST", []byte("INFOabcd")), mono, chunk("fact", pcm), data, chunk("LIST", pcm)), 1, 16000},
		{"odd chunk with its padding", file(chunk("LIST", []byte("odd")), mono, chunk("note", []byte("x")), data), 1, 16000},
		{"longer format chunk", file(chunk("fmt ", append(format(formatPCM, 1, 8000, 16), 0, 0)), data), 1, 8000},
		{"extensible", file(chunk("fmt ", extensible(formatPCM, subFormatTail)), data), 1, 16000},
		{"something behind the audio", append(file(mono, data), "tail"...), 1, 16000},
	} {
		t.Run(test.name, func(t *testing.T) {
			audio, err := Parse(test.file)
			if err != nil {
				t.Fatal(err)
			}
			if audio.Channels != test.channels || audio.SampleRate != test.rate || audio.BitsPerSample != 16 || !bytes.Equal(audio.PCM, pcm) {
				t.Errorf("got %+v", audio)
			}
		})
	}
}

func TestParseEmptyAudio(t *testing.T) {
	audio, err := Parse(file(chunk("fmt ", format(formatPCM, 1, 16000, 16)), chunk("data", nil)))
	if err != nil || len(audio.PCM) != 0 {
		t.Errorf("got %+v, %v", audio, err)
	}
}

func TestParseUnknownSize(t *testing.T) {
	content := file(chunk("fmt ", format(formatPCM, 1, 16000, 16)), chunk("data", []byte{1, 2, 3, 4}))
	copy(content[len(content)-8:], "\xff\xff\xff\xff")
	for _, tail := range []string{"", "\x05"} { // half a sample at the end is left out
		if audio, err := Parse(append(content, tail...)); err != nil || string(audio.PCM) != "\x01\x02\x03\x04" {
			t.Errorf("got %+v, %v", audio, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	pcm := []byte{1, 2, 3, 4}
	mono := chunk("fmt ", format(formatPCM, 1, 16000, 16))
	data := chunk("data", pcm)
	whole := file(mono, data)
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"nothing", nil, "not a WAV file"},
		{"not RIFF", []byte("OggS and a lot more"), `begins with "OggS and a l"`},
		{"RIFF of another kind", []byte("RIFF\x04\x00\x00\x00AVI "), "not a WAV file"},
		{"cut in the audio", whole[:len(whole)-1], `truncated WAV file: chunk "data" has 3 of its 4 bytes`},
		{"cut in a chunk's header", whole[:len(whole)-7], "5 bytes where a chunk should begin"},
		{"no audio", file(mono), `no chunk "data"`},
		{"no format", file(chunk("LIST", pcm)), `no chunk "fmt "`},
		{"audio before format", file(data, mono), "comes before"},
		{"short format", file(chunk("fmt ", []byte{1, 0}), data), "has 2 bytes, but needs 16"},
		{"short extensible format", file(chunk("fmt ", format(formatExtensible, 1, 16000, 16)), data), "but needs 40"},
		{"float", file(chunk("fmt ", format(formatFloat, 1, 16000, 32)), data), "is floating point: convert it to uncompressed 16-bit PCM"},
		{"extensible float", file(chunk("fmt ", extensible(formatFloat, subFormatTail)), data), "is floating point"},
		{"extensible unknown", file(chunk("fmt ", extensible(formatPCM, strings.Repeat("x", 14))), data), "in an unknown format"},
		{"A-law", file(chunk("fmt ", format(formatALaw, 1, 8000, 8)), data), "is A-law"},
		{"mu-law", file(chunk("fmt ", format(formatMuLaw, 1, 8000, 8)), data), "is mu-law"},
		{"MP3", file(chunk("fmt ", format(0x55, 1, 8000, 0)), data), "in format 0x0055"},
		{"8 bits", file(chunk("fmt ", format(formatPCM, 1, 8000, 8)), data), "is 8-bit PCM: convert it to uncompressed 16-bit PCM"},
		{"24 bits", file(chunk("fmt ", format(formatPCM, 1, 8000, 24)), data), "is 24-bit PCM"},
		{"no channels", file(chunk("fmt ", format(formatPCM, 0, 8000, 16)), data), "no channels"},
		{"no rate", file(chunk("fmt ", format(formatPCM, 1, 0, 16)), data), "sample rate is 0"},
		{"tiny rate", file(chunk("fmt ", format(formatPCM, 1, 1, 16)), data), "sample rate is 1 Hz: use 1000 to 384000"},
		{"huge rate", file(chunk("fmt ", format(formatPCM, 1, 384_001, 16)), data), "sample rate is 384001 Hz"},
		{"half a sample", file(mono, chunk("data", pcm[:3])), "bytes of audio, 3, is not a multiple of 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			audio, err := Parse(test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v; want an error with %q", audio, err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(chunk("fmt ", format(formatPCM, 1, 16000, 16)), chunk("data", []byte{1, 2})))
	f.Fuzz(func(t *testing.T, b []byte) {
		audio, err := Parse(b)
		if (audio == nil) == (err == nil) {
			t.Errorf("got %v, %v", audio, err)
		}
	})
}
