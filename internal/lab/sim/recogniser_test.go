package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// sound is a part of an audio made for a test.
type sound struct {
	length    time.Duration
	amplitude float64 // of a sine wave; 0 for silence
}

const rate = defaultSampleRate

// tone returns the sounds one after the other.
func tone(sounds ...sound) []byte {
	var pcm []byte
	for _, s := range sounds {
		for i := range int(s.length * rate / time.Second) {
			v := int16(s.amplitude * math.Sin(2*math.Pi*440*float64(i)/rate))
			pcm = binary.LittleEndian.AppendUint16(pcm, uint16(v))
		}
	}
	return pcm
}

// unsummed matches the checksums in a text; the tests of words leave them out.
var unsummed = regexp.MustCompile(`(heard-\d+ms)-[0-9a-f]{8}`)

func texts(words []word) string {
	var b []string
	for _, w := range words {
		b = append(b, w.text)
	}
	return strings.Join(b, " ")
}

// recording returns the audio of the recorded speech.
func recording(t testing.TB) []byte {
	t.Helper()
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	if audio.SampleRate != rate || audio.Channels != 1 {
		t.Fatalf("the recording has %d channels at %d Hz", audio.Channels, audio.SampleRate)
	}
	return audio.PCM
}

const ms = time.Millisecond

func TestRecogniser(t *testing.T) {
	loud, soft := 10000.0, 1000.0
	for _, test := range []struct {
		name   string
		sounds []sound
		during string // results while listening
		after  string // results of finish
	}{
		{"nothing", nil, "", ""},
		{"silence", []sound{{3 * time.Second, 0}}, "", ""},
		{"below the threshold", []sound{{time.Second, 400}}, "", ""},
		{"a click", []sound{{20 * ms, loud}, {time.Second, 0}}, "", ""},
		{"speech to the end", []sound{{420 * ms, loud}}, "", "utterance-1 speech-420ms-13dB heard-420ms"},
		{"softer", []sound{{420 * ms, soft}}, "", "utterance-1 speech-420ms-33dB heard-420ms"},
		{"speech and a pause", []sound{{100 * ms, 0}, {420 * ms, loud}, {time.Second, 0}}, "utterance-1 speech-420ms-13dB heard-920ms", ""},
		{"a gap inside a word", []sound{{100 * ms, loud}, {40 * ms, 0}, {100 * ms, loud}, {time.Second, 0}}, "utterance-1 speech-240ms-14dB heard-640ms", ""},
		{
			"two words",
			[]sound{{100 * ms, loud}, {200 * ms, 0}, {140 * ms, soft}, {time.Second, 0}},
			"utterance-1 speech-100ms-13dB speech-140ms-33dB heard-840ms", "",
		},
		{
			"two utterances",
			[]sound{{100 * ms, loud}, {time.Second, 0}, {200 * ms, loud}, {40 * ms, 0}},
			"utterance-1 speech-100ms-13dB heard-500ms", "utterance-2 speech-200ms-13dB heard-1340ms",
		},
		{
			"a click between words",
			[]sound{{100 * ms, loud}, {200 * ms, 0}, {20 * ms, loud}, {time.Second, 0}},
			"utterance-1 speech-100ms-13dB heard-720ms", "",
		},
		{"full scale", []sound{{100 * ms, 32767}}, "", "utterance-1 speech-100ms-3dB heard-100ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRecogniser(rate)
			pcm := tone(test.sounds...)
			for range 2 { // finish begins anew
				r.listen(pcm)
				if got := unsummed.ReplaceAllString(texts(r.results()), "$1"); got != test.during {
					t.Errorf("while listening: %q; want %q", got, test.during)
				}
				if got := unsummed.ReplaceAllString(texts(r.finish()), "$1"); got != test.after {
					t.Errorf("at the end: %q; want %q", got, test.after)
				}
			}
		})
	}
}

// The words depend on the audio alone, not on how it was cut.
func TestRecogniserIgnoresCuts(t *testing.T) {
	pcm := recording(t)
	whole := newRecogniser(rate)
	whole.listen(pcm)
	want := slices.Concat(whole.results(), whole.finish())
	t.Log(texts(want))
	if len(want) < 9 {
		t.Errorf("only %d words in the recording: %s", len(want), texts(want))
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		r := newRecogniser(rate)
		var got []word
		for rest := pcm; len(rest) > 0; {
			n := min(len(rest), 2*(1+dice.IntN(1<<(1+round%16))))
			r.listen(rest[:n])
			rest = rest[n:]
			got = append(got, r.results()...)
		}
		if got = append(got, r.finish()...); !slices.Equal(got, want) {
			t.Fatalf("got %v; want %v", got, want)
		}
	}
}

func TestRecogniserPartial(t *testing.T) {
	r := newRecogniser(rate)
	for _, step := range []struct {
		sound sound
		want  string
	}{
		{sound{100 * ms, 0}, ""},
		{sound{20 * ms, 9000}, ""}, // may still be a click
		{sound{20 * ms, 9000}, "speech-40ms-14dB"},
		{sound{100 * ms, 9000}, "speech-140ms-14dB"},
		{sound{200 * ms, 0}, "speech-140ms-14dB"},
		{sound{100 * ms, 9000}, "speech-140ms-14dB speech-100ms-14dB"},
		{sound{500 * ms, 0}, ""},
	} {
		r.listen(tone(step.sound))
		if got := texts(r.underWay()); got != step.want {
			t.Errorf("after %v: %q; want %q", step.sound, got, step.want)
		}
	}
}

// Speech without a pause does not pile up for ever.
func TestRecogniserBoundsUtterances(t *testing.T) {
	r := newRecogniser(rate)
	for range 10 * longestUtterance {
		r.listen(tone(sound{60 * ms, 9000}, sound{120 * ms, 0}))
		if n := len(r.underWay()); n > longestUtterance {
			t.Fatalf("%d words in an utterance", n)
		}
	}
	if n := strings.Count(texts(r.results()), "utterance-"); n < 9 {
		t.Errorf("%d utterances", n)
	}
}

// The checksum is the one that everybody computes.
func TestRecogniserChecksum(t *testing.T) {
	pcm := tone(sound{100 * ms, 9000})
	r := newRecogniser(rate)
	r.listen(pcm)
	want := fmt.Sprintf("utterance-1 speech-100ms-14dB heard-100ms-%08x", newSum(pcm))
	if got := texts(r.finish()); got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// What is missing, or comes from another stream, shows.
func TestRecogniserShowsFaults(t *testing.T) {
	pcm := recording(t)
	transcript := func(parts ...[]byte) string {
		r := newRecogniser(rate)
		for _, p := range parts {
			r.listen(p)
		}
		return texts(append(r.results(), r.finish()...))
	}
	want := transcript(pcm)
	const at, n = 40000, 3200
	for name, got := range map[string]string{
		"lost":     transcript(pcm[:at], pcm[at+n:]),
		"doubled":  transcript(pcm[:at+n], pcm[at:]),
		"foreign":  transcript(pcm[:at], make([]byte, n), pcm[at:]),
		"replaced": transcript(pcm[:at], tone(sound{100 * ms, 9000}), pcm[at+n:]),
	} {
		if got == want {
			t.Errorf("%s audio left the transcript as it was: %s", name, got)
		}
	}
}

func BenchmarkRecogniser(b *testing.B) {
	pcm := recording(b)
	r := newRecogniser(rate)
	b.SetBytes(int64(len(pcm)))
	for b.Loop() {
		r.listen(pcm)
		r.results()
	}
}

func newSum(pcm []byte) uint32 { return crc32.ChecksumIEEE(pcm) }
