package replay

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim/speech"
	"github.com/wsbouncer/wsbouncer/internal/protocol/profile"
	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

const rate = 16000

// sound returns the sample at an instant, in seconds.
type sound func(at float64) float64

// make makes this many seconds of it.
func (s sound) make(seconds float64) []float64 {
	samples := make([]float64, int(seconds*rate))
	for i := range samples {
		samples[i] = max(-1, min(1, s(float64(i)/rate)))
	}
	return samples
}

// level returns the amplitude of a level in dB below full scale, as the root of the mean square.
func level(db float64) float64 { return math.Pow(10, db/20) }

func noise(db float64) sound {
	r := rand.New(rand.NewPCG(1, 2))
	return func(float64) float64 { return r.NormFloat64() * level(db) }
}

func tone(hz, db float64) sound {
	return func(at float64) float64 { return math.Sin(2*math.Pi*hz*at) * level(db) * math.Sqrt2 }
}

// between has a sound only between two instants.
func (s sound) between(from, to float64) sound {
	return func(at float64) float64 {
		if v := s(at); at >= from && at < to {
			return v
		}
		return 0
	}
}

func (s sound) plus(other sound) sound { return func(at float64) float64 { return s(at) + other(at) } }

// spoken is the recording of three sentences, in dB relative to its level.
func spoken(t testing.TB, db float64) sound {
	audio, err := wav.Parse(speech.WAV)
	if err != nil {
		t.Fatal(err)
	}
	return func(at float64) float64 {
		if i := int(math.Round(at * rate)); i >= 0 && i*2+1 < len(audio.PCM) {
			return float64(int16(binary.LittleEndian.Uint16(audio.PCM[i*2:]))) / (1 << 15) * level(db)
		}
		return 0
	}
}

// s16 encodes samples.
func s16(samples []float64) []byte {
	var b []byte
	for _, v := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(v*(1<<15-1))))
	}
	return b
}

func hear(b []byte) *Detector {
	d := NewDetector(profile.S16LE, rate, 1)
	d.Write(b)
	return &d
}

// TestDetector says what the detector does with each sound: how much speech it finds, at least and at most.
func TestDetector(t *testing.T) {
	silence := sound(func(float64) float64 { return 0 })
	said := spoken(t, 0)
	clicks := func(at float64) float64 {
		if math.Mod(at, 0.2) < 0.002 {
			return 0.8
		}
		return 0
	}
	keys := noise(-15)
	typing := func(at float64) float64 { // 30 ms of noise at uneven intervals, as keys make it
		v := keys(at)
		if math.Mod(at+0.01*math.Sin(9*at), 0.17) < 0.03 {
			return v
		}
		return 0
	}
	var speechPower float64
	for _, v := range said.make(8) {
		speechPower += v * v / (8 * rate)
	}
	speechLevel := 10 * math.Log10(speechPower)
	for _, c := range []struct {
		name        string
		sound       sound
		seconds     float64
		least, most float64
	}{
		{"digital silence", silence, 60, 0, 0},
		{"white noise at -70 dB", noise(-70), 20, 0, 0},
		{"white noise at -50 dB", noise(-50), 20, 0, 0},
		{"white noise at -30 dB", noise(-30), 20, 0, 0},
		{"white noise at -10 dB", noise(-10), 20, 0, 0},
		{"a hum of 50 Hz at -20 dB", tone(50, -20), 20, 0, 0},
		{"a hum of 60 Hz and its harmonics", tone(60, -25).plus(tone(120, -30)).plus(tone(180, -35)), 20, 0, 0},
		{"constant 0.5", func(float64) float64 { return 0.5 }, 20, 0, 0},
		{"a constant that jumps", sound(func(float64) float64 { return 0.6 }).between(3, 20), 10, 0, 0},
		{"clicks, five a second", clicks, 20, 0, 0},
		{"keys, six a second", typing, 20, 0, 0},
		{"a fan that is switched on", noise(-60).plus(noise(-30).between(5, 20)), 20, 0, 0},
		{"a tone that is switched on", noise(-60).plus(tone(1000, -20).between(5, 20)), 20, 0, 0},
		{"a beep of 0.5 s each 2 s", func(at float64) float64 {
			return tone(1000, -20).between(0.5, 1)(math.Mod(at, 2))
		}, 20, 0, 0},
		{"speech", said, 8, 4, 7.5},
		{"quiet speech, -25 dB", spoken(t, -25), 8, 3, 7.5},
		{"speech after 5 s of silence", func(at float64) float64 { return said(at - 5) }, 13, 4, 7.5},
		{"speech with a constant 0.3", said.plus(func(float64) float64 { return 0.3 }), 8, 4, 7.5},
		{"speech with a hum of 50 Hz, 15 dB below", said.plus(tone(50, speechLevel-15)), 8, 3, 7.5},
		{"speech, noise 20 dB below", said.plus(noise(speechLevel - 20)), 8, 4, 7.5},
		{"speech, noise 10 dB below", said.plus(noise(speechLevel - 10)), 8, 2, 7.5},
		{"speech, noise 5 dB below", said.plus(noise(speechLevel - 5)), 8, 0.3, 7.5},
		{"noise as loud as speech", said.plus(noise(speechLevel + 10)), 8, 0, 0},
	} {
		d := hear(s16(c.sound.make(c.seconds)))
		found := d.Spoken().Seconds()
		t.Logf("%s: %.2f s of speech in %.0f s", c.name, found, c.seconds)
		if found < c.least || found > c.most {
			t.Errorf("%s: %.2f s of speech, expected %v to %v", c.name, found, c.least, c.most)
		}
		if d.Heard().Seconds() != c.seconds {
			t.Errorf("%s: heard %v", c.name, d.Heard())
		}
		if c.name == "speech" && (d.LastVoice() < 6*time.Second || d.LastVoice() > 8*time.Second) {
			t.Errorf("%s: ended at %v", c.name, d.LastVoice())
		}
	}
}

// TestDetectorSoon says how much speech it takes until there is some.
func TestDetectorSoon(t *testing.T) {
	b := s16(spoken(t, 0).make(8))
	d := NewDetector(profile.S16LE, rate, 1)
	for at := 0; at < len(b); at += rate / 50 * 2 {
		if d.Write(b[at : at+rate/50*2]); d.Spoken() > 0 {
			t.Logf("found after %v", d.Heard())
			if d.Heard() > time.Second {
				t.Errorf("found after %v only", d.Heard())
			}
			return
		}
	}
	t.Error("never found")
}

// TestDetectorFormats has the same speech in each encoding, at another rate, in two channels, and cut at each place.
func TestDetectorFormats(t *testing.T) {
	said := spoken(t, 0).make(8)
	expected := hear(s16(said)).Spoken()
	quiet := make([]float64, len(said))
	encode := map[profile.Encoding]func(dst []byte, v float64) []byte{
		profile.S16LE: func(dst []byte, v float64) []byte { return append(dst, s16([]float64{v})...) },
		profile.F32LE: func(dst []byte, v float64) []byte {
			return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
		},
		profile.U8:    func(dst []byte, v float64) []byte { return append(dst, byte(128+v*127)) },
		profile.MuLaw: encoder(muLaw),
		profile.ALaw:  encoder(aLaw),
	}
	for e, f := range encode {
		for _, layout := range []struct {
			name           string
			rate, channels int
			other          []float64 // the second channel
		}{{"one channel", rate, 1, nil}, {"8 kHz", rate / 2, 1, nil}, {"speech left", rate, 2, quiet}} {
			if layout.name != "one channel" && e != profile.S16LE && e != profile.MuLaw {
				continue
			}
			var b, none []byte
			for i := range said {
				if layout.rate != rate && i%2 == 1 {
					continue
				}
				b, none = f(b, said[i]), f(none, 0)
				if layout.channels == 2 {
					b, none = f(b, layout.other[i]), f(none, 0)
				}
			}
			d := NewDetector(e, layout.rate, layout.channels)
			for len(b) > 0 {
				n := min(len(b), 1+rand.IntN(5000))
				d.Write(b[:n])
				b = b[n:]
			}
			if d.Heard() != 8*time.Second || d.Spoken() < expected*8/10 || d.Spoken() > expected*12/10 {
				t.Errorf("%v, %s: %v of speech in %v, expected %v", e, layout.name, d.Spoken(), d.Heard(), expected)
			}
			d.Reset()
			if d.Write(none); d.Heard() != 8*time.Second || d.Spoken() != 0 {
				t.Errorf("%v, %s: %v of speech in %v of silence", e, layout.name, d.Spoken(), d.Heard())
			}
		}
	}
}

// encoder returns what encodes a sample: the code whose value is nearest, in steps of 1/2048.
func encoder(decode func(byte) int) func(dst []byte, v float64) []byte {
	var codes [4097]byte
	for i := range codes {
		v := (i - 2048) * 16
		for b := range 256 {
			if abs(decode(byte(b))-v) < abs(decode(codes[i])-v) {
				codes[i] = byte(b)
			}
		}
	}
	return func(dst []byte, v float64) []byte { return append(dst, codes[int(math.Round(v*2048))+2048]) }
}

func abs(v int) int { return max(v, -v) }

// TestG711 compares with values of the tables of ITU-T G.711.
func TestG711(t *testing.T) {
	for _, c := range []struct {
		code        byte
		muLaw, aLaw int
	}{
		{0x00, -32124, -5504},
		{0x80, 32124, 5504},
		{0x7f, 0, -848},
		{0xff, 0, 848},
		{0x2a, -5372, -32256},
		{0xaa, 5372, 32256},
		{0xd5, 716, 8},
		{0x55, -716, -8},
	} {
		if muLaw(c.code) != c.muLaw || aLaw(c.code) != c.aLaw {
			t.Errorf("%#02x is %d and %d, expected %d and %d", c.code, muLaw(c.code), aLaw(c.code), c.muLaw, c.aLaw)
		}
	}
}

// TestDetectorUnknown has audio that cannot be decoded, and floats that are no audio.
func TestDetectorUnknown(t *testing.T) {
	for _, d := range []Detector{NewDetector(profile.EncodingOther, rate, 1), NewDetector(profile.S16LE, 0, 0), NewDetector(profile.U8, 10, 1), {}} {
		if d.Write(make([]byte, 100_000)); d.Heard() != 0 || d.Spoken() != 0 {
			t.Errorf("heard %v, %v of speech", d.Heard(), d.Spoken())
		}
	}
	d := NewDetector(profile.F32LE, rate, 1)
	var b []byte
	for i := range 8 * rate {
		b = binary.LittleEndian.AppendUint32(b, []uint32{0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff}[i/100%4])
	}
	if d.Write(b); d.Spoken() != 0 {
		t.Errorf("%v of speech in numbers that are none", d.Spoken())
	}
}

func BenchmarkDetector(b *testing.B) {
	second := s16(noise(-30).make(1))
	d := NewDetector(profile.S16LE, rate, 1)
	b.SetBytes(int64(len(second)))
	b.ReportAllocs()
	for b.Loop() {
		d.Write(second)
	}
}
