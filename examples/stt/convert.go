package main

import (
	"encoding/binary"
	"math"

	"github.com/wsbouncer/wsbouncer/internal/protocol/wav"
)

// convert returns the audio as one channel at sampleRate: the channels' mean, resampled.
func convert(audio *wav.Audio) []byte {
	frame := 2 * audio.Channels
	mono := make([]float64, len(audio.PCM)/frame)
	for i := range mono {
		for channel := range audio.Channels {
			mono[i] += float64(int16(binary.LittleEndian.Uint16(audio.PCM[i*frame+2*channel:])))
		}
		mono[i] /= float64(audio.Channels)
	}
	if audio.SampleRate != sampleRate {
		mono = resample(mono, float64(sampleRate)/float64(audio.SampleRate))
	}
	pcm := make([]byte, 0, 2*len(mono))
	for _, v := range mono {
		v = math.Round(min(max(v, math.MinInt16), math.MaxInt16))
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(int16(v)))
	}
	return pcm
}

// lobes is how many zero crossings of the sinc on each side belong to the filter: more make it steeper.
const lobes = 16

// resample returns the samples at ratio times their rate. Frequencies that the lower of the two rates has no room for are
// taken out first: each new sample is the sum of the old ones around it, weighted by a sinc under a Hann window.
func resample(samples []float64, ratio float64) []float64 {
	cutoff := 0.95 * min(1, ratio) // in relation to half the old rate: a little below, since the filter has a slope
	reach := lobes / cutoff
	resampled := make([]float64, int(float64(len(samples))*ratio))
	for i := range resampled {
		at := float64(i) / ratio
		sum, weights := 0.0, 0.0
		for k := int(math.Ceil(at - reach)); k <= int(math.Floor(at+reach)); k++ {
			distance := float64(k) - at
			weight := sinc(cutoff*distance) * (1 + math.Cos(math.Pi*distance/reach)) / 2
			weights += weight
			if k >= 0 && k < len(samples) {
				sum += weight * samples[k]
			}
		}
		resampled[i] = sum / weights
	}
	return resampled
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}
