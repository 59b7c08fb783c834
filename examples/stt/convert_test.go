package main

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// tone is a second of sound.
func tone(rate int, frequency, amplitude float64, channels int) *wav.Audio {
	audio := &wav.Audio{SampleRate: rate, Channels: channels, BitsPerSample: 16}
	for i := range rate {
		v := amplitude * math.Sin(2*math.Pi*frequency*float64(i)/float64(rate))
		for range channels {
			audio.PCM = binary.LittleEndian.AppendUint16(audio.PCM, uint16(int16(math.Round(v))))
		}
	}
	return audio
}

// deviation is the root mean square of the difference between audio and a tone at sampleRate, its edges aside.
func deviation(pcm []byte, frequency, amplitude float64) float64 {
	want := tone(sampleRate, frequency, amplitude, 1).PCM
	sum, n := 0.0, 0
	for i := 1000; i < len(want)-1000; i += 2 {
		d := float64(int16(binary.LittleEndian.Uint16(pcm[i:]))) - float64(int16(binary.LittleEndian.Uint16(want[i:])))
		sum += d * d
		n++
	}
	return math.Sqrt(sum / float64(n))
}

func TestConvertKeepsWhatHasRoom(t *testing.T) {
	for _, test := range []struct {
		rate, channels int
		frequency      float64
	}{{8000, 1, 3000}, {16000, 2, 440}, {44100, 1, 440}, {44100, 2, 6000}, {48000, 1, 100}} {
		pcm := convert(tone(test.rate, test.frequency, 10000, test.channels))
		if len(pcm) != 2*sampleRate {
			t.Errorf("%+v: a second has %d bytes", test, len(pcm))
		} else if d := deviation(pcm, test.frequency, 10000); d > 50 {
			t.Errorf("%+v: it is off by %.0f of 10000", test, d)
		}
	}
}

func TestConvertTakesOutWhatHasNoRoom(t *testing.T) {
	for _, frequency := range []float64{9000, 20000} {
		if d := deviation(convert(tone(48000, frequency, 10000, 1)), 0, 0); d > 50 {
			t.Errorf("a tone of %v Hz leaves %.0f of 10000 behind", frequency, d)
		}
	}
}

func TestConvertMixesChannels(t *testing.T) {
	pcm := binary.LittleEndian.AppendUint16(nil, 3000)
	left := int16(-1000)
	pcm = binary.LittleEndian.AppendUint16(pcm, uint16(left))
	got := convert(&wav.Audio{SampleRate: sampleRate, Channels: 2, BitsPerSample: 16, PCM: pcm})
	if len(got) != 2 || binary.LittleEndian.Uint16(got) != 1000 {
		t.Errorf("got %v", got)
	}
}

func TestBuiltInClips(t *testing.T) {
	clips, err := loadClips(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(clips) != 5 {
		t.Errorf("there are %d clips", len(clips))
	}
	for _, c := range clips {
		if seconds := len(c.pcm) / 2 / sampleRate; seconds < 2 || seconds > 8 {
			t.Errorf("%s has %d seconds", c.name, seconds)
		}
	}
}
